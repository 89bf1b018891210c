"""From what a person typed to a stored run: build, plan, measure.

Why a fresh plan is never mixed into an old run: figures of one run share one set of binaries, one design and one
machine, so a resumed run goes on with the plan it had, and only with the very same binaries.
"""

import secrets
import shlex
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from run_benches.analysis import figures
from run_benches.errors import UserError
from run_benches.interrupts import until_stopped
from run_benches.measure import build, machine, plan, provenance, selection
from run_benches.measure.build import Suite
from run_benches.measure.layers import SENTINELS, features, header, layer_names, on_demand, shares
from run_benches.measure.lock import alone
from run_benches.measure.measurement import Measurement
from run_benches.measure.plan import Plan
from run_benches.places import RUNS, shown
from run_benches.progress import duration
from run_benches.setup import brokers
from run_benches.store import runs, stored_file
from run_benches.store.runs import Run, Scale


@dataclass(frozen=True)
class RunRequest:
    """The request for a run, as it was typed."""

    words: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)
    scale: Scale = "default"
    budget_s: float | None = None
    seed: int | None = None
    timeout_s: float = 120.0
    command: list[str] = field(default_factory=list)


def measure(request: RunRequest) -> tuple[Run, Path]:
    """Measures anew; returns the run, which is not complete if it was interrupted."""
    selection.check_layers([*request.words, *request.skip], layer_names())
    with alone():
        named = {word.partition("/")[0] for word in request.words}
        if named & set(features()) or (request.scale == "full" and not named):
            # What their rows talk to; where one cannot be had, its rows are left out.
            brokers.environment()
        needed = {layer for layer in on_demand() if any(selection.layer_fits(layer, word) for word in request.words)}
        suites = _suites(set() if request.scale == "full" and not named else on_demand() - needed)
        seed = secrets.randbits(32) if request.seed is None else request.seed
        made = plan.make(suites, request.words, request.skip, request.scale, request.budget_s, seed, shares())
        run = _new_run(request, made, suites)
        path = stored_file.new(RUNS, "", run.tool.commit[:9])
        _announce(made, path)
        if not made.design.linked_anew:
            print(
                "not every bench can be linked anew (lld is missing: apt-get install lld): intervals leave out what the placement of code does",
                file=sys.stderr,
            )
        return _carry_out(run, path, suites, request.timeout_s)


def resume(name: str | None, timeout_s: float) -> tuple[Run, Path]:
    """Goes on with a run that was interrupted, by default the last one."""
    incomplete = (path for path in reversed(runs.stored_runs()) if not runs.load(path).complete)
    path = runs.find(name) if name else next(incomplete, None)
    if path is None:
        raise UserError("no run was interrupted; there is nothing to resume")
    run = runs.load(path)
    if run.complete:
        raise UserError(f"{shown(path)} is complete; there is nothing to resume")
    machine.check_same(run.machine, shown(path))
    with alone():
        suites = {suite.layer: suite for suite in _suites(on_demand() - set(run.binaries)).values()}
        for layer, binary in run.binaries.items():
            if layer not in suites or suites[layer].binary().sha256 != binary.sha256:
                raise UserError(
                    f"the bench {layer} is not the binary that {shown(path)} began with: check out {run.tool.commit[:9]} again, or start a new run"
                )
        print(f"going on with {shown(path)}: {len(run.design.order)} jobs are done", file=sys.stderr)
        return _carry_out(run, path, suites, timeout_s)


def _carry_out(run: Run, path: Path, suites: dict[str, Suite], timeout_s: float) -> tuple[Run, Path]:
    with until_stopped(shlex.join(run.command) if run.command[1:2] == ["renew"] else "run-benches.py --resume"):
        Measurement(run, path, suites, timeout_s).carry_out()
    return runs.load(path), path


def _suites(but: set[str]) -> dict[str, Suite]:
    executables = build.build(but)
    return {layer: build.ask(layer, executables[layer]) for layer in (*layer_names(), SENTINELS) if layer not in but}


def _new_run(request: RunRequest, made: Plan, suites: dict[str, Suite]) -> Run:
    involved = {cell.layer for cell in made.design.plan}
    everything = not request.words and not request.skip
    used = {layer: suite for layer, suite in suites.items() if layer in involved}
    file_system = next((suite.facts.process.get("file_system") for suite in suites.values()), None)
    return Run(
        schema=runs.SCHEMA,
        name=None,
        tool=provenance.tool(),
        command=["run-benches.py", *request.command],
        started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=0.0,
        scale="budget" if request.budget_s is not None else request.scale,
        complete=False,
        partial=None if everything else sorted(involved - {SENTINELS}),
        machine=machine.describe(file_system),
        build=provenance.how_built(),
        binaries={layer: suite.binary() for layer, suite in used.items()},
        engine={layer: suite.facts.engine for layer, suite in used.items() if suite.facts.engine},
        design=made.design,
        benches=made.benches,
        ratios=made.ratios,
        families=made.families,
        sentinels=made.sentinels,
        sources=provenance.of_layers(layer for layer in used if layer != SENTINELS),
        headers={layer: header(layer) for layer in used if layer != SENTINELS},
    )


def _announce(made: Plan, path: Path) -> None:
    design = made.design
    paired = sum(bench.family is not None for bench in made.benches.values())
    alone = sum(len(rows) for rows in plan.timeable(design, made.benches, 0).values())
    print(
        f"{figures.plural(paired, 'row')} in {figures.plural(len(made.families), 'family')}, {design.tuples} tuples each; {alone} alone, in {figures.plural(design.processes, 'process')} each: about {duration(made.seconds)}",
        file=sys.stderr,
    )
    left = len(made.benches) - paired - alone
    if left:
        print(f"{left} left out: see the last lines", file=sys.stderr)
    print(f"seed {design.seed}; stored as {shown(path)} while it grows", file=sys.stderr)
