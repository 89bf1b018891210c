"""One line that says what is being done and how long it will still take.

Why a line: a run lasts minutes, and a person who sees nothing starts a second one. On a terminal the line is rewritten
in place; where the output is kept (a pipe, CI) a new line appears every half minute, so that a log stays readable. It
goes to standard error: what is printed on standard output is the result alone.
"""

import shutil
import sys
import time
from types import TracebackType
from typing import Self

QUIET_S = 30.0


class ProgressLine:
    """The line. Used in a `with`, which clears it at the end."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._printed = 0.0 if self._live else time.monotonic()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def show(self, text: str) -> None:
        """Replaces the line; cheap enough to be called in every turn of a loop."""
        now = time.monotonic()
        if self._live and now - self._printed >= 0.1:
            shown = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + shown.ljust(self._width))
            self._width = len(shown)
        elif not self._live and now - self._printed >= QUIET_S:
            sys.stderr.write(text + "\n")
        else:
            return
        sys.stderr.flush()
        self._printed = now

    def say(self, text: str) -> None:
        """Prints a line that stays, above the one that is rewritten."""
        self._clear()
        print(text, file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


def duration(seconds: float) -> str:
    """`40 s`, `4 min 10 s`, `1 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
