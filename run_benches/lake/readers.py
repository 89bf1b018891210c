"""Foreign readers of a table: PyIceberg and DuckDB, each by its own code, for both kinds of catalogue.

Why two: what one of them forgives (a wrong statistic, a file that the manifest has twice) the other may not.
"""

import dataclasses
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXTENSIONS = ("avro", "httpfs", "iceberg")
"""Of DuckDB, as wheels of the same version; in this order, since iceberg needs avro."""


@dataclass(frozen=True)
class Sql:
    """A SQL catalogue with a local warehouse."""

    file: Path
    warehouse: Path

    def options(self) -> list[str]:
        """As `strata-lake` takes it."""
        return ["--catalog", "sql", "--uri", f"sqlite:{self.file}", "--warehouse", str(self.warehouse)]

    def variables(self) -> dict[str, str]:
        """Returns the variables that `strata-lake` takes from its environment: none."""
        return {}

    def properties(self) -> dict[str, str]:
        """As PyIceberg takes it."""
        return {"type": "sql", "uri": f"sqlite:///{self.file}", "warehouse": f"file://{self.warehouse}"}


@dataclass(frozen=True)
class Rest:
    """A REST catalogue with an object store."""

    uri: str
    warehouse: str
    s3_endpoint: str
    credential: tuple[str, str]

    def options(self) -> list[str]:
        """As `strata-lake` takes it."""
        catalog = ["--catalog", "rest", "--uri", self.uri]
        return [*catalog, "--warehouse", self.warehouse, "--s3-endpoint", self.s3_endpoint]

    def variables(self) -> dict[str, str]:
        """Returns the variables that `strata-lake` takes from its environment: the credential."""
        return {"STRATA_LAKE_CREDENTIAL": ":".join(self.credential)}

    def properties(self) -> dict[str, str]:
        """As PyIceberg takes it."""
        key, secret = self.credential
        s3 = {
            "s3.endpoint": self.s3_endpoint,
            "s3.access-key-id": key,
            "s3.secret-access-key": secret,
            "s3.region": "us-east-1",
        }
        token = {"credential": f"{key}:{secret}", "oauth2-server-uri": f"{self.uri}/v1/oauth/tokens"}
        return {"type": "rest", "uri": self.uri, "warehouse": self.warehouse} | token | s3


Lakehouse = Sql | Rest


def written(lakehouse: Lakehouse) -> str:
    """A lakehouse as a line of text, for another process."""
    return json.dumps([type(lakehouse).__name__, dataclasses.astuple(lakehouse)], default=str)


def read(text: str) -> Lakehouse:
    """A lakehouse that was written."""
    kind, fields = json.loads(text)
    if kind == Sql.__name__:
        file, warehouse = map(Path, fields)
        return Sql(file, warehouse)
    uri, warehouse_name, endpoint, (key, secret) = fields
    return Rest(uri, warehouse_name, endpoint, (key, secret))


def pyiceberg_table(lakehouse: Lakehouse, stream: str) -> Any:
    """The table of a stream, as PyIceberg has it."""
    load_catalog = importlib.import_module("pyiceberg.catalog").load_catalog
    return load_catalog("strata", **lakehouse.properties()).load_table(f"strata.{stream.lower()}")


def extensions() -> list[Path]:
    """The files of DuckDB's extensions, in the order in which they are loaded."""
    folders = {name: Path(importlib.import_module(f"duckdb_extension_{name}").__path__[0]) for name in EXTENSIONS}
    return [next(folder.glob(f"extensions/*/{name}.duckdb_extension")) for name, folder in folders.items()]


class DuckDb:
    """A connection that knows the catalogue; `source` is what a query reads from."""

    def __init__(self, lakehouse: Lakehouse, stream: str) -> None:
        duckdb = importlib.import_module("duckdb")
        self.connection = duckdb.connect()
        for file in extensions():
            self.connection.execute(f"LOAD '{file}'")
        match lakehouse:
            case Sql():
                self.source = f"iceberg_scan('{pyiceberg_table(lakehouse, stream).metadata_location}')"
            case Rest():
                key, secret = lakehouse.credential
                endpoint = lakehouse.s3_endpoint.removeprefix("http://")
                self.connection.execute(
                    f"CREATE SECRET store (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT '{endpoint}', REGION 'us-east-1', URL_STYLE 'path', USE_SSL false)"
                )
                self.connection.execute(
                    f"CREATE SECRET catalogue (TYPE iceberg, CLIENT_ID '{key}', CLIENT_SECRET '{secret}', OAUTH2_SERVER_URI '{lakehouse.uri}/v1/oauth/tokens')"
                )
                self.connection.execute(
                    f"ATTACH '{lakehouse.warehouse}' AS lake (TYPE iceberg, ENDPOINT '{lakehouse.uri}', SECRET catalogue)"
                )
                self.source = f"lake.strata.{stream.lower()}"

    def rows(self, columns: str, where: str = "") -> list[tuple[Any, ...]]:
        """The rows that a condition selects."""
        found: list[tuple[Any, ...]] = self.connection.execute(
            f"SELECT {columns} FROM {self.source} {where}"
        ).fetchall()
        return found


Content = tuple[int, int, str | None, str | None, str]
"""Of an event: when the server took it, in microseconds since 1970; the client's time, in milliseconds; key,
idempotency key, payload."""

StreamRow = tuple[int, int, *Content]
"""Partition, offset, and the content."""

COLUMNS = ("partition", "offset", "ingested_at", "timestamp_ms", "key", "idempotency_key", "payload")


def with_pyiceberg(lakehouse: Lakehouse, stream: str) -> list[StreamRow]:
    """All rows, read by PyIceberg."""
    found = pyiceberg_table(lakehouse, stream).scan().to_arrow()
    columns = [found.column(name).cast("int64") if name == "ingested_at" else found.column(name) for name in COLUMNS]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def with_duckdb(lakehouse: Lakehouse, stream: str) -> list[StreamRow]:
    """All rows, read by DuckDB."""
    # As a number: for times with zones, DuckDB's Python wants another package.
    return DuckDb(lakehouse, stream).rows(
        ", ".join(f'epoch_us("{name}")' if name == "ingested_at" else f'"{name}"' for name in COLUMNS)
    )


READERS: dict[str, Callable[[Lakehouse, str], list[StreamRow]]] = {"pyiceberg": with_pyiceberg, "duckdb": with_duckdb}


@dataclass(frozen=True)
class HeldTable:
    """A table, held against its stream."""

    events: int
    rows: int
    missing: int
    twice: int
    changed: int
    foreign: int

    @property
    def is_right(self) -> bool:
        """True if each event stands there once, and nothing else does."""
        return (self.missing, self.twice, self.changed, self.foreign) == (0, 0, 0, 0) and self.rows == self.events


def hold(events: dict[tuple[int, int], Content], rows: list[StreamRow]) -> HeldTable:
    """Holds rows against the events by partition and offset."""
    seen: set[tuple[int, int]] = set()
    twice = changed = foreign = 0
    for partition, offset, *content in rows:
        place = (partition, offset)
        twice += place in seen
        seen.add(place)
        if place not in events:
            foreign += 1
        elif events[place] != tuple(content):
            changed += 1
    return HeldTable(len(events), len(rows), len(events.keys() - seen), twice, changed, foreign)
