"""The common part of all stored files: a schema that is checked before anything else is read, a name that is given
once, and the word by which a person means one.

What is measured here is ordered by its name, which begins with a second: that of its making, or, where the clock has
been further already or is no further, the one after the newest. So what was made last is last whatever the clock did,
and whenever a file was copied or resumed. When it was made by the clock stands in the file (`started`).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from run_benches import files, serialization
from run_benches.errors import UserError
from run_benches.places import REFERENCE, shown


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Makes a complaint of one line of whatever is wrong with the file that is read meanwhile."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {error.strerror}") from error
    except (serialization.Malformed, ValueError) as error:
        raise UserError(f"{shown(path)} is damaged ({error}); restore it or remove it") from error


def content(path: Path, newest: int) -> dict[str, Any]:
    """Returns the content of a file of JSON, of a schema up to the newest that is known here."""
    found = serialization.load(dict[str, Any], path)
    check_schema(found.get("schema"), newest, path)
    return found


def check_schema(schema: object, newest: int, path: Path) -> None:
    """Refuses a file without a schema, and one that a later version wrote."""
    if not isinstance(schema, int):
        raise serialization.Malformed("schema is missing")
    if schema > newest:
        raise UserError(
            f"{shown(path)} has schema {schema}, and this version reads up to {newest}: use a newer run-benches.py"
        )


def past(folder: Path, kind: str) -> list[Path]:
    """The files of what was measured here, oldest first; `kind` is what their names begin with before the second.
    Earlier versions added a number where two were made in one second."""
    found = [
        (match, path)
        for path in folder.glob(f"{kind}*.json")
        if (match := re.match(rf"{kind}(\d{{8}}T\d{{6}}).*?(?:-(\d\d?))?$", path.stem))
    ]
    return [path for _, _, path in sorted((match[1], int(match[2] or 1), path) for match, path in found)]


def kept(folder: Path) -> list[Path]:
    """Returns the files of a folder that were given a name, by name; the reference, which is a set, among them."""
    found = {path.stem: path for path in sorted(folder.glob("*.json"))}
    return list((found | {path.name: path for path in (folder / REFERENCE.name,) if path.is_dir()}).values())


def single(path: Path) -> Path:
    """The file of one run; a complaint about a set."""
    if path.is_dir():
        raise UserError(
            f"{shown(path)} is a set of runs, each of which may be of another revision: name one of its files"
        )
    return path


def new(folder: Path, kind: str, *words: str) -> Path:
    """The file of what is made now: behind all of its kind, with the words in its name. A folder is made beside it, for
    what belongs to it, and so that no other process takes the same name."""
    second = datetime.now(UTC)
    for path in folder.glob(f"{kind}*"):
        with suppress(ValueError, OverflowError):  # another kind
            second = max(
                second,
                datetime.strptime(path.name[len(kind) :][:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
                + timedelta(seconds=1),
            )
    path = folder / f"{'-'.join((f'{kind}{second:%Y%m%dT%H%M%SZ}', *words))}.json"
    try:
        path.with_suffix("").mkdir(parents=True)
    except FileExistsError:
        return new(folder, kind, *words)
    return path


def named(folder: Path, name: str, what: str) -> Path:
    """The file of this name in a folder; the name is checked, since it becomes a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) or name.endswith(".json"):
        raise UserError(
            f"{name!r} is no name for a {what}: use up to 64 letters, digits, dots, dashes and underscores, without .json"
        )
    return folder / f"{name}.json"


def check_free(path: Path) -> None:
    """Refuses a name that means something else already, and one that is taken: what was kept under it is never
    overwritten."""
    if re.match(r"(?i:last|head)$|(compare-|load-|load-compare-)?\d{8}T\d{6}", path.stem):
        raise UserError(
            f"{path.stem!r} is reserved (`last`, HEAD and names like those of runs mean something already): choose another name"
        )
    if path.stem == REFERENCE.name:
        raise UserError(
            "the reference is a set, each layer and each scenario of which is renewed by itself: run-benches.py renew"
        )
    if path.exists():
        raise _taken(path)


def keep(path: Path, value: object) -> Path:
    """Stores a value in a new file of a free name, also when two processes do so at once."""
    check_free(path)
    try:
        files.create(path, serialization.text(value))
    except FileExistsError:
        raise _taken(path) from None
    return path


def find(name: str | None, past: Sequence[Path], kept: Sequence[Path], what: str, begin: str) -> Path:
    """The file that a person means: one that was kept, one of the past (oldest first), a path, or `last`, which is the
    default. `begin` is the command that makes the first."""
    if name in (None, "last"):
        if not past:
            raise UserError(f"no {what} was made here yet: {begin}")
        return past[-1]
    by_name = {path.stem: path for path in (*past, *kept)}
    found = by_name.get(name or "", Path(name or ""))
    if not (found.is_file() or (name and any(found.glob("*.json")))):
        known = ", ".join(path.stem for path in (*kept, *past[-3:])) or "none yet"
        raise UserError(f"no stored {what} {name!r}: give a name, a file or `last` (known: {known})")
    return found


def _taken(path: Path) -> UserError:
    return UserError(f"{shown(path)} is there and is never overwritten; choose another name, or remove it")
