"""Where the time of a row goes: a flame graph, the functions that cost most, and what each layer has of it.

Why stacks are cut: a bench sets up, warms and checks, and none of that is the row. Only what was seen under the loop of
operations counts, and a stack begins there; of a row that is timed by the server's clock it begins in the server's
thread.

Why two tools: perf samples where time is spent, waiting for memory included, but a machine may not have it or not allow
it. Then callgrind counts instructions, with its graph of calls in place of stacks: a function's cost is shared out
among its callers in proportion, which is a guess where a function costs more for one caller than for another. The
result says which of the two it is.
"""

import re
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from run_benches import files, processes, scratch, serialization
from run_benches.analysis import figures
from run_benches.errors import Exit, UserError
from run_benches.measure import build, callgrind, jobs, provenance, selection
from run_benches.measure.callgrind import Count, Skipped
from run_benches.measure.layers import layer_names, on_demand
from run_benches.measure.lock import alone
from run_benches.places import RUNS, shown
from run_benches.progress import ProgressLine
from run_benches.render import flame, terminal
from run_benches.render.flame import Frame, Stack
from run_benches.store import runs
from run_benches.store.runs import Facts

PROFILE_SCHEMA = 1
PROFILED_S = 3.0
SAMPLES_PER_S = 997
"""A prime, so that the samples do not fall into step with something that comes round a thousand times a second."""

STACK_BYTES = 32768
"""The bytes that perf keeps of a stack at each sample: enough for a request that waits within a server."""

MOST_PROCESSES = 8
"""A row that changes its store is run again and again on a fresh one, but not more often than this."""

DEADLINE_S = 600.0
SHOWN = 10
SMALLEST_SHARE = 0.0005
"""Callgrind's graph is followed down to calls of this share of the whole."""

OTHER = "other"

LOOP = re.compile(r"\bstrata_harness::live::(drive|.*::run)\b")
"""The loop of operations; in revisions before `drive` was kept out of line, what called it."""

SERVER = re.compile(r"\btokio::runtime::(.*Runtime::block_on|blocking)\b")
"""The threads of a server, with those on which it waits for the store."""


@dataclass(frozen=True)
class Profile:
    """The stacks that were seen of one revision of a row: `unit` is samples or instructions, `operation_ns` what one
    operation took."""

    revision: str
    tool: str
    unit: str
    operation_ns: float
    stacks: Counter[Stack]


@dataclass(frozen=True)
class FunctionShare:
    """A function that costs something by itself, as a share of the whole; `before` is its share in the other revision,
    if there is one."""

    function: str
    layer: str
    share: float
    before: float | None = None


@dataclass(frozen=True)
class Report:
    """The document that `--json` prints."""

    schema: int
    row: str
    revision: str
    against: str | None
    tool: str
    unit: str
    operation_ns: float
    seen: float
    functions: list[FunctionShare]
    layers: list[FunctionShare]
    picture: str


def main(row: str, revision: str | None, as_json: bool) -> Exit:
    """Profiles a row of this checkout; with a revision, also there, and shows what changed since."""
    layers = layer_names()
    layer = row.partition("/")[0]
    selection.check_layers([row], layers)
    if layer not in layers:
        raise UserError(f"profile takes one row, not {row!r}; to see them: run-benches.py list")
    with alone():
        suite = build.ask(layer, build.build(on_demand() - {layer})[layer])
        selection.check_rows([row], list(suite.facts.rows))
        id, *others = [id for id in suite.facts.rows if selection.matches(id, row)]
        if others:
            raise UserError(
                f"{row} are {1 + len(others)} rows, and one can be profiled: {', '.join([id, *others[:2]])}{', ...' if len(others) > 2 else ''}"
            )
        facts = suite.facts.rows[id]
        before = _profiled_at(revision, layer, id, facts) if revision else None
        tool = provenance.tool()
        after = _profiled(suite.executable, f"{tool.commit[:9]}{'-dirty' if tool.dirty else ''}", id, facts)
    if before and before.unit != after.unit:
        raise UserError(
            f"{before.revision} was profiled by {before.tool}, {after.revision} by {after.tool}: they cannot be put side by side"
        )
    picture = _draw(id, facts, after, before)
    report = Report(
        PROFILE_SCHEMA,
        id,
        after.revision,
        before.revision if before else None,
        after.tool,
        after.unit,
        round(after.operation_ns, 1),
        after.stacks.total(),
        _shares(by_function(after.stacks), by_function(before.stacks) if before else None)[:SHOWN],
        _shares(by_layer(after.stacks), by_layer(before.stacks) if before else None),
        shown(picture),
    )
    print(serialization.text(report) if as_json else _text(report), end="")
    return Exit.FINE


