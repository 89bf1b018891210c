"""Lock-step: live processes take short turns on the same cores, and the broker says whose turn it is.

Why: a shared machine runs the same code at half speed in spells of 20 to 500 ms. Processes measured one after the other
fall into different spells; those that alternate every millisecond see the same ones, so their ratios are steady where
their times are not. Hence: only one side runs at any moment (set-up and tear-down included), all do the same number of
operations a turn and the same number of turns, and turns go up a random order of the sides and down again (a
palindrome: of two sides ABBA or BAAB), which cancels drift. Two sides are a pair, more are a tuple. The sides speak the
protocol that stands at the top of `benches/harness/src/paired.rs`.

Nothing here judges: `stats.turns` says what turns say, and statistics are made of that elsewhere. By hand, to see how well this machine can tell a program from itself (`--load 0.6`: while 60 % of each core
are taken): `python3 -m run_benches.measure.broker aa BINARY[:ROW] ... --pairs 40`.
"""

import argparse
import json
import math
import os
import random
import select
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from run_benches import processes, scratch
from run_benches.interrupts import held, raise_if_requested
from run_benches.places import ROOT
from run_benches.stats.turns import CountedTurns

TURN_NS = 1e6
"""A turn of a row with one thread that changes nothing."""

WRITER_TURN_NS = 5e6
"""A turn of a row with one thread that changes its store."""

LONG_TURN_NS = 20e6
"""A turn of several threads, which start and end together, or by CPU clocks, which are read once a turn and lag by a
tick."""

TURNS = 100
"""Turns of each side; the first two are warm-up."""

NAMES = "ABCDEFGH"
"""The names of the sides in messages."""

