"""Requests made from the server's own OpenAPI document, by schemathesis, and their answers held against it.

Why: the document says which requests are right and which are not, so a program can make thousands of both, and see whether the server
keeps its word: no 5xx, no status, header or body that is not described, nothing refused that fits, nothing taken that does not.
Seeded, so that what it finds it finds again. tests/openapi/schemathesis.toml says what no schema can, and what is left out for that.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from run_benches.errors import Complaint
from run_benches.places import ROOT
from run_benches.setup import packages, toolchain

REQUIREMENTS = ROOT / "requirements-full.txt"
SCHEMA = ROOT / "tests" / "golden" / "http" / "schema.graphql"
SETTINGS = ROOT / "tests" / "openapi" / "schemathesis.toml"

START_S = 60
"""Longer than a server takes to start over an empty store."""

RUN_S = 600
"""Longer than the requests take: one to two minutes on two cores."""

LEFT_OUT = frozenset(
    f"#/components/parameters/{name}" for name in ("stream", "Last-Event-ID", "after", "truncate", "If-Absent", "Range", "If-Range", "Prefer")
)
"""What no schema can say: the answer to a stream has no end, a cursor comes with a list, the next two go with no others, a range is one of
bytes that are there, and what is preferred may take the body out of an answer that has one."""

BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
"""A type that is made, for bodies of any type."""


def keeps_its_word() -> bool:
    """Starts a server over a folder that goes, asks it for its document, and lets schemathesis ask for the rest; prints its summary."""
    toolchain.check()
    _install()
    if subprocess.run(["cargo", "build", "--release", "--bin", "strata"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode != 0:
        return False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ready = folder / "ready"
        command = [str(toolchain.target_folder() / "release" / "strata"), "serve", "--schema", str(SCHEMA), "--data-dir", str(folder / "data")]
        with (folder / "log").open("wb") as log, subprocess.Popen([*command, "--listen", "127.0.0.1:0", "--ready-file", str(ready)], stdin=subprocess.DEVNULL, stderr=log) as server:
            try:
                return _asked(_url(server, ready, folder / "log"), folder)
            finally:
                server.terminate()


def _install() -> None:
    """Adds the packages to `.venv`, if it has them not."""
    if subprocess.run([sys.executable, "-c", "import schemathesis"], capture_output=True, check=False).returncode != 0:
        packages.install(sys.executable, REQUIREMENTS, [])


def _url(server: "subprocess.Popen[bytes]", ready: Path, log: Path) -> str:
    deadline = time.monotonic() + START_S
    while not ready.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise Complaint(f"the server does not start: {log.read_text(errors='replace').strip()}")
        time.sleep(0.05)
    return ready.read_text().strip()


def _asked(url: str, folder: Path) -> bool:
    with urllib.request.urlopen(f"{url}/_openapi.json", timeout=START_S) as answer:
        document = testable(json.load(answer))
    described = folder / "openapi.json"
    described.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS), "run", str(described), "--url", url, "--no-color"]
    try:
        return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=RUN_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        raise Complaint(f"schemathesis did not end within {RUN_S} s") from None


def testable(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what no schema can say, and with a type where any would do."""
    for item in document["paths"].values():
        for operation in (member for member in item.values() if isinstance(member, dict)):
            if parameters := operation.get("parameters"):
                operation["parameters"] = [parameter for parameter in parameters if parameter.get("$ref") not in LEFT_OUT]
            if "*/*" in operation.get("requestBody", {}).get("content", {}):
                operation["requestBody"]["content"] = BYTES
    return document
