"""Requests made from the server's own OpenAPI document, by schemathesis, and their answers held against it.

Why: the document says which requests are right and which are not, so a program can make thousands of both, and see
whether the server keeps its word: no 5xx, no status, header or body that is not described, nothing refused that fits,
nothing taken that does not. Seeded, so that what it finds it finds again. tests/openapi/schemathesis.toml says what no
schema can, and what is left out for that.
"""

import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from run_benches import processes
from run_benches.cli import serving
from run_benches.errors import UserError
from run_benches.places import ROOT
from run_benches.setup import packages

SCHEMA = ROOT / "tests" / "golden" / "http" / "schema.graphql"
SETTINGS = ROOT / "tests" / "openapi" / "schemathesis.toml"

RUN_S = 600
"""Longer than the requests take: one to two minutes on two cores."""

LEFT_OUT = frozenset(
    f"#/components/parameters/{name}"
    for name in ("stream", "Last-Event-ID", "after", "truncate", "If-Absent", "Range", "If-Range", "Prefer")
)
"""The parameters that no schema can describe: the answer to a stream has no end, a cursor comes with a list, the next
two go with no others, a range is one of bytes that are there, and what is preferred may take the body out of an answer
that has one."""


def keeps_its_word() -> bool:
    """Asks a server for its document, and lets schemathesis ask for the rest; prints its summary."""
    packages.add_full()
    if not serving.build():
        return False
    with tempfile.TemporaryDirectory() as folder, serving.running(SCHEMA.read_text(encoding="utf-8")) as url:
        with urllib.request.urlopen(f"{url}/_openapi.json", timeout=serving.START_S) as answer:
            document = testable(json.load(answer))
        described = Path(folder) / "openapi.json"
        described.write_text(json.dumps(document))
        options = ["--config-file", str(SETTINGS), "run", str(described), "--url", url, "--no-color"]
        command = [sys.executable, "-m", "schemathesis.cli", *options]
        try:
            return processes.call(command, RUN_S, cwd=folder, stdout=sys.stderr) == 0
        except TimeoutError:
            raise UserError(f"schemathesis did not end within {RUN_S} s") from None


def testable(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what no schema can say. A body of any type has another one as well."""
    for item in document["paths"].values():
        for operation in (member for member in item.values() if isinstance(member, dict)):
            if parameters := operation.get("parameters"):
                operation["parameters"] = [
                    parameter for parameter in parameters if parameter.get("$ref") not in LEFT_OUT
                ]
            operation.get("requestBody", {}).get("content", {}).pop("*/*", None)
    return document