_INHERITED = ("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "STRATA_BENCH_DIR")
"""All that a side gets from our own environment."""

_QUOTED_LINES = 8
"""Lines of a side's stderr in the reason of a failure."""


@dataclass(frozen=True)
class Lane:
    """A program that speaks the protocol; `environment` is added to the few variables that every side gets."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowInTurns:
    """Rows to compare: an id for each side. `turns` are those of each side: even, at least 4. `cost_ns`, of an
    operation on the wall, is found out by the sides where it is not known yet."""

    ids: tuple[str, ...]
    turn_ns: float = TURN_NS
    turns: int = TURNS
    cost_ns: float | None = None


@dataclass
class Turn:
    """One turn: the side (from 0), its own clock, and how long its main thread stood in the run queue meanwhile (None =
    unknown)."""

    side: int
    nanoseconds: int
    waited_ns: int | None = None


@dataclass
class Conditions:
    """The conditions that one side met while a row's turns went on: each a difference of counters of the whole process
    (switches: of its main thread)."""

    major_faults: int
    minor_faults: int
    involuntary_switches: int


@dataclass
class RowLog:
    """The turns of one row in the order in which they were taken, each of `operations` operations; conditions by side."""

    ids: tuple[str, ...]
    operations: int
    turns: list[Turn]
    conditions: tuple[Conditions, ...] | None = None

    def counted(self, warm_up: int) -> CountedTurns:
        """The turns that count, after so many palindromes of warm-up."""
        return CountedTurns.of([(turn.side, turn.nanoseconds) for turn in self.turns], len(self.ids), warm_up)


@dataclass(frozen=True)
class Failure:
    """A row that could not be compared, and why."""

    ids: tuple[str, ...]
    reason: str


@dataclass
class TurnsResult:
    """Every row that was asked for is in exactly one of the two."""

    rows: dict[tuple[str, ...], RowLog]
    failures: list[Failure]


def effect(log: RowLog, by_total: bool = False) -> float:
    """Returns the natural logarithm of the second lane's time over the first's; the first palindrome is warm-up."""
    return log.counted(1).log_ratio(1, 0, by_total)


def cost_ns(log: RowLog) -> float:
    """Returns the nanoseconds that an operation took, as the median over turns, by the clock of the row."""
    return statistics.median(turn.nanoseconds for turn in log.turns) / log.operations


def run(
    sides: Sequence[Lane],
    rows: Sequence[RowInTurns],
    *,
    cores: set[int],
    seed: int,
    deadline_s: float,
    silence_s: float,
    progress: Callable[[int, int], None] | None = None,
) -> TurnsResult:
    """Runs the sides pinned to `cores` until all `rows` (in the order of the source) are compared or have failed. All
    are killed after `deadline_s`, or when nobody says anything for `silence_s`. `progress` is told how many rows are
    settled, of how many. Never raises for what a side does; ValueError for a plan that cannot be carried out."""
    for row in rows:
        if len(row.ids) != len(sides):
            raise ValueError(f"{row.ids}: a row for each of {len(sides)} sides is needed")
        if row.turns < 4 or row.turns % 2:
            raise ValueError(f"{row.ids}: each side needs an even number of turns, at least 4, not {row.turns}")
    for side in range(len(sides)):
        if len({row.ids[side] for row in rows}) < len(rows):
            raise ValueError(f"a row stands twice on side {NAMES[side]}; a process runs each row once")
    rng = random.Random(seed)
    started: dict[int, _Process] = {}
    with scratch.folder(scratch.for_sockets(), "strata-turns-") as home:
        try:
            sockets = [home / name for name in NAMES[: len(sides)]]
            environments = _environments(sides, sockets)
            # Who starts first, and who sets a row up first, may get the better memory: a drawn order decides, so that it
            # has no sign.
            for index in rng.sample(range(len(sides)), len(sides)):
                errors = home / f"{NAMES[index]}.stderr"
                started[index] = _Process(sides[index].command, environments[index], cores, sockets[index], errors)
            return _Broker([started[index] for index in range(len(sides))], rows, rng, progress).run(
                deadline_s, silence_s
            )
        finally:
            with held():
                for process in started.values():
                    process.end()


def _environments(sides: Sequence[Lane], sockets: Sequence[Path]) -> list[dict[str, str]]:
    """Scrubbed, and padded: what stands on the stack before `main` moves everything after it, and moves times with it."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    made = [
        {**inherited, **side.environment, "STRATA_TURN": str(path), "STRATA_PAD": ""}
        for side, path in zip(sides, sockets)
    ]
    # The kernel puts the path of the program there once more.
    sizes = [sum(len(os.fsencode(text)) + 1 for text in [*side.command, side.command[0]]) for side in sides]
    sizes = [
        size + sum(len(os.fsencode(key + value)) for key, value in one.items()) + 2 * len(one)
        for size, one in zip(sizes, made)
    ]
    for size, one in zip(sizes, made):
        one["STRATA_PAD"] = "." * (max(sizes) - size)
    return made


