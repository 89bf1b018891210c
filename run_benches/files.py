"""Writing files: the runner's own in one step, those that a person names as a shell's `>` would. Modes come from the
umask."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from run_benches.errors import UserError
from run_benches.places import shown


def replace(path: Path, content: str | bytes) -> None:
    """A reader sees the old file or the new one, never half of one; the new one is on the disk when this returns. Only
    a regular file is replaced: a link stays one, and into anything else is written."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        write(path, content)
        return
    with _beside(path, content) as new:
        os.replace(new, path)


def create(path: Path, content: str | bytes) -> None:
    """The same for a file that is not there yet. Of two processes that create it at once, one gets a FileExistsError."""
    with _beside(path, content) as new:
        try:
            os.link(new, path)
        except FileExistsError:
            raise
        except OSError:  # no hard links on this file system: who makes an empty file of this name may replace it
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            try:
                os.replace(new, path)
            except BaseException:
                path.unlink()
                raise


def write(path: Path, content: str | bytes) -> None:
    """Writes where a person says, as a shell's `>` would: into a device, a pipe, or the file that a link leads to,
    which keeps its mode and its other names; `-` is standard output. Folders that are missing are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        with open(sys.stdout.fileno() if str(path) == "-" else path, "wb", closefd=str(path) != "-") as file:
            file.write(_bytes(content))
    except BrokenPipeError:
        raise
    except FileExistsError as error:
        raise UserError(
            f"cannot write {shown(path)}: what should be a folder of it is a file; name another file"
        ) from error
    except OSError as error:
        raise UserError(f"cannot write {shown(path)}: {error.strerror}; make room or name another file") from error


@contextmanager
def _beside(path: Path, content: str | bytes) -> Iterator[Path]:
    """A new file in the folder of `path` that holds the content, synced; it is gone at the end unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        with open(new, "xb") as file:
            file.write(_bytes(content))
            file.flush()
            os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
