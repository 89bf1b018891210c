"""JSON to dataclasses and back, with one clear line when the text does not have the shape it should have.

Why: run files, facts and Criterion's output are read by code that was not written with them (older, newer, cut off by a full disk). Each
is parsed once, at the border, into a type; behind the border nothing is looked up by string and nothing is missing.
"""

import dataclasses
import json
import os
import tempfile
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class Misshapen(Exception):
    """The value is not of the shape that was asked for; the text says where and why."""


def parse(kind: type[T], value: object, where: str = "") -> T:
    """Turns decoded JSON into `kind`: a dataclass, list, dict, literal, optional or scalar. Unknown keys are ignored."""
    return typing.cast(T, _parse(kind, value, where))


def load(kind: type[T], path: Path) -> T:
    """Parses the file at `path` into `kind`."""
    try:
        return parse(kind, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise Misshapen(f"not JSON: {error}") from error


def text(value: object) -> str:
    """JSON in the order in which the fields are declared, so that two files can be compared by eye and by diff."""
    return json.dumps(_plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, content: str) -> None:
    """Replaces the file at `path` in one step: a reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)  # gone if we are interrupted right after it was renamed
        raise


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _parse(kind: Any, value: object, where: str) -> object:
    if kind is Any or kind is object:
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _parse_optional(arguments, value, where)
    if origin is typing.Literal:
        return _expect(value in arguments, value, where, " or ".join(map(repr, arguments)))
    if origin is list:
        _expect(isinstance(value, list), value, where, "a list")
        return [_parse(arguments[0], entry, f"{where}[{n}]") for n, entry in enumerate(typing.cast(list[object], value))]
    if origin is tuple:
        entries = typing.cast(list[object], _expect(isinstance(value, list) and len(value) == len(arguments), value, where, f"a list of {len(arguments)}"))
        return tuple(_parse(argument, entry, f"{where}[{n}]") for n, (argument, entry) in enumerate(zip(arguments, entries, strict=True)))
    if origin is dict:
        _expect(isinstance(value, dict), value, where, "an object")
        return {key: _parse(arguments[1], entry, _within(where, key)) for key, entry in typing.cast(dict[str, object], value).items()}
    if dataclasses.is_dataclass(kind):
        return _parse_dataclass(kind, value, where)
    return _parse_scalar(kind, value, where)


def _parse_optional(arguments: tuple[Any, ...], value: object, where: str) -> object:
    if value is None and types.NoneType in arguments:
        return None
    (kind,) = (argument for argument in arguments if argument is not types.NoneType)
    return _parse(kind, value, where)


def _parse_dataclass(kind: Any, value: object, where: str) -> object:
    if not isinstance(value, dict):
        raise Misshapen(f"{where or 'the whole'} should be an object, not {_short(value)}")
    hints, found = typing.get_type_hints(kind), {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            found[field.name] = _parse(hints[field.name], value[field.name], _within(where, field.name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Misshapen(f"{_within(where, field.name)} is missing")
    return kind(**found)


def _parse_scalar(kind: Any, value: object, where: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return _expect(fits, value, where, names.get(kind, str(kind)))


def _expect(fits: bool, value: object, where: str, wanted: str) -> object:
    if not fits:
        raise Misshapen(f"{where or 'the whole'} should be {wanted}, not {_short(value)}")
    return value


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _short(value: object) -> str:
    shown = json.dumps(value, default=str)
    return shown if len(shown) <= 40 else shown[:37] + "..."