class _Process:
    """A side that runs: its process, what it said last, and what the kernel says about it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cores: set[int], path: Path, errors: Path
    ) -> None:
        self.alive = True
        self.question: list[str] = []
        """The words it waits for an answer to; empty while it runs."""
        self._text = b""
        self._errors = errors
        self._socket: socket.socket | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        with errors.open("wb") as stderr:
            self._process = processes.start(
                command,
                env=environment,
                stdout=processes.DEVNULL,
                stderr=stderr,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
        self._proc = Path("/proc") / str(self._process.pid)
        self._death = os.pidfd_open(self._process.pid)
        self._schedstat: int | None = None
        with suppress(OSError):
            self._schedstat = os.open(self._proc / "schedstat", os.O_RDONLY)

    def watched(self) -> list[int]:
        """File descriptors on which its next word, or its end, will show."""
        return [self._socket.fileno()] if self._socket else [self._listener.fileno(), self._death]

    def read_lines(self, ready: Sequence[int]) -> list[list[str]]:
        """The lines it said, as words; clears `alive` at its end."""
        if self._socket is None:
            if self._listener.fileno() in ready:
                self._socket = self._listener.accept()[0]
            else:
                self.alive = False
            return []
        with suppress(ConnectionResetError):
            received = self._socket.recv(4096)
            if received:
                *lines, self._text = (self._text + received).split(b"\n")
                return [line.decode(errors="replace").split() for line in lines]
        self.alive = False
        return []

    def answer(self, text: str) -> None:
        """Answers its question: from now on it runs."""
        self.question = []
        with suppress(OSError):  # it died meanwhile: its end shows at the next hearing
            assert self._socket is not None
            self._socket.sendall(text.encode() + b"\n")

    def waited_ns(self) -> int | None:
        """Returns the nanoseconds that its main thread has stood in the run queue since it started."""
        if self._schedstat is None:
            return None
        try:
            return int(os.pread(self._schedstat, 128, 0).split()[1])
        except (OSError, IndexError, ValueError):
            return None

    def conditions(self) -> Conditions | None:
        """Counters since it started (proc(5): fields 10 and 12 of `stat`, the last line of `status`)."""
        try:
            fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
            switches = (self._proc / "status").read_text().rpartition("nonvoluntary_ctxt_switches:")[2]
            return Conditions(
                major_faults=int(fields[9]), minor_faults=int(fields[7]), involuntary_switches=int(switches)
            )
        except (OSError, IndexError, ValueError):
            return None

    def last_lines(self) -> str:
        """Returns how it ended, and the end of what it wrote to stderr."""
        code = processes.code_within(self._process, 2)
        if code is None:
            how = "closed its connection"
        else:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return how + self.quoted()

    def quoted(self) -> str:
        """The end of what it wrote to stderr, ready to be put after a reason."""
        lines = self._errors.read_text(errors="replace").splitlines()[-_QUOTED_LINES:]
        return "".join(f"\n  | {line}" for line in lines)

    def end(self) -> None:
        """Ends it with all that it started, and closes what is open."""
        processes.end(self._process)
        for descriptor in (self._death, self._schedstat):
            if descriptor is not None:
                os.close(descriptor)
        self._listener.close()
        if self._socket:
            self._socket.close()


class _Broker:
    """Listens until every side that lives waits for an answer, then answers exactly one of them: so only one runs at a
    time."""

    def __init__(
        self,
        sides: list[_Process],
        plan: Sequence[RowInTurns],
        rng: random.Random,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._sides = sides
        self._plan = plan
        self._places = [{row.ids[side]: place for place, row in enumerate(plan)} for side in range(len(sides))]
        self._rng = rng
        self._progress = progress or (lambda settled, of: None)
        self._result = TurnsResult({}, [])
        self._settled: set[int] = set()
        self._place = [-1] * len(sides)
        """The row, as its place in the plan, that each side is busy with."""
        self._current: RowLog | None = None
        """The row whose turns go on: all sides have met."""
        self._order: Iterator[int] = iter(())
        self._running_turn: Turn | None = None
        self._before: list[Conditions | None] = []
        self._first = rng.sample(range(len(sides)), len(sides))
        """Which side is answered first where several wait for the same: in a drawn order, row by row."""

    def run(self, deadline_s: float, silence_s: float) -> TurnsResult:
        deadline = time.monotonic() + deadline_s
        # Also when every row is settled: a side that ends by itself writes its facts and removes its folders.
        while any(side.alive for side in self._sides):
            raise_if_requested()
            if all(side.question for side in self._sides if side.alive):
                self._answer_one()
                continue
            remaining_s = min(silence_s, deadline - time.monotonic())
            ready, _, _ = select.select(
                [one for side in self._sides if side.alive for one in side.watched()], [], [], max(0.0, remaining_s)
            )
            if not ready:
                reason = (
                    f"nothing heard for {silence_s:g} s"
                    if remaining_s >= silence_s
                    else f"not done after {deadline_s:g} s"
                )
                busy = " and ".join(
                    f"side {NAMES[index]}{self._whereabouts(index)}{side.quoted()}"
                    for index, side in enumerate(self._sides)
                    if side.alive and not side.question
                )
                self._fail_all(f"{reason}, waiting for {busy}")
                break
            for index, side in enumerate(self._sides):
                if side.alive and set(side.watched()) & set(ready):
                    self._hear(index, ready)
        return self._result

    def _whereabouts(self, index: int) -> str:
        place = self._place[index]
        return f" at {self._plan[place].ids[index]}" if place >= 0 else " before its first row"

    def _hear(self, index: int, ready: Sequence[int]) -> None:
        side = self._sides[index]
        for words in side.read_lines(ready):
            if (
                words[:1] == ["done"]
                and words[-1].isdigit()
                and self._running_turn
                and self._running_turn.side == index
            ):
                assert self._current is not None
                turn, self._running_turn = self._running_turn, None
                after = side.waited_ns()
                waited_ns = None if after is None or turn.waited_ns is None else after - turn.waited_ns
                self._current.turns.append(Turn(index, int(words[-1]), waited_ns))
            elif words and words[0] in ("row", "meet", "ready", "over") and not side.question:
                side.question = words
                if words[0] == "row":
                    self._place[index] = self._places[index].get(" ".join(words[1:]), -1)
            else:
                self._fail_all(
                    f"side {NAMES[index]} said {' '.join(words)!r}, which nobody expected{self._whereabouts(index)}"
                )
        if not side.alive:
            self._lost(index)

    def _lost(self, index: int) -> None:
        """One side has ended: nothing more can be compared, and the others are told so row by row. What it finds wrong
        with its state when its turns are over takes the row back that was settled by them."""
        words = self._sides[index].last_lines()
        ids = self._plan[self._place[index]].ids
        if (
            not words.startswith("ended with code 0")
            and self._place[index] in self._settled
            and ids in self._result.rows
        ):
            del self._result.rows[ids]
            self._result.failures.append(Failure(ids, f"side {NAMES[index]}{self._whereabouts(index)} {words}"))
        if self._place[index] not in (-1, *self._settled):
            self._fail(self._place[index], f"side {NAMES[index]}{self._whereabouts(index)} {words}")
        ended = (
            f"side {NAMES[index]} {words}"
            if not words.startswith("ended with code 0")
            else f"side {NAMES[index]} does not have it"
        )
        self._fail_all(ended)

    def _fail_all(self, reason: str) -> None:
        for place in range(len(self._plan)):
            self._fail(place, reason)

    def _fail(self, place: int, reason: str) -> None:
        if place in self._settled:
            return
        if self._current and self._current.ids == self._plan[place].ids:
            self._current = self._running_turn = None
        self._result.failures.append(Failure(self._plan[place].ids, reason))
        self._settle(place)

    def _settle(self, place: int) -> None:
        self._settled.add(place)
        self._progress(len(self._settled), len(self._plan))

    def _answer_one(self) -> None:
        """All living sides wait. Each call answers one, so there is always progress."""
        order = [index for index in self._first if self._sides[index].alive]
        asked = {index: self._sides[index].question[0] for index in order}
        if self._current:
            self._answer_at_turns(order, asked)
            return
        for question, answer in (("over", "rest"), ("ready", "stop")):
            for index in order:
                if asked[index] == question:
                    self._sides[index].answer(answer)
                    return
        for index in order:
            if asked[index] == "row":
                self._sides[index].answer(self._set_up(index))
                return
        self._meet(order)

    def _set_up(self, index: int) -> str:
        """Returns whether a side shall set up the row it asks about, and what is known of it."""
        place = self._place[index]
        if place == -1 or place in self._settled:
            return "skip"
        passed = [
            other
            for other, side in enumerate(self._sides)
            if side.question[:1] == ["meet"] and self._place[other] > place
        ]
        if passed:
            self._fail(place, f"side {NAMES[passed[0]]} does not have it, or not in this order")
            return "skip"
        cost_ns = self._plan[place].cost_ns
        return "run" if cost_ns is None else f"run {cost_ns:.3f}"

    def _meet(self, order: list[int]) -> None:
        """All living sides stand at a meeting: they agree on the work of a turn, or the one whose partners will not
        come goes on."""
        early = min(order, key=lambda index: self._place[index])
        place = self._place[early]
        absent = next((index for index, other in enumerate(self._place) if other != place), None)
        if place in self._settled:
            pass  # a partner ended while it prepared
        elif absent is None:
            self._agree(place)
        else:
            self._fail(place, f"side {NAMES[absent]} does not have it, or not in this order")
        if self._current is None:
            self._sides[early].answer("1 0")

    def _agree(self, place: int) -> None:
        row = self._plan[place]
        try:
            costs = [float(side.question[1]) for side in self._sides]
            capacities = [int(side.question[2]) for side in self._sides if side.question[2] != "0"]
            operations = max(1, round(row.turn_ns / statistics.fmean(costs)))
        except (IndexError, ValueError, ArithmeticError):
            self._fail(place, f"the sides met with {' and '.join(str(side.question) for side in self._sides)}")
            return
        if capacities:
            operations = min(operations, min(capacities) // row.turns)
        if operations == 0:
            self._fail(place, f"a state serves {min(capacities)} operations, which is less than {row.turns} turns")
            return
        self._current = RowLog(row.ids, operations, [])
        self._before = [side.conditions() for side in self._sides]
        ups = [self._rng.sample(range(len(self._sides)), len(self._sides)) for _ in range(row.turns // 2)]
        self._order = iter([index for up in ups for index in (*up, *reversed(up))])

    def _answer_at_turns(self, order: list[int], asked: dict[int, str]) -> None:
        assert self._current is not None
        place = self._place[0]
        for index in order:
            if asked[index] == "meet":
                self._sides[index].answer(f"{self._current.operations} {self._plan[place].turns}")
                return
        turn = next(self._order, None)
        if turn is not None and asked[turn] == "ready":
            self._running_turn = Turn(turn, 0, self._sides[turn].waited_ns())
            self._sides[turn].answer("go")
        elif turn is None and set(asked.values()) == {"over"}:
            log, self._current = self._current, None
            met = [_grown(before, side.conditions()) for before, side in zip(self._before, self._sides, strict=True)]
            grown = tuple(one for one in met if one)
            log.conditions = grown if len(grown) == len(met) else None
            self._result.rows[log.ids] = log
            self._first = self._rng.sample(range(len(self._sides)), len(self._sides))
            self._settle(place)
        else:
            self._fail(place, f"the sides lost step: they are at {', '.join(asked[index] for index in sorted(asked))}")


def _grown(before: Conditions | None, after: Conditions | None) -> Conditions | None:
    if before is None or after is None:
        return None
    return Conditions(
        major_faults=after.major_faults - before.major_faults,
        minor_faults=after.minor_faults - before.minor_faults,
        involuntary_switches=after.involuntary_switches - before.involuntary_switches,
    )


@contextmanager
def foreign_load(share: float, cores: set[int], limit_s: float = 3600.0) -> Iterator[None]:
    """Burns `share` (0 to 1) of each core meanwhile. The burners end with us, however we end, and after `limit_s`."""
    command = [sys.executable, "-m", __spec__.name, "burn", str(share), str(limit_s), str(os.getpid())]
    with ExitStack() as burners:
        for core in cores if share > 0 else ():
            burners.enter_context(processes.started([*command, str(core)], cwd=ROOT))
        yield


def _burn(share: float, limit_s: float, parent: int, core: int) -> None:
    os.sched_setaffinity(0, {core})
    rng, end = random.Random(core), time.monotonic() + limit_s
    while time.monotonic() < end and os.getppid() == parent:
        period_s = rng.uniform(0.05, 0.15)  # one length would keep step with turns
        rest = time.monotonic() + period_s * share
        while time.monotonic() < rest:
            pass
        time.sleep(period_s * (1 - share))


def _rows_of(binary: str, wanted: str) -> list[tuple[RowInTurns, bool]]:
    """The rows of a binary whose id contains `wanted`, each paired with itself; and whether it has several threads."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "STRATA_FACTS_DIR": folder}
        listed = processes.captured([binary, "--bench", "--list"], env=environment)
        if listed.returncode:
            raise SystemExit(f"{binary} cannot list its rows:\n{listed.stderr}")
        (facts,) = (json.loads(path.read_text())["rows"] for path in Path(folder).glob("*.json"))
    rows = []
    for name, fact in facts.items():
        several = fact["threads"] > 1
        if wanted in name:
            long = several or fact["clock"] == "cpu"
            rows.append(
                (
                    RowInTurns(
                        (name, name), LONG_TURN_NS if long else WRITER_TURN_NS if fact["changes_store"] else TURN_NS
                    ),
                    several,
                )
            )
    return rows