def _profiled_at(word: str, layer: str, id: str, facts: Facts) -> Profile:
    from run_benches.compare import revisions, worktree

    revision = revisions.resolve(word)
    built = worktree.build_side(revision, "a", layers=[layer])
    if layer not in built or id not in build.ask(layer, built[layer].executable).facts.rows:
        raise UserError(f"{revision.name} has no row {id}: nothing to compare its profile with")
    return _profiled(built[layer].executable, revision.commit[:9], id, facts)


def _profiled(executable: Path, revision: str, id: str, facts: Facts) -> Profile:
    with scratch.folder(RUNS) as home, ProgressLine() as line:
        (home / jobs.TEMPLATES).mkdir()

        def tick() -> None:
            line.show(f"profiling {id} at {revision}")

        environment = jobs.environment_of({"STRATA_TEMPLATES": str(home / jobs.TEMPLATES)})
        try:
            operation_ns = _operation_ns([str(executable)], id, facts, environment, home, tick)
            count = Count(executable, id, facts, environment, operation_ns)
            timed = SERVER if facts.clock == "cpu" else LOOP
            tool, unit = f"perf, {SAMPLES_PER_S} samples a second of the processor's time", "samples"
            stacks = _by_perf(count, home, timed, tick)
            if isinstance(stacks, Skipped):
                tool, unit = f"callgrind: instructions, not time, since {stacks.reason}", "instructions"
                stacks = _by_callgrind(count, home, timed, tick)
        except _Failed as failed:
            raise UserError(f"{id} at {revision} cannot be profiled: {failed}") from failed
    return Profile(revision, tool, unit, operation_ns, stacks)


class _Failed(Exception):
    """The bench itself failed, or left nothing."""


def _operation_ns(
    command: list[str], id: str, facts: Facts, environment: dict[str, str], home: Path, tick: Callable[[], None]
) -> float:
    """Measures the nanoseconds that one operation takes: the difference of N and 2 N of them, N growing until it stands
    out of the cost of starting."""
    operations = 1
    while True:
        seconds = []
        for number in (operations, 2 * operations):
            began = time.monotonic()
            _run(command, id, min(number, facts.capacity or number), environment, home, tick)
            seconds.append(time.monotonic() - began)
        difference = seconds[1] - seconds[0]
        if difference > 0.3 or 16 * operations > (facts.capacity or 1 << 32):
            return max(difference, 0.001) / operations * 1e9
        operations *= 8


def _run(
    command: list[str], id: str, operations: int, environment: dict[str, str], home: Path, tick: Callable[[], None]
) -> None:
    failure = callgrind.run(command, id, operations, environment, home, DEADLINE_S, tick)
    if failure:
        raise _Failed(failure)


