"""`strata-lake` and the server that it copies from, as processes that a test kills and starts again.

Why not in the workspace's build: `lake/` has a lock file of its own, and nobody else waits for its many crates.
"""

import http.client
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from run_benches import processes
from run_benches.errors import UserError
from run_benches.lake.readers import Content, Lakehouse
from run_benches.lake.restartable import START_S, Restartable
from run_benches.places import ROOT
from run_benches.setup import toolchain

MANIFEST = ROOT / "lake" / "Cargo.toml"

SIGNAL_AT = "STRATA_LAKE_SIGNAL_AT"

PAGE = 10_000
"""Events of a read at most."""


def target() -> Path:
    """Where it is built: beside what the workspace compiles, since features of libraries differ."""
    return toolchain.target_folder() / "lake"


def program() -> Path:
    """Where the build leaves it."""
    return target() / "release" / "strata-lake"


def build() -> None:
    """Builds it; takes minutes the first time."""
    where = ["--manifest-path", str(MANIFEST), "--target-dir", str(target())]
    if processes.call(["cargo", "build", "--release", "--locked", *where], cwd=ROOT, stdout=sys.stderr) != 0:
        raise UserError("strata-lake does not build")


@dataclass
class Server(Restartable):
    """The server, with one folder and one port over all its starts; or one that is there."""

    folder: Path
    schema: str
    port: int = 0

    @staticmethod
    def at(url: str) -> "Server":
        """One that is there, on this machine."""
        port = urlsplit(url).port
        assert port, url
        return Server(Path(), "", port)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        if not self.port:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                self.port = one.getsockname()[1]
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "schema.graphql").write_text(self.schema, encoding="utf-8")
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        strata = toolchain.target_folder() / "release" / "strata"
        files = ["--schema", f"{self.folder}/schema.graphql", "--data-dir", f"{self.folder}/data"]
        command = [str(strata), "serve", "--listen", f"127.0.0.1:{self.port}", *files, "--ready-file", str(ready)]
        self.launch("the server", command, ready.exists, 0.02)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a request; returns the status and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None, {"content-type": "application/json"}
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def append(self, stream: str, events: list[dict[str, Any]]) -> None:
        """Appends events in one request."""
        status, body = self.ask("POST", f"/{stream}/bulk", {"records": events})
        if status != 202:
            raise UserError(f"appending to {stream} is {status}: {body}")

    def watermarks(self, stream: str, partition: int) -> tuple[int, int]:
        """The first offset that is kept, and the next one."""
        status, page = self.ask("GET", f"/{stream}?partition={partition}&limit=0")
        if status != 200:
            raise UserError(f"partition {partition} of {stream} is {status}: {page}")
        return page["lowWatermark"], page["highWatermark"]

    def events(self, stream: str) -> Iterator[tuple[tuple[int, int], Content]]:
        """All events that are kept: partition and offset, and the content with the payload as the server sends it."""
        partitions = next(at for at in count(1) if self.ask("GET", f"/{stream}?partition={at}&limit=0")[0] != 200)
        for partition in range(partitions):
            after = None
            while True:
                begin = "" if after is None else f"&from={after}"
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
                connection.request("GET", f"/{stream}?partition={partition}&limit={PAGE}{begin}")
                body = connection.getresponse().read().decode()
                connection.close()
                page = json.loads(body)
                for record, payload in zip(page["records"], payloads(body), strict=True):
                    times = record["ingestedMs"] * 1000, record["timestampMs"]
                    yield (
                        (partition, record["offset"]),
                        (*times, record.get("key"), record.get("idempotencyKey"), payload),
                    )
                after = page["next"]
                if after >= page["highWatermark"]:
                    break


def payloads(page: str) -> list[str]:
    """The payloads of a page, byte for byte: each is the last member of its record."""
    decoder, found, marker = json.JSONDecoder(), [], ',"payload":'
    at = page.index('"records":[') + len('"records":[')
    while page[at] == "{":
        _, end = decoder.raw_decode(page, at)
        # In the texts before it, a quote is escaped.
        found.append(page[page.index(marker, at) + len(marker) : end - 1])
        at = end + 1 if page[end] == "," else end
    return found


@dataclass
class Copier:
    """`strata-lake` for one stream of one server into one lakehouse."""

    server: Server
    lakehouse: Lakehouse
    stream: str
    options: list[str] = field(default_factory=list)

    def command(self) -> list[str]:
        """Returns the command as it is typed."""
        of_stream = ["--url", self.server.url, "--stream", self.stream]
        return [str(program()), *of_stream, *self.lakehouse.options(), *self.options]

    def environment(self, signal_at: str | None = None) -> dict[str, str]:
        """Its variables: the credential, and at which step it gets which signal."""
        return os.environ | self.lakehouse.variables() | ({SIGNAL_AT: signal_at} if signal_at else {})

    def once(self, signal_at: str | None = None) -> processes.Captured:
        """Copies what there is."""
        return processes.captured([*self.command(), "--once"], env=self.environment(signal_at), limit_s=600)