def _compare_with_themselves(targets: Sequence[str], pairs: int, load: float) -> int:
    """Prints how far pairs of a program with itself are off. The exit code: 1 if a row failed."""
    cores = os.sched_getaffinity(0)
    effects: dict[str, list[float]] = {}
    failures = 0
    began = time.monotonic()
    with foreign_load(load, cores):
        for target in targets:
            binary, _, wanted = target.partition(":")
            rows, side = _rows_of(binary, wanted), Lane([binary, "--bench"])
            for several in (False, True):
                plan = [row for row, has_several in rows if has_several is several]
                for seed in range(pairs if plan else 0):
                    on = cores if several else {max(cores)}
                    result = run(
                        (side, side), plan, cores=on, seed=seed, deadline_s=60.0 * len(plan) + 60, silence_s=120
                    )
                    for ids, log in result.rows.items():
                        effects.setdefault(ids[0], []).append(100 * effect(log))
                    for failure in result.failures:
                        print(f"{failure.ids[0]}: {failure.reason}", file=sys.stderr)
                    failures += len(result.failures)
    print(f"{pairs} pairs of each program with itself, foreign load {load:.0%}, {time.monotonic() - began:.0f} s")
    for name, found in effects.items():
        deviation = statistics.stdev(found) if len(found) > 1 else math.nan
        middle = statistics.median(found)
        scaled = 1.4826 * statistics.median(abs(one - middle) for one in found)
        other = sum(abs(one - middle) > 10 * scaled for one in found)
        note = f"   {other} of {len(found)} pairs are outliers" if other else ""
        print(
            f"{name:44} mean {statistics.fmean(found):+6.2f} %   SD {deviation:5.2f} %   worst {max(found, key=abs):+6.1f} %{note}"
        )
    return 1 if failures or not effects else 0


def main(arguments: Sequence[str]) -> int:
    """The command line of this module."""
    if arguments[:1] == ["burn"]:
        share, limit_s, parent, core = arguments[1:]
        _burn(float(share), float(limit_s), int(parent), int(core))
        return 0
    parser = argparse.ArgumentParser(
        prog="python3 -m run_benches.measure.broker", description="How well can two processes be told apart here?"
    )
    parser.add_argument("command", choices=["aa"], help="compare programs with themselves")
    parser.add_argument(
        "targets", nargs="+", metavar="BINARY[:ROW]", help="a bench binary, and which of its rows (part of the id)"
    )
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument(
        "--load", type=float, default=0.0, metavar="SHARE", help="burn this share (0 to 1) of each core meanwhile"
    )
    options = parser.parse_args(arguments)
    return _compare_with_themselves(options.targets, options.pairs, options.load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
