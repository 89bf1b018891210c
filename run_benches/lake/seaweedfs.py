"""SeaweedFS: an object store and a REST catalogue of Iceberg in one process, for what is tried with `strata-lake`.

Why this one: it is one file in a wheel, needs no other process, and its catalogue takes a commit of files and
properties whole or not at all.
"""

import json
import os
import secrets
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from run_benches.lake.restartable import Restartable
from run_benches.places import VENV

PROGRAM = VENV / "bin" / "weed"

BUCKET = "lake"
WAREHOUSE = f"s3://{BUCKET}"

PORTS = ("master", "filer", "volume", "s3", "admin", "webdav")
"""Its parts, of which each has a port, and another for gRPC that would be so far above it that it may be taken."""


@dataclass
class SeaweedFs(Restartable):
    """A SeaweedFS over a folder; it may be killed and started again, with its ports and its data."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    credential: tuple[str, str] = field(default_factory=lambda: ("lake", secrets.token_hex(16)))

    @property
    def catalog_uri(self) -> str:
        """The REST catalogue."""
        return f"http://127.0.0.1:{self.ports['s3.port.iceberg']}"

    @property
    def s3_endpoint(self) -> str:
        """The object store."""
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    def start(self) -> None:
        """Starts it, and waits until the catalogue answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("data", "tmp"):
            (self.folder / name).mkdir(exist_ok=True)
        if not self.ports:
            names = [f"{part}.port" for part in PORTS] + [f"{part}.port.grpc" for part in PORTS if part != "webdav"]
            with ExitStack() as held:  # all at once, so that they differ
                sockets = {name: held.enter_context(socket.socket()) for name in (*names, "s3.port.iceberg")}
                for one in sockets.values():
                    one.bind(("127.0.0.1", 0))
                self.ports = {name: one.getsockname()[1] for name, one in sockets.items()}
            key, secret = self.credential
            actions = ["Admin", "Read", "Write", "List", "Tagging"]
            user = {"name": "lake", "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}
            (self.folder / "s3.json").write_text(json.dumps({"identities": [user]}), encoding="utf-8")
        options = [f"-{name}={port}" for name, port in self.ports.items()]
        command = [
            str(PROGRAM), "mini", f"-dir={self.folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false",
            f"-tableBucket={BUCKET}", f"-s3.config={self.folder}/s3.json", "-s3.port.lance=0", *options,
        ]  # fmt: skip
        environment = os.environ | {"TMPDIR": f"{self.folder}/tmp"}
        self.launch("SeaweedFS", command, self._answers, 0.1, environment)

    def _answers(self) -> bool:
        """Returns whether the catalogue lists the namespaces of the bucket, which is made last."""
        key, secret = self.credential
        asked = urllib.parse.urlencode(
            {"grant_type": "client_credentials", "client_id": key, "client_secret": secret, "scope": "catalog"}
        )
        try:
            with urllib.request.urlopen(f"{self.catalog_uri}/v1/oauth/tokens", asked.encode(), timeout=5) as answer:
                token = json.load(answer)["access_token"]
            listed = urllib.request.Request(
                f"{self.catalog_uri}/v1/{BUCKET}/namespaces", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(listed, timeout=5):
                return True
        except (OSError, ValueError, KeyError):
            return False


@contextmanager
def running(folder: Path) -> Iterator[SeaweedFs]:
    """Runs one over a folder until the block ends, however it ends."""
    store = SeaweedFs(folder)
    try:
        store.start()
        yield store
    finally:
        store.kill()
