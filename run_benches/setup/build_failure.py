"""Why a build failed, in one line out of all that cargo said.

Why not cargo's first error: where C++ does not compile, or a build script gives up, that is `failed to run custom build
command`, and the reason stands among what it quotes.
"""

import itertools
import re
from collections.abc import Sequence

from run_benches import processes

_REASONS = (
    processes.SYSTEM.pattern,
    r"\bld: cannot find |: undefined reference to ",
    r"^\S+: (fatal )?error: ",  # of compilers and linkers of other languages
    r"\bpanicked at\b",
    r"^error(\[E\d+\])?: (?!failed to |could not compile|linking with )",
)
"""The patterns of lines that hold a reason; those that tell more come first."""

_QUOTED = re.compile(r"^(warning: \S+@\S+: |= note: )?")
"""The words that cargo puts before a line of a build script's compiler, and rustc before one of the linker."""


def reason(said: Sequence[str]) -> str:
    """The line that says it; of a panic also its message, of what cargo could not do also the last cause."""
    lines = [
        _QUOTED.sub("", line.strip(), count=1) for line in said if line.strip() and not re.match(r"\s+cargo:", line)
    ]
    for pattern in _REASONS:
        for at, line in enumerate(lines):
            if re.search(pattern, line):
                return processes.essence(lines[at : at + 2] if "panicked at" in line else [line])
    errors = [line for line in lines if line.startswith("error")][:1]
    causes = [after for line, after in itertools.pairwise(lines) if line in ("Caused by:", "--- stderr")][-1:]
    return ": ".join([*errors, *causes] or [processes.essence(lines)])[: processes.LONGEST_QUOTE]
