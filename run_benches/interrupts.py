"""SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is gone): what is under way ends, and what is done is kept.

Why all three alike, and from the first line of a command on: whoever stops it does not know at what stage it is. Why
the first one alone counts: to end takes some seconds (the load tool stores what it has, folders are removed) but not
more, and who is impatient, or loses the terminal on top of it, must not cut that off.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Stop:
    """The state of a stop: whether somebody has asked to stop, and whether that is being done. Python ignores an
    exception that is raised in its own callbacks (around a fork, at the end of an object), so an interrupt that falls
    into one would be lost: who goes on looks here. While it is `held`, an interrupt waits."""

    requested: bool = False
    ending: bool = False
    held: bool = False


STOP = Stop()


def heed() -> None:
    """From now on the signals interrupt: SIGINT also where a script's shell has its background jobs ignore it, as
    Python would; SIGHUP not where it is ignored, as under `nohup`."""
    STOP.requested = STOP.ending = STOP.held = False
    sys.unraisablehook = _ignored
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def wait_for_heed() -> None:
    """Signals wait from now on, until somebody heeds them: the program that takes the place of this one, or nobody
    where this one has ended but for what Python does then."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def raise_if_requested() -> None:
    """For whoever goes on with long work."""
    if STOP.requested and not STOP.ending:
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Holds interrupts back from what must not be cut off in the middle, and is short: one comes when that is done."""
    if STOP.held or threading.current_thread() is not threading.main_thread():  # signals come to no other thread
        yield
        return
    before, STOP.held = STOP.requested, True
    try:
        yield
    finally:
        STOP.held = False
    if not before:
        raise_if_requested()


@contextmanager
def until_stopped(going_on: str) -> Iterator[None]:
    """A signal ends what is done inside, and how to go on is said."""
    try:
        yield
    except KeyboardInterrupt:
        STOP.ending = True
        print(f"\nstopped; what is done is kept. Go on with: {going_on}", file=sys.stderr)


def _ignored(what: "sys.UnraisableHookArgs") -> None:
    """An interrupt that Python ignores has been noted, and is no trouble to tell of."""
    if not isinstance(what.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def _interrupt(number: int, frame: object) -> None:
    if STOP.requested or STOP.ending:
        return
    STOP.requested = True
    # Nobody reads what is written to a terminal, or a pipe, whose other end is closed, and writing there would be an
    # error.
    for descriptor in (1, 2):
        poll = select.poll()
        poll.register(descriptor, 0)
        if poll.poll(0):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)
    if not STOP.held:
        raise KeyboardInterrupt
