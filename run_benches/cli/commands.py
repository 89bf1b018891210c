"""Carrying out what was typed: one function a command, from its options to its exit code.

Why imports inside: pictures and calibrations take matplotlib, which takes longer to load than most commands to answer.
"""

import argparse
import shlex
import sys
from pathlib import Path

from run_benches import serialization
from run_benches.analysis import figures
from run_benches.analysis.findings import Findings
from run_benches.cli import checks, criterion_baseline, doctor, library, profile, stored
from run_benches.compare import new_comparison
from run_benches.compare.new_comparison import ComparisonPlan
from run_benches.errors import Exit, UserError
from run_benches.measure import build, criterion_output, new_run, selection
from run_benches.measure.layers import about, layer_names, on_demand, shares
from run_benches.measure.new_run import RunRequest
from run_benches.places import shown
from run_benches.render import comparison_report, explanation, summary
from run_benches.store import comparisons, runs, stored_file
from run_benches.store.comparisons import Comparison
from run_benches.store.runs import Run

LIST_SCHEMA = 1


def carry_out(options: argparse.Namespace, arguments: list[str]) -> int:
    """Does what the options say; the arguments, as they were typed, are stored with what is measured."""
    match options.command:
        case "run":
            if options.resume is None:
                made = new_run.measure(_request(options, arguments))
            else:
                made = new_run.resume(options.resume or None, options.timeout)
            return _print_run(*made, options.json, options.strict)
        case "list":
            return _list(options.rows, options.json)
        case "save":
            return _save(options, arguments)
        case "baselines" | "runs":
            return _stored(options)
        case "compare":
            return _compare(options, arguments)
        case "explain":
            return _explain(options)
        case "more":
            return _print_comparison(new_comparison.more(options.name, options.budget, options.timeout), options)
        case "profile":
            return profile.main(options.row, options.revision, options.json)
        case "calibrate":
            from run_benches.cli import calibration

            return calibration.main(options.budget, options.rows, options.smoke, options.timeout, options.json)
        case "document":
            return _document(options)
        case "renew":
            from run_benches.cli import renew

            return renew.main(options.names, options.all, options.dry_run, options.timeout, options.json)
        case "report":
            from run_benches.render import report

            return report.main(runs.find(options.run) if options.run else report.default_run(), options.output)
        case "load":
            from run_benches.cli import load

            return load.main(options, arguments)
        case "lake":
            from run_benches.cli import load

            return load.lake(arguments, options.json)
        case "library":
            return library.main(options.json)
        case "doctor":
            return doctor.main(options.json)
        case _:
            return checks.main(options.full, options.json)


def _request(options: argparse.Namespace, arguments: list[str]) -> RunRequest:
    scale = "quick" if options.quick else "full" if options.full else "default"
    return RunRequest(options.rows, options.skip, scale, options.budget, options.seed, options.timeout, arguments)  # type: ignore[arg-type]


def _save(options: argparse.Namespace, arguments: list[str]) -> int:
    stored_file.check_free(runs.baseline_path(options.name))
    if options.stored_run:
        run, code = runs.load(stored_file.single(runs.find(options.stored_run))), Exit.FINE
    else:
        run, path = new_run.measure(_request(options, arguments))
        code = _print_run(run, path, options.json, options.strict)
    if not run.complete:
        raise UserError(
            "the run was interrupted, so it is not kept as a baseline: go on with --resume, then save NAME --run last",
            Exit.NOTHING,
        )
    print(f"kept as {shown(runs.save(run, options.name))}", file=sys.stderr)
    return code


def _print_run(run: Run, path: Path, as_json: bool, strict: bool) -> Exit:
    """Prints a run; returns how the command ends."""
    found = Findings.of(run)
    print(serialization.text(run) if as_json else f"{summary.text(found)}\nstored as {shown(path)}")
    return summary.exit_code(found, strict)


def _stored(options: argparse.Namespace) -> int:
    if options.action and not options.name:
        raise UserError(
            f"{options.command} {options.action} needs a name; to see all: run-benches.py {options.command}"
        )
    if options.action == "remove":
        return stored.remove(options.name)
    if options.action == "show":
        return stored.show(runs.find(options.name), options.json)
    paths = runs.stored_baselines() if options.command == "baselines" else runs.stored_runs()
    return stored.runs_listing(options.command, paths, options.json)


