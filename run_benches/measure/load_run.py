"""Load tests, one scenario after the other: each is a process of the load tool, and what it stored becomes cells of the
run, one for each variant that the load tool planned.

Why one process a scenario: one that fails costs its own cells, and what is done is on disk before the next begins. Why
the load tool's standard output and error go on to ours: it says what it found, and shows what goes on, better than a
line about it could.
"""

import json
import os
import re
import shlex
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from run_benches import processes, serialization
from run_benches.analysis import figures
from run_benches.errors import Exit, UserError
from run_benches.interrupts import raise_if_requested, until_stopped
from run_benches.measure import build, machine, provenance
from run_benches.measure.lock import alone
from run_benches.places import CALIBRATION, ROOT, RUNS, SCENARIOS, shown
from run_benches.progress import duration
from run_benches.setup import brokers
from run_benches.store import loads, stored_file
from run_benches.store.loads import LoadCell, LoadRun
from run_benches.store.runs import State

ENDED_BEFORE = "the run ended before it"

SETUP_S = 5.0
"""A first guess of what a run takes beside its window: starting the server and filling it. The next ones take what
those before did."""


@dataclass(frozen=True)
class RunnableScenario:
    """One that can be run: its name or file as typed, and from its file what it is about and how long requests are
    started."""

    name: str
    about: str
    seconds: float | None
    group: str | None = None
    """The name that stands for it and others like it."""
    needs_programs: bool = False
    """True if other programs run beside it, or check what came of it."""
    needs_nats: bool = False
    """True if messages come over NATS in one of its variants."""
    needs_database: bool = False
    """True if its servers keep their tables in a database that is started for them."""
    repeats: int = 1
    """The number of times that each of its runs is made, as it says."""


@dataclass(frozen=True)
class Variant:
    """A run that the load tool plans, and how long it starts requests; nothing where it ends by their number."""

    name: str
    seconds: float | None


@dataclass(frozen=True)
class LoadPlan:
    """The plan that the load tool makes of a scenario and flags; `not_run` says what belongs to it and cannot be run,
    and why."""

    run: list[Variant]
    not_run: dict[str, str]

    @property
    def seconds(self) -> float:
        """The seconds that it takes beside the set-up, as far as they are known."""
        return sum(variant.seconds or 0.0 for variant in self.run)


def built_in() -> list[RunnableScenario]:
    """The scenarios of this checkout, which the load tool has built in, by name."""
    return [_read(path.stem, path) for path in sorted(SCENARIOS.glob("*.toml"))]


GROUPS = {"streams": "@stream", "registry": "@multicast"}
"""By name what stands for all scenarios of this checkout that need no other programs and whose schema has this
directive, or whose names begin with that of the group."""


def chosen(names: Sequence[str]) -> list[RunnableScenario]:
    """The scenarios of these names or files; all of this checkout's that need no other programs without any. An unknown
    one is a complaint before anything is built."""
    known = {scenario.name: scenario for scenario in built_in()}
    grouped = {
        group: [scenario.name for scenario in known.values() if scenario.group == group and not scenario.needs_programs]
        for group in GROUPS
    }
    names = [one for name in names for one in (grouped.get(name) or [name])]
    unknown = [name for name in names if name not in known and not Path(name).is_file()]
    if unknown:
        raise UserError(f"no scenario {unknown[0]!r}: give a file, or one of {', '.join(known)}")
    if not known and not names:
        raise UserError(f"there is no scenario in {shown(SCENARIOS)}")
    alone = [scenario.name for scenario in known.values() if not (scenario.needs_programs or scenario.needs_database)]
    return [known.get(name) or _read(name, Path(name)) for name in dict.fromkeys(names or alone)]


