"""Ctrl-C and SIGTERM: what is under way ends, and what is done is kept."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Stop:
    """Whether somebody has asked to stop. Python ignores an exception that is raised in its own callbacks around a fork, so an interrupt
    that falls into one would be lost: who goes on looks here."""

    requested: bool = False


STOP = Stop()


def raise_if_requested() -> None:
    """For whoever goes on with long work."""
    if STOP.requested:
        raise KeyboardInterrupt


@contextmanager
def until_stopped(going_on: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is done inside, and say how to go on."""
    STOP.requested = False
    sys.unraisablehook = _ignored
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(f"\nstopped; what is done is kept. Go on with: {going_on}", file=sys.stderr)


def _ignored(what: "sys.UnraisableHookArgs") -> None:
    """An interrupt that Python ignores has been noted, and is no trouble to tell of."""
    if not isinstance(what.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def _interrupt(number: int, frame: object) -> None:
    STOP.requested = True
    raise KeyboardInterrupt
