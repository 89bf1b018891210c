"""A run on the terminal: a table a layer, folded, the losses by index count, what contradicts itself, and the count of
everything.

Why the same findings as the pages: both print what `findings` says in the words of `figures`, so the terminal and the
document cannot disagree; where a subject has a module, that module tells it in both places.
"""

from collections.abc import Iterator

from run_benches.analysis import figures, peers, series, workloads
from run_benches.analysis.crud import crud_rows
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import counted_goals
from run_benches.analysis.row import absence, is_part_of_a_mix
from run_benches.errors import Exit
from run_benches.progress import duration
from run_benches.render import bottlenecks, cells, crud, macro, page_layer, scaling, terminal
from run_benches.render.section import Section
from run_benches.store.runs import layer_of


def text(found: Findings) -> str:
    """All tables of a run, and its last line."""
    return "\n".join([*terminal.sections(_sections(found)), census(found)])


def _sections(found: Findings) -> Iterator[Section]:
    for layer in found.layers:
        rows = found.rows_of(layer)
        if all(row.bench.state != "ran" and row.bench.reasons for row in rows):
            continue  # their reasons are told below
        # in the tables by the number of indexes; peers have lines of their own
        by_indexes = {row.id for row in crud_rows(rows)}
        if layer == series.LAYER:
            yield scaling.on_terminal(found)
        elif not all(row.id in by_indexes or is_part_of_a_mix(row) or peers.is_peer(row) for row in rows):
            yield (macro if layer == workloads.LAYER else page_layer).on_terminal(found, layer)
    yield from crud.on_terminal(found)
    beside = [words.replace("`", "") for words in peers.census(found.peers)]
    contradictions = [words for check in found.checks for words in check.found]
    for section in (
        Section("side by side with others", beside),
        bottlenecks.on_terminal(found),
        Section("missing, or run again", list(_troubles(found))),
        Section("figures that contradict each other", contradictions),
    ):
        if section.sentences:
            yield section


MANY = 3
"""Of more cells that have no figure for one reason, only their number is told, by layer."""


def _troubles(found: Findings) -> Iterator[str]:
    """Lists what has no figure, by the reason, then what was run again."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for one in found.outcomes:
        if one.state != "ran" and one.reasons:
            kind = one.kind if one.kind in ("ratio", "family") else "row"
            layer, reason = layer_of(one.id), absence(one.state, one.reasons)
            told.setdefault((kind, layer, reason), []).append(one.id)
    for (kind, layer, reason), ids in told.items():
        if len(ids) > MANY:
            yield f"{figures.plural(len(ids), kind)} of {layer}: {reason}"
        else:
            yield from (f"{'' if kind == 'row' else f'{kind} of '}{id}: {reason}" for id in ids)
    yield from (f"{row.id}: run again: {refusal}" for row in found.rows for refusal in row.bench.refusals)


def census(found: Findings) -> str:
    """The last line: how every planned cell ended."""
    rows = cells.states([row.bench.state for row in found.rows])
    ratios = cells.states([one.state for one in found.outcomes if one.kind == "ratio"])
    goals = counted_goals([one for one in found.goals if one.ratio is not None])
    begun = "" if found.made.complete else "interrupted, not complete; "
    begun += "CONTAMINATED: too many rows differ from themselves; " if found.controls.contaminated else ""
    took = duration(found.made.seconds)
    return f"{begun}rows: {rows}; ratios to floors: {ratios}; goals: {goals}; {took}"


def exit_code(found: Findings, strict: bool) -> Exit:
    """Returns the exit code of a command that measured: never green on silence."""
    held = [one for one in found.goals if one.ratio is not None and one.ratio.state != "skipped"]
    if any(one.state == "invalid" for one in found.outcomes):
        return Exit.ERROR
    has_run = any(one.state == "ran" for one in found.outcomes if one.kind != "sentinel")
    if not has_run or not found.made.complete or found.controls.contaminated:
        return Exit.NOTHING
    if strict and any(one.standing == "missed" for one in held):
        return Exit.FAILED
    return Exit.NOTHING if strict and not all(one.standing == "met" for one in held) else Exit.FINE