def _read(name: str, path: Path) -> RunnableScenario:
    """Reads what is needed for a list; whether it can be run is for the load tool to say."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{shown(path.absolute())}: {error}") from error
    stated = content.get("load")
    parts = [stated.get("schedule"), stated] if isinstance(stated, dict) else []
    if isinstance(stated, dict) and isinstance(stated.get("stages"), list):
        parts.append({"seconds": sum(stage["seconds"] for stage in stated["stages"])})
    found = [
        part["seconds"] for part in parts if isinstance(part, dict) and isinstance(part.get("seconds"), int | float)
    ]
    data = content.get("data")
    schema = str(data.get("schema", "")) if isinstance(data, dict) else ""
    group = next(
        (group for group, directive in GROUPS.items() if directive in schema or name.startswith(f"{group}-")), None
    )
    needs_database = isinstance(data, dict) and "storage" in data
    needs_programs = any(isinstance(content.get(key), list) for key in ("beside", "checks"))
    sweep = content.get("sweep")
    sweep = sweep if isinstance(sweep, dict) else {}
    needs_nats = _name_nats([content.get("slot"), *sweep.get("slots", [])])
    seconds, about = found[0] if found else None, str(content.get("about", ""))
    return RunnableScenario(
        name, about, seconds, group, needs_programs, needs_nats, needs_database, sweep.get("repeats", 1)
    )


def _name_nats(slots: Sequence[object]) -> bool:
    """Returns whether one of these slots, or of these flags, is over NATS; JetStream is in it."""
    return any(word in str(slot) for slot in slots for word in ("nats", "jetstream"))


def measure(
    scenarios: list[RunnableScenario],
    flags: list[str],
    command: list[str],
    to_stderr: bool,
    programs_beside: Mapping[str, Path] = {},
) -> tuple[LoadRun, Path]:
    """Builds, runs these scenarios, and stores the run, which is not complete if it was interrupted. Where the programs
    are that scenarios name is not stored."""
    beside_flags = [f"--program={name}={place}" for name, place in programs_beside.items()]
    with alone():
        if _name_nats(flags) or any(scenario.needs_nats for scenario in scenarios):
            brokers.nats()
        with_databases = any(scenario.needs_database for scenario in scenarios)
        if with_databases:
            brokers.environment()
        programs = build.programs("load", "strata", with_databases=with_databases)
        run = _new_run(flags, command, programs)
        path = stored_file.new(RUNS, "load-", run.tool.commit[:9])
        run.sources = {
            scenario.name: parts for scenario in scenarios if (parts := provenance.of_scenarios([scenario.name]))
        }
        plans = {scenario: _plan(run, scenario, programs["load"], beside_flags) for scenario in scenarios}
        loads.write(run, path)
        known = sum(plan.seconds + SETUP_S * len(plan.run) for plan in plans.values())
        print(
            f"{figures.plural(len(run.scenarios), 'run')}: about {duration(known)}; stored as {shown(path)} while it grows",
            file=sys.stderr,
        )
        began = time.monotonic()
        again = (
            f"{shlex.join(run.command)}, which begins this scenario anew"
            if command[:1] == ["renew"]
            else "run-benches.py load SCENARIO..., naming those that are left"
        )
        with until_stopped(again):
            left, beside, done = known, SETUP_S, 0
            for number, (scenario, plan) in enumerate(plans.items()):
                raise_if_requested()
                print(
                    f"scenario {number + 1} of {len(plans)}, {scenario.name}: about {duration(left)} left",
                    file=sys.stderr,
                    flush=True,
                )
                started = time.monotonic()
                try:
                    _run_scenario(run, scenario, plan, programs, path, to_stderr, beside_flags)
                finally:
                    run.seconds = round(time.monotonic() - began, 1)
                    loads.write(run, path)
                took, done = max(0.0, time.monotonic() - started - plan.seconds), done + len(plan.run)
                beside += (took - beside * len(plan.run)) / max(1, done)
                left = sum(later.seconds + beside * len(later.run) for later in list(plans.values())[number + 1 :])
            run.complete = True
            loads.write(run, path)
        return run, path


def _plan(run: LoadRun, scenario: RunnableScenario, tool: Path, more: list[str]) -> LoadPlan:
    """Plans the runs of a scenario, each with its cell in the run. One that cannot be run has a cell that says why."""
    command = [str(tool), "run", scenario.name, "--plan", *run.flags, *more]
    done = processes.captured(command, cwd=_folder_of(scenario))
    if done.returncode != 0:
        run.scenarios[scenario.name] = LoadCell("invalid", [processes.essence(done.stderr.splitlines())])
        run.code = max(run.code, Exit.ERROR)
        return LoadPlan([], {})
    plan = serialization.parse(LoadPlan, json.loads(done.stdout))
    for variant in plan.run:
        if variant.name in run.scenarios:
            raise UserError(f"two scenarios are called {variant.name!r}: give one of them another name")
        run.scenarios[variant.name] = LoadCell("not_run", [ENDED_BEFORE])
    run.scenarios |= {f"{scenario.name}: {what}": LoadCell("not_run", [why]) for what, why in plan.not_run.items()}
    return plan


def _run_scenario(
    run: LoadRun,
    scenario: RunnableScenario,
    plan: LoadPlan,
    programs: dict[str, Path],
    path: Path,
    to_stderr: bool,
    more: list[str],
) -> None:
    """Runs the load tool on one scenario; whatever happens to it, its cells have their states when this ends."""
    if not plan.run:
        return
    folder, names = path.with_suffix(""), [variant.name for variant in plan.run]
    server = [] if names_a_server(run.flags) else ["--server", str(programs["strata"])]
    kept = ["--results", str(folder), "--calibration", str(CALIBRATION)]
    # The load tool's line about what goes on, where ours is a terminal: its standard error is a pipe. A line that is
    # rewritten, if it can be.
    line = "--plain" if os.environ.get("TERM") in (None, "", "dumb") else "--live"
    view = [line] if sys.stderr.isatty() else []
    command = [str(programs["load"]), "run", scenario.name, *server, *kept, *run.flags, *more, *view]
    output, words = sys.stderr if to_stderr else None, b""
    try:
        with processes.started(
            command, processes.STORING, cwd=_folder_of(scenario), stdout=output, stderr=processes.PIPE
        ) as process:
            assert process.stderr is not None
            while said := process.stderr.read1(4096):  # type: ignore[attr-defined]
                sys.stderr.buffer.write(said)
                sys.stderr.buffer.flush()
                words = (words + said)[-4096:]
            process.wait()
    except KeyboardInterrupt:
        run.code = max(run.code, Exit.FAILED)
        run.scenarios |= _cells(folder, names, "it was interrupted")
        raise
    code = process.returncode
    last = [line for line in re.split(r"[\r\n]|\x1b\[2K", words.decode(errors="replace")) if line.strip()][-1:]
    cells = _cells(
        folder, names, last[0] if code == 2 and last else f"the load tool ended with code {code} and stored no result"
    )
    run.scenarios |= cells
    lacking = code < 0 or any(cell.state == "invalid" and not cell.result for cell in cells.values())
    run.code = max(run.code, Exit.ERROR if lacking else code)


def variables() -> list[str]:
    """The variables of this environment that the load tool, or the server that it starts, takes for options."""
    of_server = [name for name in os.environ if name.startswith("STRATA_") and name not in _OF_OURS]
    return sorted(of_server + [name for name in _OF_TOOL if name in os.environ])


_OF_TOOL = (
    "BASE_URL",
    "CONCURRENT_TASKS",
    "SEED_RECORD_COUNT",
    "TARGET_READ_THROUGHPUT",
    "TARGET_WRITE_THROUGHPUT",
    "TEST_DURATION_SECS",
    "WARMUP_REQUESTS",
)

_OF_OURS = ("STRATA_BENCH_DIR", "STRATA_COMPARE_DIR", "STRATA_NATS_PROGRAM", "STRATA_REDIS_PROGRAM")
"""Where this command keeps what it builds and measures, and where programs are that the load tool starts beside the
server."""


def names_a_server(flags: Sequence[str]) -> bool:
    """Returns whether a run with these flags, or the variable of one of them, is against another server than the one
    that is built here."""
    return "BASE_URL" in os.environ or any(flag.partition("=")[0] in ("--base-url", "--server") for flag in flags)


def _folder_of(scenario: RunnableScenario) -> Path | None:
    """A scenario of this checkout runs in it; a file is named from where the person is."""
    return ROOT if (SCENARIOS / f"{scenario.name}.toml").exists() else None


def _cells(folder: Path, names: list[str], reason: str) -> dict[str, LoadCell]:
    """Returns the cells of planned runs, by name. The first that left nothing has the reason why; those after it did
    not begin."""
    cells: dict[str, LoadCell] = {}
    for name in names:
        cell = _stored(folder, name)
        ended = any(other.state == "invalid" and not other.result for other in cells.values())
        cells[name] = cell or (LoadCell("not_run", [ENDED_BEFORE]) if ended else LoadCell("invalid", [reason]))
    return cells


def _stored(folder: Path, name: str) -> LoadCell | None:
    """Returns what the load tool stored of a run: its result, or why it was skipped."""
    without: dict[str, State] = {"skipped": "skipped", "failed": "invalid"}
    for what, state in without.items():
        if (folder / f"{name}.{what}").exists():
            return LoadCell(state, [(folder / f"{name}.{what}").read_text(encoding="utf-8")])
    found = next(
        (path for path in folder.glob("*.json") if re.fullmatch(rf"{re.escape(name)}-\d+-\d+", path.stem)), None
    )
    if found is None:
        return None
    try:
        raw = serialization.load(dict[str, Any], found)
        loads.check_format(raw, found)
        result = serialization.parse(loads.LoadResult, raw)
    except serialization.Malformed as error:
        return LoadCell("invalid", [f"its result is damaged: {error}"])
    state = "invalid" if result.validity == "invalid" else "ran"
    return LoadCell(state, result.broken, raw, curves(raw))


def curves(raw: dict[str, Any]) -> loads.Curves:
    """Takes the points of the curves out of a result, by operation and by kind of time."""
    found: loads.Curves = {}
    for cell in raw["cells"]:
        for kind in ("response", "send_lag", "service"):
            if points := (cell.get(kind) or {}).pop("curve", None):
                parsed = serialization.parse(list[loads.Quantile], points)
                found.setdefault(cell["operation"], {})[kind] = parsed
    return found


def _new_run(flags: list[str], command: list[str], programs: dict[str, Path]) -> LoadRun:
    return LoadRun(
        schema=loads.SCHEMA,
        name=None,
        tool=provenance.tool(),
        command=["run-benches.py", *command],
        started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=0.0,
        complete=False,
        machine=machine.describe(None),
        build=provenance.how_built(),
        binaries={name: build.binary(path) for name, path in programs.items()},
        flags=flags,
    )
