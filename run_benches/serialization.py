"""JSON to dataclasses and back, with one clear line when the text is not what it should be.

Why: run files, facts and Criterion's output are read by code that was not written with them (older, newer, cut off by a
full disk). Each is parsed once, at the border, into a type; behind the border nothing is looked up by string and
nothing is missing.
"""

import json
from pathlib import Path
from typing import TypeVar

import msgspec

from run_benches import files

T = TypeVar("T")


class Malformed(Exception):
    """The value is not of the type that was asked for; the text says where and why."""


def parse(kind: type[T], value: object) -> T:
    """Turns decoded JSON into `kind`: a dataclass, list, dict, literal, optional or scalar. Unknown keys are ignored."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from error


def load(kind: type[T], path: Path) -> T:
    """Parses the file at `path` into `kind`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error


def text(value: object) -> str:
    """JSON in the order in which the fields are declared, the innermost lists and objects on a line each, so that two
    files can be compared by eye and by diff; a number that JSON does not have is a ValueError."""
    return _laid_out(msgspec.to_builtins(value), "\n") + "\n"


def _laid_out(value: object, line: str) -> str:
    """JSON behind the beginning of a line with its indent."""
    inner = line + " "
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        items = [f"{json.dumps(name, ensure_ascii=False)}: {_laid_out(one, inner)}" for name, one in value.items()]
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return f"[{inner}{f',{inner}'.join(_laid_out(one, inner) for one in value)}{line}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def store(path: Path, value: object) -> None:
    """Replaces the file at `path` by the text of a value."""
    files.replace(path, text(value))