def _compare(options: argparse.Namespace, arguments: list[str]) -> int:
    if options.criterion:
        return criterion_baseline.compare(options.criterion, criterion_output.home(), options.json)
    if options.stored:
        if len(options.sides) != 2:
            raise UserError("compare --stored needs two stored runs: baselines, runs, files or `last`")
        return stored.compare(options.sides[0], options.sides[1], options.json)
    if options.resume is not None:
        return _print_comparison(new_comparison.resume(options.resume or None, options.timeout), options)
    if len(options.sides) > 2:
        raise UserError("compare takes at most two revisions; rows are chosen with --rows")
    a, b = [*options.sides, None, None][:2]
    request = new_comparison.ComparisonRequest(
        a=a,
        b=b,
        sets=options.sets,
        rows=options.rows,
        everything=options.all,
        benches={"A": "a", "B": "b"}.get(options.benches_of, "own"),  # type: ignore[arg-type]
        budget_s=options.budget,
        margin=options.margin,
        alpha=options.alpha or new_comparison.ALPHA,
        fewest_pairs=options.pairs or 0,
        dry_run=options.dry_run,
        seed=options.seed,
        timeout_s=options.timeout,
        command=arguments,
    )
    found = new_comparison.compare(request)
    if isinstance(found, ComparisonPlan):
        print(serialization.text(found) if options.json else "", end="")
        return Exit.FINE
    return _print_comparison(found, options)


def _explain(options: argparse.Namespace) -> int:
    compared = comparisons.load(comparisons.find(options.of))
    text = explanation.explain(compared, options.row)
    rows = {id: row for id, row in compared.rows.items() if selection.matches(id, options.row)}
    print(serialization.text({"schema": comparisons.SCHEMA, "rows": rows}) if options.json else text, end="")
    return Exit.FINE


def _print_comparison(found: tuple[Comparison, Path], options: argparse.Namespace) -> int:
    compared, path = found
    if options.json:
        print(serialization.text(compared), end="")
    elif options.markdown:
        print(comparison_report.comment(compared), end="")
    else:
        print(comparison_report.text(compared, path, getattr(options, "all", False)), end="", flush=True)
    if options.picture:
        from run_benches.render import forest

        try:
            forest.forest(compared, options.picture)
        except forest.Nothing as nothing:
            print(f"no picture: {nothing}", file=sys.stderr)
    return comparison_report.exit_code(compared, options.strict)


def _document(options: argparse.Namespace) -> int:
    from run_benches.render import document

    path = runs.find(options.run) if options.run else None
    if options.screenshots:
        from run_benches.cli import screenshots

        screenshots.take()
    return document.main(path, options.output, options.dry_run, options.check)


def _list(words: list[str], as_json: bool) -> int:
    layers = layer_names()
    built = build.last_build()
    suites = {layer: build.ask(layer, built[layer]) for layer in layers if layer in built}
    ids = [id for suite in suites.values() for id in suite.facts.rows]
    selection.check_rows([word for word in words if word.partition("/")[0] in suites], ids)
    wanted = [layer for layer in layers if not words or any(selection.layer_fits(layer, word) for word in words)]
    if as_json:
        rows = {
            layer: {id: facts for id, facts in suites[layer].facts.rows.items() if selection.chosen(id, words)}
            if layer in suites
            else None
            for layer in wanted
        }
        print(serialization.text({"schema": LIST_SCHEMA, "layers": rows}), end="")
        return Exit.FINE
    for layer in wanted:
        print(f"{layer}: {about(layer)} ({shares().get(layer, 0):g} s of a default run)")
        for id, facts in suites[layer].facts.rows.items() if layer in suites else ():
            if selection.chosen(id, words):
                print(f"  {id}  [{facts.threads} thread{'s' if facts.threads > 1 else ''}, {facts.unit}]  {facts.op}")
    shown = [id for id in ids if selection.chosen(id, words)]
    if shown:
        print(
            f"{figures.plural(len(shown), 'row')} of {figures.plural(len({id.partition('/')[0] for id in shown}), 'layer')}"
        )
    if any(layer not in suites and (words or layer not in on_demand()) for layer in wanted):
        print(
            f"rows are listed once the benches are built; to build and measure: {shlex.join(['run-benches.py', '--quick', *words])}"
        )
    return Exit.FINE
