"""What all stored files have in common: a schema that is checked before anything else is read, a name that is given once, and the word by
which a person means one."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from run_benches import files, serialization
from run_benches.errors import Complaint
from run_benches.places import shown


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Makes a complaint of one line of whatever is wrong with the file that is read meanwhile."""
    try:
        yield
    except OSError as error:
        raise Complaint(f"cannot read {shown(path)}: {error.strerror}") from error
    except (serialization.Malformed, ValueError) as error:
        raise Complaint(f"{shown(path)} is damaged ({error}); restore it or remove it") from error


def content(path: Path, newest: int) -> dict[str, Any]:
    """What stands in a file of JSON, of a schema up to the newest that is known here."""
    found = serialization.load(dict[str, Any], path)
    check_schema(found.get("schema"), newest, path)
    return found


def check_schema(schema: object, newest: int, path: Path) -> None:
    """Refuses a file without a schema, and one that a later version wrote."""
    if not isinstance(schema, int):
        raise serialization.Malformed("schema is missing")
    if schema > newest:
        raise Complaint(f"{shown(path)} has schema {schema}, and this version reads up to {newest}: use a newer run-benches.py")


def named(folder: Path, name: str, what: str) -> Path:
    """The file of this name in a folder; the name is checked, since it becomes a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) or name.endswith(".json"):
        raise Complaint(f"{name!r} is no name for a {what}: use up to 64 letters, digits, dots, dashes and underscores, without .json")
    return folder / f"{name}.json"


def check_free(path: Path) -> None:
    """Refuses a name that is taken: what was kept under it is never overwritten."""
    if path.exists():
        raise _taken(path)


def keep(path: Path, value: object) -> Path:
    """Stores a value in a new file, also when two processes do so at once."""
    try:
        files.create(path, serialization.text(value))
    except FileExistsError:
        raise _taken(path) from None
    return path


def find(name: str | None, past: Sequence[Path], kept: Sequence[Path], what: str, begin: str) -> Path:
    """The file that a person means: one that was kept, one of the past (oldest first), a path, or `last`, which is the default. `begin` is
    the command that makes the first."""
    if name in (None, "last"):
        if not past:
            raise Complaint(f"no {what} was made here yet: {begin}")
        return past[-1]
    by_name = {path.stem: path for path in (*past, *kept)}
    found = by_name.get(name or "", Path(name or ""))
    if not found.is_file():
        known = ", ".join(path.stem for path in (*kept, *past[-3:])) or "none yet"
        raise Complaint(f"no stored {what} {name!r}: give a name, a file or `last` (known: {known})")
    return found


def _taken(path: Path) -> Complaint:
    return Complaint(f"{shown(path)} is there and is never overwritten; choose another name, or remove it")
