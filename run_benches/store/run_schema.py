"""The JSON Schema of a stored run, made from the types that read one, so that the two cannot say different things.

Why it is stored: who reads a run with other tools needs its shape without reading this code. A test compares the file
with what is made here, and every stored baseline with the file.
"""

import dataclasses
import inspect
import types
import typing
from typing import Any

from run_benches import places
from run_benches.store import runs

FILE = places.ROOT / "docs" / "run.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema() -> dict[str, Any]:
    """The schema of a run of this version's format."""
    definitions: dict[str, Any] = {}
    whole = _schema_of(runs.Run, definitions)
    about = f"A run of run-benches.py, schema {runs.SCHEMA}. Times are in nanoseconds an operation."
    return {"$schema": DIALECT, "title": "Run", "description": about, **whole, "$defs": dict(sorted(definitions.items()))}


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind is Any or kind is object:
        return {}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema_of(argument, definitions) for argument in arguments]}
    if kind is types.NoneType:
        return {"type": "null"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if dataclasses.is_dataclass(kind):
        return _reference(typing.cast(type, kind), definitions)
    return {"type": _SCALARS[kind]}


def _reference(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
        needed = [field.name for field in fields if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING]
        definitions[kind.__name__] = {
            "description": " ".join((inspect.getdoc(kind) or "").split()),
            "type": "object",
            "properties": {field.name: _schema_of(hints[field.name], definitions) for field in fields},
            "required": needed,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}

