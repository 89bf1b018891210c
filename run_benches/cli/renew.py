"""`renew`: measures anew what is stale of the stored runs behind the committed pages, and renders the pages.

Why by itself: a layer, a scenario and a comparison are each a stored run of their own, so that a change costs the
minutes of what it reaches. What the code of a layer is, `store/fingerprint.py` says by its sources; where these have
changed and the bytes that are loaded have not, it is the same program, and its figures are not measured again. A stored
file is replaced by one that is whole, or not at all; what was interrupted goes on, or begins anew, when the command is
typed again.
"""

import dataclasses
import difflib
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from run_benches import files, repository, serialization
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import house_order
from run_benches.cli import load_compare
from run_benches.errors import Exit, UserError
from run_benches.interrupts import STOP
from run_benches.lake import programs as lake_programs
from run_benches.measure import build, load_run, machine, new_run, provenance
from run_benches.measure.layers import header, layer_names, on_demand
from run_benches.measure.lock import alone
from run_benches.measure.new_run import RunRequest
from run_benches.places import LOAD_REFERENCE, REFERENCE, shown
from run_benches.progress import duration
from run_benches.render import document, summary, terminal
from run_benches.render.source import machine_words
from run_benches.store import fingerprint, load_comparisons, loads, reach, runs
from run_benches.store.fingerprint import Parts
from run_benches.store.load_comparisons import LoadComparison
from run_benches.store.loads import LoadRun
from run_benches.store.runs import Binary, Run

SCHEMA = 1

SEED = 1
"""Of every run of the reference, so that two of them differ by what was measured alone."""

SHORT_S, REPEATS = 15.0, 3
"""A scenario whose window is this short is repeated: its figures then show how far processes are apart."""

LOAD = "load"
"""The word for all scenarios and comparisons."""

RenewedKind = Literal["layer", "scenario", "comparison"]
_Stored = Run | LoadRun | LoadComparison


@dataclass
class Renewal:
    """A layer, a scenario or a comparison that may be renewed: its stored run, if there is one, what its figures
    depended on then and depend on now, and how long the measurement took. `failed` says why it is still stale."""

    kind: RenewedKind
    name: str
    stored: _Stored | None
    then: Parts
    now: Parts = field(default_factory=dict)
    failed: str | None = None

    @property
    def path(self) -> Path:
        """Where it is stored."""
        return {"layer": REFERENCE, "scenario": LOAD_REFERENCE, "comparison": load_comparisons.KEPT}[
            self.kind
        ] / f"{self.name}.json"

    @property
    def seconds(self) -> float | None:
        """The seconds that measuring it took last time."""
        return self.stored.seconds if self.stored else None

    @property
    def changed(self) -> list[str]:
        """The parts that are others now."""
        return fingerprint.changed(self.then, self.now)

    @property
    def is_stale(self) -> bool:
        """True if it has to be measured."""
        return self.stored is None or not self.then or bool(self.changed)

    @property
    def why(self) -> str:
        """Its state, in words."""
        if self.stored is None:
            return "never measured"
        if not self.then:
            return "stored by an older version, without what it depends on"
        if not self.now:
            return "whether it has changed is not known: there is no git repository here"
        return f"changed: {', '.join(self.changed)}" if self.changed else "unchanged"

    @property
    def words(self) -> str:
        """The kind and the name."""
        return f"{self.kind} {self.name}"


def main(names: Sequence[str], everything: bool, dry_run: bool, timeout_s: float, as_json: bool) -> int:
    """Says what is stale, measures it, and renders the pages; answers with the exit code."""
    all_gone = _gone()
    jobs = _chosen([job for job in _jobs() if job.path not in all_gone], all_gone, names)
    wanted = [job for job in jobs if job.is_stale or everything]
    gone = [
        path for path in all_gone if not names or path.stem in names or (LOAD in names and path.parent != REFERENCE)
    ]
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        _tell(jobs, wanted, gone)
        code = Exit.FINE if dry_run else _renewed(wanted, gone, everything, timeout_s)
    if as_json:
        # What each was when the command began, and why it was not renewed, if it was to be.
        lines = [
            {
                "kind": job.kind,
                "name": job.name,
                "stale": job.is_stale,
                "why": job.why,
                "seconds": job.seconds,
                "failed": job.failed,
            }
            for job in jobs
        ]
        print(serialization.text({"schema": SCHEMA, "jobs": lines}), end="")
    return code


