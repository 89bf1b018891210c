"""The lock of a machine: two runs at once would measure each other, whichever checkouts they are of."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from run_benches.errors import UserError
from run_benches.places import LOCK

_held: list[TextIO] = []
"""The file of the lock, while this process holds it."""


@contextmanager
def alone() -> Iterator[None]:
    """Holds the lock of this machine's user, or complains about who holds it. Who holds it may ask again."""
    if _held:
        yield
        return
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = LOCK.open("a+", encoding="utf-8")
    except PermissionError:
        raise UserError(
            f"{LOCK} belongs to another user: remove it, or set XDG_CACHE_HOME to a folder of yours"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"another run is under way on this machine (process {file.read().strip() or 'unknown'}): wait for it, or end it"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.append(file)
        try:
            yield
        finally:
            _held.pop()
