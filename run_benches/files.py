"""Replacing files in one step."""

import os
import tempfile
from pathlib import Path


def replace(path: Path, content: str) -> None:
    """A reader sees the old file or the new one, never half of one; the new one is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)  # gone if we are interrupted right after it was renamed
        raise