def _renewed(wanted: Sequence[Renewal], gone: Sequence[Path], everything: bool, timeout_s: float) -> Exit:
    """Measures, stores and renders."""
    tool = provenance.tool()
    if tool.dirty is not False:
        raise UserError(
            f"a page would name a revision that nobody has: {repository.refusal() or 'commit what has changed, or put it aside (git stash)'}"
        )
    if (variables := load_run.variables()) and any(job.kind != "layer" for job in wanted):
        raise UserError(f"a page would not say that {' and '.join(variables)} was set here: unset it")
    with alone():
        _take_apart()
        for path in gone:
            if _is_only_here(path):
                raise UserError(
                    f"{shown(path)} is of nothing that is there any more, and git does not have it as it is: commit it, or remove it"
                )
            path.unlink()
            print(f"removed {shown(path)}: there is nothing of this name any more", file=sys.stderr)
        if wanted:
            here = machine.describe(None)
            stored = [job.stored.machine for job in _jobs() if job.stored]
            others = sorted({machine_words(there) for there in stored if here.likeness(there).differ})
            if others:
                print(
                    f"this machine ({machine_words(here)}) is another than that of what is stored ({'; '.join(others)}): no sentence of the pages will be of both",
                    file=sys.stderr,
                )
            try:
                _measure(wanted, everything, timeout_s, tool.commit)
            except KeyboardInterrupt:
                STOP.ending = True
    if document.reference().exists():
        document.main(None, None, dry_run=False, check=False)
    left = [job for job in wanted if job.failed]
    for job in left:
        print(f"not renewed: {job.words}: {job.failed}", file=sys.stderr)
    if STOP.requested and left:
        print(
            f"go on with: run-benches.py renew {'--all ' if everything else ''}{' '.join(dict.fromkeys(job.name for job in left))}",
            file=sys.stderr,
        )
    return Exit.NOTHING if left else Exit.FINE


def _jobs() -> list[Renewal]:
    """All that the pages show, or may show: layers lowest first, scenarios, comparisons."""
    layers = runs.load_set(document.reference()) if document.reference().exists() else {}
    tested = loads.load_set(document.load_reference()) if document.load_reference().exists() else {}
    found = [
        Renewal("layer", name, run := layers.get(name), run.sources.get(name, {}) if run else {})
        for name in sorted(layer_names(), key=house_order)
    ]
    for scenario in load_run.built_in():
        one = tested.get(scenario.name)
        found.append(Renewal("scenario", scenario.name, one, one.sources.get(scenario.name, {}) if one else {}))
    for path in load_comparisons.kept():
        compared = load_comparisons.load(path)
        found.append(Renewal("comparison", path.stem, compared, compared.sources))
    for job in found:
        job.now = _depends_on(job)
    return found


def _depends_on(job: Renewal) -> Parts:
    """Returns what the figures of a job depend on in this checkout as it stands."""
    if job.kind == "layer":
        return provenance.of_layers([job.name]).get(job.name, {})
    compared = job.stored if isinstance(job.stored, LoadComparison) else None
    return provenance.of_scenarios({compared.a.scenario, compared.b.scenario} if compared else {job.name})


def _chosen(jobs: Sequence[Renewal], gone: Sequence[Path], names: Sequence[str]) -> list[Renewal]:
    """Those that are meant: a name means all that bear it."""
    known = dict.fromkeys([*(job.name for job in jobs), *(path.stem for path in gone), LOAD])
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            raise UserError(
                f"{name!r} is no layer, scenario or kept comparison{f'; did you mean {near[0]}?' if near else ''}; to see all: run-benches.py renew --dry-run"
            )
    return [job for job in jobs if not names or job.name in names or (LOAD in names and job.kind != "layer")]


def _tell(jobs: Sequence[Renewal], wanted: Sequence[Renewal], gone: Sequence[Path]) -> None:
    body = [[job.words, duration(job.seconds) if job.seconds else "not known", job.why] for job in jobs]
    body += [[shown(path), "", "there is nothing of this name any more: it is removed"] for path in gone]
    print(terminal.table("what the pages show", ["what", "takes>", "state"], body))
    known = sum(job.seconds or 0.0 for job in wanted)
    unknown = sum(job.seconds is None for job in wanted)
    more = f", and {unknown} whose time is not known" if unknown else ""
    print(
        f"to be measured: {len(wanted)} of {len(jobs)}, about {duration(known)}{more}" if wanted else "nothing is stale"
    )


