"""`strata-lake` over kills, races and foreign hands: whatever happened, two foreign readers find each event of the
stream once in the table.

Why with real components: what doubles rows is a lost answer, a retry or a conflict of a real catalogue. Each test runs
on a file of SQLite with a local folder, and on SeaweedFS, object store and REST catalogue in one. Not collected with
the other tests, for they need what only `test --full` installs, and the build of `lake/`.
"""

import importlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from run_benches import processes
from run_benches.cli import serving
from run_benches.lake import copying, readers, seaweedfs
from run_benches.lake.copying import Copier, Server
from run_benches.lake.readers import Lakehouse, Rest, Sql, hold, pyiceberg_table
from run_benches.places import ROOT
from run_benches.setup import toolchain

SCHEMA = 'type Click @stream(partitions: 4, holdFor: ["lake"]) @export'
STREAM = "Click"
PARTITIONS = 4

STEPS = ("loaded", "read", "written", "checked", "committed", "synced", "moved")
"""Of a round, in their order; behind each of them the process can be ended."""

RANDOM_KILLS = 40
"""Of each catalogue; together with those at the steps, more than a hundred."""

SMALL_DISKS = ("16k", "32k", "40k", "48k", "56k", "64m")
"""Too small for the catalogue, too small for the files, and large enough."""


@dataclass
class World:
    """A server, a lakehouse, and what copies from one to the other."""

    folder: Path
    server: Server
    lakehouse: Lakehouse
    store: seaweedfs.SeaweedFs | None
    sent: int = 0

    def copier(self, *options: str) -> Copier:
        return Copier(self.server, self.lakehouse, STREAM, list(options))

    def append(self, number: int) -> None:
        """Appends events with all that an event may have, the partitions in turn."""
        events = []
        for at in range(self.sent, self.sent + number):
            event: dict[str, object] = {
                "payload": {"n": at, "text": 'a "quoted" \\ line\n and ü ' + "x" * (at % 50)},
                "partition": at % PARTITIONS,
            }
            event |= {"key": f"key {at % 7}"} if at % 3 == 0 else {}
            event |= {"idempotencyKey": f"once {at}"} if at % 5 == 0 else {}
            event |= {"timestampMs": at} if at % 2 == 0 else {}
            events.append(event)
        self.server.append(STREAM, events)
        self.sent += number

    def holds(self) -> None:
        """The table has each event of the stream once, by both readers, and the consumer group is where it ends."""
        events = dict(self.server.events(STREAM))
        assert len(events) == self.sent
        for name, read in readers.READERS.items():
            held = hold(events, read(self.lakehouse, STREAM))
            assert held.is_right, f"{name}: {held}"
        status, group = self.server.ask("GET", f"/{STREAM}/consumers/lake")
        assert (status, [one["lag"] for one in group["offsets"]]) == (200, [0] * PARTITIONS)

    def waits_for_all(self, copying: processes.Process) -> None:
        """Waits until all events are copied, and the group is moved."""
        deadline = time.monotonic() + 60
        while (group := self.server.ask("GET", f"/{STREAM}/consumers/lake"))[0] != 200 or any(
            one["lag"] for one in group[1]["offsets"]
        ):
            assert copying.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)

    def copied(self, *options: str) -> None:
        done = self.copier(*options).once()
        assert done.returncode == 0, done.stderr

    def refused(self, *options: str, stream: str = STREAM) -> str:
        """Returns what it says where it copies nothing: one line, with exit code 2."""
        done = Copier(self.server, self.lakehouse, stream, list(options)).once()
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        if isinstance(self.lakehouse, Rest):
            assert self.lakehouse.credential[1] not in done.stderr + done.stdout
        return done.stderr


@contextmanager
def made(folder: Path, kind: str, schema: str = SCHEMA) -> Iterator[World]:
    server = Server(folder / "server", schema)
    store = seaweedfs.SeaweedFs(folder / "store") if kind == "rest" else None
    try:
        server.start()
        if store:
            store.start()
            lakehouse: Lakehouse = Rest(store.catalog_uri, seaweedfs.WAREHOUSE, store.s3_endpoint, store.credential)
        else:
            lakehouse = Sql(folder / "lake.db", folder / "warehouse")
        yield World(folder, server, lakehouse, store)
    finally:
        server.kill()
        if store:
            store.kill()


