"""The layers as the sources name them: the modules of `src/lib.rs`, whose order is that of the house, lowest first."""

import re
from pathlib import Path

from run_benches.places import BENCHES, ROOT

SOURCE = ROOT / "src"


def modules(source: Path = SOURCE) -> list[str]:
    """The public modules of a library, lowest first; none where there is no library."""
    library = source / "lib.rs"
    text = library.read_text(encoding="utf-8") if library.exists() else ""
    return re.findall(r"^ *pub mod (\w+);", text, re.MULTILINE)


def layers() -> list[str]:
    """Those that have a bench."""
    return [name for name in modules() if (BENCHES / f"{name}.rs").exists()]