def _by_perf(count: Count, home: Path, timed: re.Pattern[str], tick: Callable[[], None]) -> Counter[Stack] | Skipped:
    perf = shutil.which("perf")
    if perf is None:
        return Skipped("perf is not installed")
    data = home / "perf.data"
    record = [
        perf,
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        str(SAMPLES_PER_S),
        "--call-graph",
        f"dwarf,{STACK_BYTES}",
        "-o",
        str(data),
        "--",
    ]
    operations = min(max(1, round(PROFILED_S * 1e9 / count.row_ns)), count.facts.capacity or sys.maxsize)
    stacks: Counter[Stack] = Counter()
    for _ in range(min(MOST_PROCESSES, -(-round(PROFILED_S * 1e9) // round(operations * count.row_ns)))):
        failure = callgrind.run(
            [*record, str(count.executable)], count.row, operations, count.environment, home, DEADLINE_S, tick
        )
        if failure:
            return Skipped(f"perf is refused here ({failure})")
        tick()
        script = [perf, "script", "--no-inline", "-F", "comm,ip,sym,dso", "-i", str(data)]
        stacks.update(sampled(processes.captured(script).stdout, timed, runs.layer_of(count.row)))
    if not stacks:
        return Skipped("perf saw no stack of the timed part")
    return stacks


def _by_callgrind(count: Count, home: Path, timed: re.Pattern[str], tick: Callable[[], None]) -> Counter[Stack]:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise _Failed("neither perf nor valgrind can be used here: apt-get install valgrind")
    out = home / "callgrind.out"
    command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", str(count.executable)]
    operations = min(max(1, round(2 * callgrind.NATIVE_NS / count.row_ns)), count.facts.capacity or sys.maxsize)
    _run(command, count.row, operations, count.environment, home, tick)
    stacks = counted(out.read_text(encoding="utf-8", errors="replace"), timed, runs.layer_of(count.row))
    if not stacks:
        raise _Failed("callgrind saw no call of the timed part")
    return stacks


def sampled(script: str, timed: re.Pattern[str], bench: str) -> Counter[Stack]:
    """The stacks under the timed part, of what `perf script` printed: samples apart by an empty line, the innermost
    function first."""
    stacks: Counter[Stack] = Counter()
    for sample in script.split("\n\n"):
        frames = []
        for line in reversed(sample.strip("\n").splitlines()[1:]):
            function, _, place = line.strip().partition(" ")[2].rpartition(" (")
            frames.append(frame(function, place.rstrip(")"), bench))
        begins = [at for at, frame in enumerate(frames) if timed.search(frame.function)]
        if begins:
            stacks[_owned(frames[begins[-1] + 1 :] or frames[begins[-1] :])] += 1
    return stacks


def frame(function: str, place: str, bench: str) -> Frame:
    """A function by its plain name, and whose it is. `place` is the file that holds its code, `bench` the bench that
    calls it all."""
    name = _plain(function)
    ours_or_rocksdb = re.search(r"\bstrata::(\w+)|rocksdb", name)
    if "kernel" in place or place == "[vdso]":
        return Frame(name, "kernel")
    if ours_or_rocksdb:
        return Frame(name, ours_or_rocksdb[1] or "RocksDB")
    if re.match(r"<?(\w+ as )?(strata_harness|" + re.escape(bench) + r")\b", name):
        return Frame(name, "bench")
    if re.search(r"/(libc|libm|libpthread|ld-linux|libgcc|libstdc\+\+)[^/]*$", place):
        return Frame(name, "C library")
    return Frame(name, OTHER)


def _owned(stack: Sequence[Frame]) -> Stack:
    """Code of nobody here (Rust's library, a crate, a codec) counts for the layer that called it."""
    owned: list[Frame] = []
    for one in stack:
        owned.append(Frame(one.function, owned[-1].layer) if one.layer == OTHER and owned else one)
    return tuple(owned)


def _plain(function: str) -> str:
    """Without hashes, versions, clones, the arguments of C++, and the modules in which src/lib.rs has the layers: older
    revisions have none."""
    name = re.sub(
        r"::h[0-9a-f]{16}\b|\[[0-9a-f]{8,16}\]|@@?GLIBC\S*| \[clone [^]]*\]|'\d+$", "", function
    ).removesuffix(" const")
    name = re.sub(r"\bstrata::(server_)?layers::", "strata::", name)
    depth = 0
    for at in reversed(range(len(name) if name.endswith(")") else 0)):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name if name[:at].endswith("operator") else name[:at] or name
    return name


@dataclass
class _Function:
    itself: float = 0.0
    calls: defaultdict[Frame, float] = field(default_factory=lambda: defaultdict(float))


def counted(output: str, timed: re.Pattern[str], bench: str) -> Counter[Stack]:
    """The stacks under the timed part, of what callgrind wrote: its graph of calls, followed down in proportion to
    their costs."""
    functions = _graph(output, bench)
    entries = [frame for frame in functions if timed.search(frame.function)]
    # What calls the innermost of them has its costs in it.
    entries = [
        frame
        for frame in entries
        if not any(callee in entries and callee != frame for callee in functions[frame].calls)
    ]
    stacks: Counter[Stack] = Counter()
    for entry in entries:
        cost = functions[entry].itself + sum(functions[entry].calls.values())
        for stack, share in _followed(functions, entry, (), cost, cost * SMALLEST_SHARE):
            stacks[_owned(stack[1:] or stack)] += round(share)
    return +stacks


def _followed(
    functions: dict[Frame, _Function], here: Frame, above: Stack, cost: float, smallest: float
) -> Iterator[tuple[Stack, float]]:
    stack = (*above, here)
    function = functions.get(here, _Function(1.0))
    # What a function spends in calls of itself stands in its other costs already.
    calls = {callee: called for callee, called in function.calls.items() if callee not in stack}
    per_cost = cost / max(1.0, function.itself + sum(calls.values()))
    itself = function.itself * per_cost
    for callee, called in calls.items():
        if called * per_cost >= smallest:
            yield from _followed(functions, callee, stack, called * per_cost, smallest)
        else:
            itself += called * per_cost
    yield stack, itself


def _graph(output: str, bench: str) -> dict[Frame, _Function]:
    """Names stand in full once, later as a number; the line after `calls=` is what these calls cost, all other costs
    are the function's own."""
    names: dict[tuple[str, str], str] = {}
    functions: dict[Frame, _Function] = {}

    def name_of(table: str, text: str) -> str:
        number, _, name = text.partition(" ")
        return names.setdefault((table, number), name)

    place = callee_place = ""
    here, callee, called = _Function(), Frame("", ""), False
    for line in output.splitlines():
        key, equals, value = line.partition("=")
        if key == "ob" and equals:
            place = callee_place = name_of("ob", value)
        elif key == "cob" and equals:
            callee_place = name_of("ob", value)
        elif key == "fn" and equals:
            here = functions.setdefault(frame(name_of("fn", value), place, bench), _Function())
        elif key == "cfn" and equals:
            callee, callee_place = frame(name_of("fn", value), callee_place, bench), place
        elif key == "calls" and equals:
            called = True
        elif line[:1] in "+-*0123456789" and line:
            cost = float(line.split()[1])
            if called:
                here.calls[callee] += cost
            else:
                here.itself += cost
            called = False
    return functions


def by_function(stacks: Counter[Stack]) -> dict[Frame, float]:
    """Returns what each function costs by itself, as a share of the whole."""
    whole = stacks.total()
    costs: Counter[Frame] = Counter()
    for stack, cost in stacks.items():
        costs[stack[-1]] += cost
    return {function: cost / whole for function, cost in costs.most_common()}


def by_layer(stacks: Counter[Stack]) -> dict[Frame, float]:
    """The same, summed over the functions of each layer."""
    shares: dict[Frame, float] = {}
    for function, share in by_function(stacks).items():
        layer = Frame("", function.layer)
        shares[layer] = shares.get(layer, 0.0) + share
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _shares(after: dict[Frame, float], before: dict[Frame, float] | None) -> list[FunctionShare]:
    """The largest first; of two revisions those that changed most."""
    if before is None:
        return [FunctionShare(*function, round(share, 5)) for function, share in after.items()]
    both = [
        FunctionShare(*function, round(after.get(function, 0.0), 5), round(before.get(function, 0.0), 5))
        for function in {**after, **before}
    ]
    return sorted(both, key=lambda one: -abs(one.share - (one.before or 0.0)))


def _text(report: Report) -> str:
    against = f", against {report.against}" if report.against else ""
    title = f"{report.row} at {report.revision}{against}: where its {'time' if report.unit == 'samples' else 'instructions'} went"
    shares = [
        "share>",
        *(["before>", "change>"] if report.against else []),
    ]
    functions = [[one.function, one.layer, *_cells(one)] for one in report.functions]
    layers = [[one.layer, *_cells(one)] for one in report.layers]
    lines = [
        terminal.table(title, ["function, by itself", "layer", *shares], functions),
        terminal.table("by layer", ["layer", *shares], layers),
        f"{report.seen:.0f} {report.unit} ({report.tool}); an operation takes about {figures.time(report.operation_ns)}",
        f"drawn as {report.picture}",
    ]
    return "\n".join(lines) + "\n"


def _cells(one: FunctionShare) -> list[str]:
    if one.before is None:
        return [figures.percent(one.share)]
    return [figures.percent(one.share), figures.percent(one.before), f"{100 * (one.share - one.before):+.1f} points"]


def _draw(id: str, facts: Facts, after: Profile, before: Profile | None) -> Path:
    """Writes the picture; returns where."""
    RUNS.mkdir(exist_ok=True)
    against = f" against {before.revision}" if before else ""
    notes = [
        f"{after.stacks.total():.0f} {after.unit} ({after.tool}); an operation takes about {figures.time(after.operation_ns)}"
    ]
    if facts.threads > 1:
        notes.append(f"one thread of {facts.threads}: what waits for another thread is not in it")
    if before:
        notes.append("boxes are as wide as their share now; colours say how that share changed")
    path = RUNS / "profiles" / f"{id.replace('/', '-')}-{after.revision}{against.replace(' ', '-')}.svg"
    files.replace(
        path, flame.draw(f"{id} at {after.revision}{against}", notes, after.stacks, before.stacks if before else None)
    )
    return path