def _gone() -> list[Path]:
    """Stored files of layers and scenarios that are there no more, and of comparisons of such scenarios."""
    scenarios = {scenario.name for scenario in load_run.built_in()}
    known = {REFERENCE: set(layer_names()), LOAD_REFERENCE: scenarios}
    gone = [path for folder, names in known.items() for path in sorted(folder.glob("*.json")) if path.stem not in names]
    compared = {path: load_comparisons.load(path) for path in load_comparisons.kept()}
    return gone + [path for path, one in compared.items() if not {one.a.scenario, one.b.scenario} <= scenarios]


def _is_only_here(path: Path) -> bool:
    """Returns whether git does not have a file as it is."""
    return bool(repository.git("status", "--porcelain", "--untracked-files=all", "--", str(path)))


def _take_apart() -> None:
    """Stores a reference of before as a set, a file for each part; git has the old file."""
    for folder, load in ((REFERENCE, runs.load_set), (LOAD_REFERENCE, loads.load_set)):
        single, new = folder.with_suffix(".json"), folder.with_suffix(".new")
        if not single.exists():
            continue
        if folder.is_dir():
            raise UserError(
                f"{shown(single)} and {shown(folder)} are both there, and only one can be the reference: remove one of them"
            )
        if _is_only_here(single):
            raise UserError(f"{shown(single)} would be taken apart, and git does not have it as it is: commit it first")
        shutil.rmtree(new, ignore_errors=True)
        for name, run in load(single).items():
            files.replace(new / f"{name}.json", serialization.text(run))
        new.rename(folder)
        single.unlink()


def _measure(wanted: Sequence[Renewal], everything: bool, timeout_s: float, commit: str) -> None:
    """Measures one after the other, at this commit; what is not reached says so."""
    for job in wanted:
        job.failed = "the command was stopped before it was measured"
    programs = _programs(wanted)
    for number, job in enumerate(wanted, start=1):
        tool = provenance.tool()
        if tool.dirty is not False or (tool.commit != commit and _depends_on(job) != job.now):
            for later in wanted[number - 1 :]:
                later.failed = "the sources were changed while others were measured"
            return
        left = sum(later.seconds or 0.0 for later in wanted[number - 1 :])
        print(f"{number} of {len(wanted)}, {job.words}: about {duration(left)} left", file=sys.stderr, flush=True)
        try:
            found = (
                _with_sources(job)
                if not everything and _is_same_program(job, programs)
                else _measured(job, programs, everything, timeout_s)
            )
            if STOP.requested:
                return
            job.failed = found if isinstance(found, str) else _unfit(job, found, commit)
            if not isinstance(found, str) and job.failed is None:
                files.replace(job.path, serialization.text(found))
                print(f"stored as {shown(job.path)}", file=sys.stderr)
        except (UserError, OSError) as trouble:
            job.failed = str(trouble)


def _unfit(job: Renewal, found: _Stored, commit: str) -> str | None:
    """Why what was measured is not kept; nothing if it is."""
    if found.tool.dirty is not False or (
        found.tool.commit != commit and found.sources not in (job.now, {job.name: job.now})
    ):
        return "the sources were changed while it was measured"
    if isinstance(found, Run) and found.layers != [job.name]:
        return f"it has rows of {', '.join(found.layers)}: a layer is renewed by itself"
    return None


def _programs(wanted: Sequence[Renewal]) -> dict[str, Binary]:
    """The binaries of what is to be measured, by name: a bench by its layer, `load` and `strata`."""
    kinds = {job.kind for job in wanted}
    found = (
        {name: build.binary(path) for name, path in build.build(on_demand() - {job.name for job in wanted}).items()}
        if "layer" in kinds
        else {}
    )
    if not kinds - {"layer"}:
        return found
    # Of both kinds, those over databases are measured anew.
    over_databases = all(
        load_run.chosen([job.name])[0].needs_database for job in wanted if job.kind == "scenario"
    ) and kinds >= {"scenario"}
    return found | {
        name: build.binary(path)
        for name, path in build.programs("load", "strata", with_databases=over_databases).items()
    }


