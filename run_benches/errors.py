"""The ways a command ends, and the one error whose text is meant for the person who typed it.

Why one error: whoever notices that something cannot work knows best what to do about it, and says so in one line; `cli`
prints that line and ends with the exit code. Every other exception is a defect of the runner: it keeps its traceback,
and is an error, too, never a verdict.
"""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes, as scripts see them."""

    FINE = 0
    FAILED = 1  # something is slower, or has more allocations, or a test or an objective failed
    ERROR = 2  # usage, set-up, build or bench error
    NOTHING = 3  # nothing could be measured or judged


class UserError(Exception):
    """One clear line that says what is wrong and what to do."""

    def __init__(self, text: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(text)
        self.code = code
