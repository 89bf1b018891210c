"""The findings in stored runs, read once: everything that a table, a page, a picture or an exit code is made of.

Why apart from the words: a table and the picture beside it must not disagree, so both are made from the values found
here, and a picture is sealed with the very values it was drawn from. Everything is pure: runs in, values out, in house
order, with no clock, no file and no locale.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from run_benches.analysis import contradictions, contrasts, peers, prices, series
from run_benches.analysis.contradictions import CrossCheck
from run_benches.analysis.contrasts import Contrast, Controls
from run_benches.analysis.crud import CrudLine, crud, crud_rows
from run_benches.analysis.held import Held
from run_benches.analysis.ladder import REQUESTS, Rung, ladder
from run_benches.analysis.peers import PeerRow
from run_benches.analysis.prices import Lookup, Write
from run_benches.analysis.row import Made, Row, house_order, thread_counts
from run_benches.analysis.series import Series
from run_benches.stats.estimates import median
from run_benches.store import runs
from run_benches.store.runs import Bench, Family, Machine, Ratio, Run, State


@dataclass(frozen=True)
class CellOutcome:
    """The state in which the time of a row, a ratio, a family or a sentinel ended, why, and whether it was planned."""

    kind: str
    id: str
    state: State
    reasons: list[str]
    planned: bool


@dataclass(frozen=True)
class Findings:
    """The findings in one run, or in several of one layer each. Layers are in house order, the rows of a layer in the
    order of its run, which is that of the source."""

    made: Made
    """The account of the run on itself; of several, that of the newest, and the seconds of all."""
    rows: tuple[Row, ...]
    held: tuple[Held, ...]
    """Every row that names a floor or has a ratio."""
    outcomes: tuple[CellOutcome, ...]
    families: Mapping[str, Family]
    controls: Controls
    by_layer: Mapping[str, "Findings"] = field(default_factory=dict)
    """Of a run of several layers, what is said of each by itself."""
    by_machine: tuple["Findings", ...] = ()
    """The same of each machine, since no sentence is made of the figures of two; empty of a run of one layer."""
    along_axes: "Findings | None" = None
    """The same of all layers with rows along an axis, and of the bench of scaling."""

    @classmethod
    def of(cls, run: Run, parts: Mapping[str, Run] | None = None) -> "Findings":
        """Reads a run, or a set as one, whose parts are the runs of its layers."""
        parts = runs.apart(run) if parts is None else parts
        made = {layer: _made(part) for layer, part in parts.items()}
        if len(parts) < 2:
            return _read(run, made)
        machines = [_read(runs.together(group), made) for group in _of_one_machine(parts)]
        placed = {
            layer: part
            for layer, part in parts.items()
            if layer == series.LAYER or any(bench.facts.scale for bench in part.benches.values())
        }
        return _read(
            run,
            made,
            by_layer={layer: _read(part, made) for layer, part in parts.items()},
            by_machine=tuple(machines),
            along_axes=Findings.of(runs.together(placed), placed) if 0 < len(placed) < len(parts) else None,
        )

    @property
    def of_each_machine(self) -> tuple["Findings", ...]:
        """The findings about each machine."""
        return self.by_machine or (self,)

    @property
    def parts(self) -> Mapping[str, "Findings"]:
        """The findings about each layer by itself."""
        return self.by_layer or dict.fromkeys(self.layers, self)

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.made.machine

    @cached_property
    def layers(self) -> list[str]:
        """Every layer that has rows, in house order."""
        return list(dict.fromkeys(row.layer for row in self.rows))

    def rows_of(self, layer: str) -> list[Row]:
        """The rows of a layer."""
        return [row for row in self.rows if row.layer == layer]

    def held_of(self, layer: str) -> list[Held]:
        """Those of a layer."""
        return [one for one in self.held if one.row.layer == layer]

    @cached_property
    def floors(self) -> list[Held]:
        """Every row that is held against what it is built on; another system and a row of ours are no floors."""
        return [one for one in self.held if not one.is_peer and not one.is_own]

    @cached_property
    def goals(self) -> list[Held]:
        """Every row with a goal, whatever it is held against; with a ratio of the run, or planned to have none."""
        return [one for one in self.held if one.goal is not None]

    @cached_property
    def crud(self) -> Mapping[int, list[CrudLine]]:
        """The verbs by the number of indexes, for each number of threads: one thread never stands beside eight."""
        found = crud_rows(self.rows)
        return {threads: crud(found, threads) for threads in thread_counts(found)}

    @cached_property
    def index_counts(self) -> list[int]:
        """Every number of indexes that a row of these names."""
        counts = {row.bench.facts.indexes for row in crud_rows(self.rows)}
        return sorted(count for count in counts if count is not None)

    @cached_property
    def ladders(self) -> Mapping[str, list[Rung]]:
        """The rungs of each request, from the lowest."""
        return {request: ladder(self.rows, request) for request in REQUESTS}

    @cached_property
    def peers(self) -> list[PeerRow]:
        """Rows of other systems beside ours."""
        return peers.sides(self.rows)

    @cached_property
    def series(self) -> Mapping[str, list[Series]]:
        """Rows by where they stand on each axis."""
        return {axis: series.series(self.rows, axis) for axis in series.axes(self.rows)}

    @cached_property
    def writes(self) -> list[Write]:
        """Writes with and without indexes."""
        return prices.writes(self.rows)

    @cached_property
    def lookups(self) -> list[Lookup]:
        """Look-ups through an index and without."""
        return prices.lookups(self.rows)

    @cached_property
    def checks(self) -> list[CrossCheck]:
        """The contradictions, and how much was looked at."""
        return contradictions.checks(self.rows, self.ladders, self.floors)


def _of_one_machine(parts: Mapping[str, Run]) -> list[dict[str, Run]]:
    groups: list[dict[str, Run]] = []
    for layer, run in parts.items():
        for group in groups:
            machine = next(iter(group.values())).machine
            if machine.identity == run.machine.identity or machine.likeness(run.machine).alike:
                group[layer] = run
                break
        else:
            groups.append({layer: run})
    return groups


def _read(
    run: Run,
    made: Mapping[str, Made],
    by_layer: Mapping[str, Findings] = {},
    by_machine: tuple[Findings, ...] = (),
    along_axes: Findings | None = None,
) -> Findings:
    """Reads one run; `made` is what the runs of its layers say of themselves."""
    whole = _made(run)
    rows = [_row(run, id, made.get(runs.layer_of(id), whole)) for id in run.benches]
    rows.sort(key=lambda row: house_order(row.layer))
    held = []
    for row in rows:
        ratio, floor = run.ratios.get(row.id), row.bench.facts.floor
        if ratio is not None:
            held.append(Held(row, ratio.floor, ratio))
        elif floor is not None:
            held.append(Held(row, floor.id, None))
    planned = {(cell.kind, cell.id) for cell in run.design.plan}
    kinds: Sequence[tuple[str, Mapping[str, Bench] | Mapping[str, Ratio] | Mapping[str, Family]]] = (
        ("time", run.benches),
        ("sentinel", run.sentinels),
        ("ratio", run.ratios),
        ("family", run.families),
    )
    outcomes = tuple(
        CellOutcome(kind, id, one.state, one.reasons, (kind, id) in planned)
        for kind, ended in kinds
        for id, one in ended.items()
    )
    controls = contrasts.controls(run.contrasts)
    return Findings(whole, tuple(rows), tuple(held), outcomes, run.families, controls, by_layer, by_machine, along_axes)


def _made(run: Run) -> Made:
    return Made(**{field.name: getattr(run, field.name) for field in dataclasses.fields(Made)})


def _row(run: Run, id: str, made: Made) -> Row:
    layer, operation, subject, case = (*id.split("/", 3), "", "", "")[:4]
    bench = run.benches[id]
    contrasts = {other: Contrast(tuple(logs)) for other, logs in run.contrasts.get(id, {}).items() if logs}
    if bench.family not in run.families:
        return Row(id, layer, operation, subject, case, bench, made, contrasts)
    family = run.families[bench.family]
    base = family.base
    base_points_ns = (
        run.benches[base].points_ns if run.benches[base].family == bench.family else family.guests_ns.get(base, [])
    )
    base_ns = median(base_points_ns) if base_points_ns else None
    return Row(id, layer, operation, subject, case, bench, made, contrasts, base_ns, base, len(family.rows) + 1)