_NOT_IN_THE_PROGRAMS = ("load/scenarios/", "load/schedules/", f"{reach.LAKE.partition('/')[0]}/", *reach.JUDGES)
"""Parts of what a scenario depends on that are in neither the server nor the load tool."""


def _is_same_program(job: Renewal, programs: Mapping[str, Binary]) -> bool:
    """Returns whether what is loaded now is what was measured, though the sources have changed."""
    stored = job.stored
    if (
        stored is None
        or not job.then
        or stored.tool.dirty is not False
        or any(part.startswith(_NOT_IN_THE_PROGRAMS) for part in job.changed)
    ):
        return False
    if isinstance(stored, LoadComparison):
        then = {"strata": stored.a.server, "load": stored.client} if stored.a.server == stored.b.server else {}
    else:
        then = {name: binary for name, binary in stored.binaries.items() if job.kind != "layer" or name == job.name}
    return bool(then) and all(
        binary and binary.loaded and name in programs and programs[name].loaded == binary.loaded
        for name, binary in then.items()
    )


def _with_sources(job: Renewal) -> _Stored:
    """Returns what is stored of the same program, with what it depends on and says of itself now."""
    assert job.stored is not None
    print(
        f"{job.words}: the bytes that are loaded are those that were measured; it is not measured again",
        file=sys.stderr,
    )
    if isinstance(job.stored, LoadComparison):
        return dataclasses.replace(job.stored, sources=job.now)
    if isinstance(job.stored, Run):
        return dataclasses.replace(job.stored, sources={job.name: job.now}, headers={job.name: header(job.name)})
    return dataclasses.replace(job.stored, sources={job.name: job.now})


def _measured(job: Renewal, programs: Mapping[str, Binary], everything: bool, timeout_s: float) -> _Stored | str:
    """Measures a job, and returns what was measured, or why it is not to be kept."""
    if job.kind == "layer":
        return _layer(job, programs, everything, timeout_s)
    if job.kind == "scenario":
        (scenario,) = load_run.chosen([job.name])
        # What copies into a lakehouse finds the rows of a run before.
        is_repeated = (scenario.seconds is None or scenario.seconds <= SHORT_S) and not scenario.needs_programs
        flags = ["--repeats", str(REPEATS)] if is_repeated and scenario.repeats < REPEATS else []
        with lake_programs.of([scenario]) as beside:
            tested, path = load_run.measure(
                [scenario], flags, ["renew", job.name], to_stderr=True, programs_beside=beside
            )
        unfit = [
            f"{cell.state}: {name}" for name, cell in tested.scenarios.items() if cell.state in ("invalid", "skipped")
        ]
        return f"{', '.join(unfit)} (run-benches.py load show {path.stem})" if unfit else tested
    assert isinstance(job.stored, LoadComparison)
    if job.stored.a.server != job.stored.b.server:
        return "it is of two servers, of which this checkout has one: compare them again (load compare --base .. --keep ..)"
    compared = load_compare.again(job.stored, ["renew", job.name])
    return compared if compared.complete else f"too many pairs were invalid: {'; '.join(compared.invalid)}"


def _layer(job: Renewal, programs: Mapping[str, Binary], everything: bool, timeout_s: float) -> Run | str:
    begun = _begun(job, programs)
    if begun and not runs.load(begun).complete:
        run, path = new_run.resume(begun.stem, timeout_s)
    elif begun and not everything and summary.exit_code(Findings.of(runs.load(begun)), strict=False) == Exit.FINE:
        # measured, but not stored
        run, path = runs.load(begun), begun
    else:
        run, path = new_run.measure(
            RunRequest([job.name], scale="full", seed=SEED, timeout_s=timeout_s, command=["renew", job.name])
        )
    found = Findings.of(run)
    is_fine = summary.exit_code(found, strict=False) == Exit.FINE
    return run if is_fine else f"{summary.census(found)} (run-benches.py runs show {path.stem})"


def _begun(job: Renewal, programs: Mapping[str, Binary]) -> Path | None:
    """The last measurement of this layer in this checkout, if it was of the same program, sources and machine."""
    for path in reversed(runs.stored_runs()):
        with suppress(UserError):  # of another command, or damaged
            run = runs.load(path)
            if run.command[1:] == ["renew", job.name]:
                same = (
                    run.sources.get(job.name) == job.now and run.binaries[job.name].sha256 == programs[job.name].sha256
                )
                return path if same and not run.machine.likeness(machine.describe(None)).differ else None
    return None