@pytest.fixture(params=["sql", "rest"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with made(tmp_path, request.param) as one:
        yield one


@contextmanager
def running(copier: Copier, signal_at: str | None = None) -> Iterator[processes.Process]:
    """One that copies until the block ends."""
    process = processes.start(
        copier.command(), env=copier.environment(signal_at), stdout=processes.DEVNULL, stderr=processes.DEVNULL
    )
    try:
        yield process
    finally:
        processes.end(process, processes.AT_ONCE)


@contextmanager
def appending(world: World) -> Iterator[None]:
    """A load that goes on meanwhile."""
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            world.append(50)
            time.sleep(0.02)

    with ThreadPoolExecutor() as pool:
        loading = pool.submit(load)
        try:
            yield
        finally:
            over.set()
        loading.result()


def halted(process: processes.Process) -> None:
    """Waits until a process has stopped itself."""
    deadline = time.monotonic() + 60
    while (state := Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]) != "T":
        assert process.poll() is None and time.monotonic() < deadline, state
        time.sleep(0.02)


def test_a_kill_behind_each_step_doubles_and_loses_nothing(world: World) -> None:
    world.append(100)
    for step in STEPS:
        done = world.copier().once(f"{step}=KILL")
        assert done.returncode == -signal.SIGKILL, f"{step}: {done.stderr}"
        world.append(100)
        world.copied()
        world.holds()
        world.append(100)


def test_kills_at_random_double_and_lose_nothing(world: World) -> None:
    chance = random.Random(0x1A4E)
    with appending(world):
        for _ in range(RANDOM_KILLS):
            before = world.sent
            with running(world.copier("--commit-seconds", "1", "--commit-bytes", "8K")) as process:
                time.sleep(chance.uniform(0.1, 1.0))
                assert process.poll() is None
            assert world.sent > before
    assert len(pyiceberg_table(world.lakehouse, STREAM).metadata.snapshots) > 1, "they came to commits"
    world.copied()
    world.holds()


def test_a_server_or_a_store_that_is_killed_is_waited_for(world: World) -> None:
    world.append(10)
    with running(world.copier("--commit-seconds", "1")) as process:
        world.waits_for_all(process)
        for _ in range(5):
            world.append(200)
            time.sleep(0.7)
            world.server.kill()
            if world.store:
                world.store.kill()
                world.store.start()
            world.server.start()
        world.waits_for_all(process)
    world.holds()


def test_two_at_once_copy_each_event_once(world: World) -> None:
    world.append(10)
    copier = world.copier("--commit-seconds", "1", "--commit-bytes", "4K")
    with running(copier) as one, running(copier) as other:
        for _ in range(20):
            world.append(100)
            time.sleep(0.1)
        world.waits_for_all(one)
        assert other.poll() is None
    world.holds()


def test_once_ends_though_the_stream_grows(world: World) -> None:
    world.append(200)
    with appending(world):
        world.copied("--commit-bytes", "1K")
    world.copied()
    world.holds()


def test_a_signal_ends_it_after_the_round(world: World) -> None:
    world.append(1000)
    with running(world.copier("--once", "--commit-bytes", "1"), "read=STOP") as ended:
        halted(ended)
        os.kill(ended.pid, signal.SIGTERM)
        os.kill(ended.pid, signal.SIGCONT)
        assert processes.code_within(ended, 60) == 2, "not all was copied"
    assert len(readers.with_pyiceberg(world.lakehouse, STREAM)) == PARTITIONS
    world.copied()
    world.holds()


@pytest.mark.parametrize("step", ["read", "written", "checked"])
def test_one_that_was_overtaken_gives_up_what_it_has_read(world: World, step: str) -> None:
    world.append(100)
    world.copied()
    world.append(100)
    with running(world.copier("--commit-seconds", "1"), f"{step}=STOP") as overtaken:
        halted(overtaken)
        world.copied()
        os.kill(overtaken.pid, signal.SIGCONT)
        world.append(10)
        world.waits_for_all(overtaken)
    world.holds()


def rewritten(world: World) -> None:
    """All rows of the table in new files, by PyIceberg, which gives up where files came in between."""
    conflict = importlib.import_module("pyiceberg.exceptions").CommitFailedException
    for _ in range(50):
        table = pyiceberg_table(world.lakehouse, STREAM)
        try:
            table.overwrite(table.scan().to_arrow())
        except conflict:
            continue
        return
    raise AssertionError("it never succeeded")


@pytest.mark.parametrize("step", [None, "loaded", "written", "checked"])
def test_a_table_that_others_rewrite_stays_right(world: World, step: str | None) -> None:
    world.append(300)
    world.copied()
    for _ in range(3):
        world.append(100)
        if step is None:
            rewritten(world)
        else:
            with running(world.copier("--commit-seconds", "1"), f"{step}=STOP") as halting:
                halted(halting)
                rewritten(world)
                os.kill(halting.pid, signal.SIGCONT)
                world.waits_for_all(halting)  # It commits itself, behind what came in between.
                world.holds()
        world.copied()
        world.holds()


def test_a_stream_that_has_gone_back_is_refused(world: World) -> None:
    world.append(200)
    world.server.kill()
    shutil.copytree(world.server.folder / "data", world.folder / "older")
    world.server.start()
    world.append(200)
    world.copied()
    rows = readers.with_pyiceberg(world.lakehouse, STREAM)
    for more in (0, 400):  # It ends below the table, then it has other events there.
        world.server.kill()
        shutil.rmtree(world.server.folder / "data")
        shutil.copytree(world.folder / "older", world.server.folder / "data")
        world.server.start()
        if more:
            world.append(more)
        said = world.refused()
        assert "gone back" in said and "partition 0" in said
        assert readers.with_pyiceberg(world.lakehouse, STREAM) == rows


def test_events_that_were_trimmed_before_are_no_silent_gap(tmp_path: Path) -> None:
    with made(tmp_path, "sql", "type Click @stream(partitions: 4) @export") as world:
        world.append(100)
        world.copied()
        world.append(100)
        assert world.server.ask("DELETE", f"/{STREAM}?truncate=true")[0] == 200
        world.append(100)
        said = world.refused()
        assert "from offset 25 to 49" in said and "--accept-gap" in said
        world.copied("--accept-gap")
        rows = readers.with_duckdb(world.lakehouse, STREAM)
        expected = {(partition, offset) for partition in range(PARTITIONS) for offset in (*range(25), *range(50, 75))}
        assert len(rows) == 200 and {row[:2] for row in rows} == expected
        world.append(100)
        assert world.server.ask("DELETE", f"/{STREAM}?truncate=true")[0] == 200
        assert "from offset 75 to 99" in world.refused()
        world.copied("--accept-gap")
        world.append(100)
        world.copied()  # The gap was accepted, though no event stood behind it.
        assert len(readers.with_duckdb(world.lakehouse, STREAM)) == 300


def test_a_new_partition_begins_where_it_does(tmp_path: Path) -> None:
    with made(tmp_path, "sql") as world:
        world.append(100)
        world.copied()
        world.server.kill()
        world.server.schema = SCHEMA.replace("partitions: 4", "partitions: 5")
        world.server.start()
        world.server.append(STREAM, [{"payload": 1, "partition": 4}])
        done = world.copier().once()
        assert done.returncode == 0 and "partition 4 is not in strata.click yet" in done.stdout
        assert (4, 0, "1") in [(*row[:2], row[-1]) for row in readers.with_duckdb(world.lakehouse, STREAM)]


def test_snapshots_expire_and_orphans_go(world: World) -> None:
    for _ in range(8):
        world.append(20)
        world.copied("--keep-snapshots", "3")
    assert len(pyiceberg_table(world.lakehouse, STREAM).metadata.snapshots) <= 3
    assert world.copier().once("written=KILL").returncode == 0, "nothing is written where there is nothing to copy"
    world.append(20)
    assert world.copier().once("written=KILL").returncode == -signal.SIGKILL
    done = world.copier("--drop-orphans").once()
    assert done.returncode == 0 and "Click: 0 files removed" in done.stdout, (
        "they may be of a commit that is being made"
    )
    world.holds()
    if isinstance(world.lakehouse, Sql):
        long_ago = time.time() - 2 * 24 * 60 * 60
        found = [path for path in world.lakehouse.warehouse.rglob("*") if path.is_file()]
        for path in found:
            os.utime(path, (long_ago, long_ago))
        done = world.copier("--drop-orphans").once()
        left = [path for path in world.lakehouse.warehouse.rglob("*") if path.is_file()]
        assert done.returncode == 0 and f"Click: {len(found) - len(left)} files removed" in done.stdout
        assert len(left) < len(found)
        world.holds()


def test_what_cannot_be_copied_is_said_in_a_line(world: World) -> None:
    assert "404" in world.refused(stream="Nothing")
    assert "same in lower case" in world.refused("--stream", "CLICK")
    assert "there is no certificate" in world.refused("--ca", "/dev/null")
    world.append(10)
    port, world.server.port = world.server.port, 1
    assert "does not answer" in world.refused()
    world.server.port = port
    table = pyiceberg_table_of_others(world)
    assert "its columns are not" in world.refused()
    pyiceberg_catalog(world).drop_table(table)
    world.copied()
    with pyiceberg_table(world.lakehouse, STREAM).transaction() as changed:
        changed.remove_properties(*[f"strata.next.{partition}" for partition in range(PARTITIONS)])
    assert "it was not made here" in world.refused()


def test_a_credential_that_is_wrong_is_not_shown(tmp_path: Path) -> None:
    with made(tmp_path, "rest") as world:
        world.append(10)
        assert isinstance(world.lakehouse, Rest)
        world.lakehouse = Rest(
            world.lakehouse.uri, world.lakehouse.warehouse, world.lakehouse.s3_endpoint, ("lake", "wrong-secret")
        )
        world.refused()


def test_a_catalogue_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with made(tmp_path, "sql") as world:
        world.append(10)
        world.lakehouse = Sql(tmp_path / "no folder" / "lake.db", tmp_path / "warehouse")
        assert "there is no folder" in world.refused()
        world.lakehouse = Sql(Path("//srv/lake.db"), tmp_path / "warehouse")
        assert "with a path" in world.refused()
        world.lakehouse = Rest("http://127.0.0.1:1", "lake", "http://127.0.0.1:1", ("lake", "secret"))
        world.refused()


def test_a_full_disk_is_said_in_a_line_and_loses_nothing(tmp_path: Path) -> None:
    if processes.captured(["unshare", "--map-root-user", "--mount", "true"]).returncode != 0:
        pytest.skip("a small disk is a mount, which this user may not make")
    with made(tmp_path, "sql") as world:
        world.append(1000)
        disk, kept = tmp_path / "disk", tmp_path / "kept"
        disk.mkdir()
        world.lakehouse = Sql(disk / "lake.db", disk / "warehouse")
        copy = shlex.join([*world.copier().command(), "--once"])
        grow = "".join(f"mount -o remount,size={size} {disk}; {copy} >&2; echo $?; " for size in SMALL_DISKS)
        script = f"mount -t tmpfs -o size=4k tmpfs {disk}; {grow} cp -a {disk} {kept}"
        done = processes.captured(["unshare", "--map-root-user", "--mount", "sh", "-c", script])
        codes, lines = (
            done.stdout.split(),
            [line for line in done.stderr.splitlines() if line.startswith("strata-lake: ")],
        )
        assert codes == sorted(codes, reverse=True) and set(codes) == {"0", "2"} and len(lines) == codes.count("2"), (
            done.stderr
        )
        assert all("make room" in line for line in lines) and any("os error 28" in line for line in lines), "\n".join(
            lines
        )
        disk.rmdir()
        kept.rename(disk)
        world.holds()


def test_what_the_document_shows(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in blocks] == ["", "graphql", "", "sh", "", "", "python", "python"]
    _, schema, start, append, appended, copy, *read = [block for _, block in blocks]
    for name, place in (
        ("strata", toolchain.target_folder() / "release" / "strata"),
        ("strata-lake", copying.program()),
    ):
        (tmp_path / name).symlink_to(place)
    (tmp_path / "schema.graphql").write_text(schema, encoding="utf-8")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    started = ["sh", "-c", f"exec {start.strip()} --listen 127.0.0.1:{port}"]
    with processes.started(started, processes.STORING, cwd=tmp_path, env=environment, stderr=processes.DEVNULL):
        server = Server(tmp_path, "", int(port))
        deadline = time.monotonic() + 60
        while True:
            try:
                server.ask("GET", "/_ready")
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        done = processes.captured(["sh", "-ec", append.replace("9996", port)], cwd=tmp_path, env=environment)
        assert (done.returncode, done.stdout) == (0, appended.strip()), done.stderr
        done = processes.captured(["sh", "-ec", copy.replace("9996", port)], cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        loaded = "; ".join(f"LOAD '{file}'" for file in readers.extensions())
        shown = "".join(read).replace("INSTALL iceberg; LOAD iceberg", loaded)
        done = processes.captured([sys.executable, "-c", shown], cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.count("/buy") == 2, done.stderr


def pyiceberg_catalog(world: World) -> Any:
    return importlib.import_module("pyiceberg.catalog").load_catalog("strata", **world.lakehouse.properties())


def pyiceberg_table_of_others(world: World) -> str:
    """A table of the stream's name that has other columns."""
    pyarrow = importlib.import_module("pyarrow")
    catalog = pyiceberg_catalog(world)
    catalog.create_namespace_if_not_exists("strata")
    catalog.create_table("strata.click", schema=pyarrow.schema([("n", pyarrow.int64())]))
    return "strata.click"


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    assert serving.build()
    copying.build()
