"""A real browser without a window, for checking what people will see."""

import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> str | None:
    """The browser of this machine, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def shown(browser: str, file: Path, profile: Path) -> tuple[str, str]:
    """The document as it stands once the browser has shown the file, and what the browser complained about."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=10000"]
    done = subprocess.run([browser, *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
