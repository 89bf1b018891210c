"""`load`: runs, lists, keeps and shows load tests; hands everything else to the load tool.

Why a command with words of its own: a load test is no run of benches; it has scenarios instead of rows, and its own
rules. What is the same is where it is stored and how one asks for it.
"""

import argparse
import sys
from pathlib import Path

from run_benches import files, processes, serialization
from run_benches.analysis.load_findings import LoadFindings
from run_benches.cli import load_compare, stored
from run_benches.errors import Exit, UserError
from run_benches.lake import programs as lake_programs
from run_benches.measure import build, load_run
from run_benches.places import CALIBRATION, RUNS, shown
from run_benches.progress import duration
from run_benches.render import load_report, terminal
from run_benches.store import load_comparisons, loads, stored_file
from run_benches.store.loads import LoadRun

LIST_SCHEMA = 1


def main(options: argparse.Namespace, arguments: list[str]) -> int:
    """Does what was typed behind `load`."""
    match options.action:
        case "run":
            return _printed(
                *load_run.measure(load_run.chosen(options.scenarios), options.flags, arguments, options.json),
                options.json,
            )
        case "compare":
            return load_compare.main(options, arguments)
        case "list":
            return _list(options.json)
        case "save":
            return _save(options.name, options.run)
        case "runs" | "baselines":
            paths = loads.stored_baselines() if options.action == "baselines" else loads.stored()
            return stored.listing(
                options.action,
                "load tests",
                paths,
                loads.load,
                ["scenarios"],
                lambda run: [", ".join(run.scenarios)],
                options.json,
            )
        case "show":
            if compared := load_comparisons.named(options.run):
                return load_compare.printed(load_comparisons.load(compared), compared, options.json)
            path = loads.find(options.run)
            return _printed(loads.load(path), path, options.json)
        case "report":
            return _report(stored_file.single(loads.find(options.run)), options.output)
        case _:
            built = build.programs("load", "strata")
            server = (
                ["--server", str(built["strata"])]
                if options.action == "capacity" and not load_run.names_a_server(options.flags)
                else []
            )
            where = ["--calibration", str(CALIBRATION)] if options.action in ("calibrate", "capacity") else []
            return processes.call(
                [built["load"], options.action, *server, *where, *options.flags], ending=processes.STORING
            )


def lake(arguments: list[str], as_json: bool) -> int:
    """Runs the scenarios that copy a stream into a lakehouse, with all that they need."""
    scenarios = [scenario for scenario in load_run.built_in() if scenario.needs_programs]
    with lake_programs.of(scenarios) as beside:
        return _printed(*load_run.measure(scenarios, [], arguments, as_json, beside), as_json)


def _printed(run: LoadRun, path: Path, as_json: bool) -> int:
    if as_json:
        print(serialization.text(run), end="")
        return _code(run)
    told = terminal.sections([load_report.on_terminal(LoadFindings.of(run))])
    print(*told, f"stored as {shown(path)}", sep="\n")
    return _code(run)


def _code(run: LoadRun) -> int:
    """The worst exit code of the load tool; an interrupted run is no pass."""
    return run.code if run.complete else Exit.NOTHING


def _report(path: Path, output: Path | None) -> Exit:
    """The page of a stored load test as one HTML file; says where it is."""
    from run_benches.render import load_pictures, report

    tested = LoadFindings.of(loads.load(path))
    drawn = load_pictures.pictures(tested)
    file = output or RUNS / path.stem / "load-report.html"
    (files.write if output else files.replace)(
        file, report.page(load_report.page(tested, drawn), {picture.file: picture.svg() for picture in drawn})
    )
    print(
        f"wrote {shown(file)} from {shown(path)}: one file, to be opened in a browser",
        file=sys.stderr if output else sys.stdout,
    )
    return Exit.FINE


def _list(as_json: bool) -> Exit:
    scenarios = load_run.built_in()
    if as_json:
        print(serialization.text({"schema": LIST_SCHEMA, "scenarios": scenarios}), end="")
    else:
        body = [[one.name, duration(one.seconds) if one.seconds else "fixed number", one.about] for one in scenarios]
        print(terminal.table("scenarios", ["scenario", "window", "about"], body))
    return Exit.FINE


def _save(name: str, run_name: str | None) -> Exit:
    if path := load_comparisons.named(run_name):
        compared = load_comparisons.load(path)
        if not compared.complete:
            raise UserError("the comparison did not come to its end, so it is not kept", Exit.NOTHING)
        print(f"kept as {shown(stored_file.keep(load_comparisons.kept_path(name), compared))}", file=sys.stderr)
        return Exit.FINE
    stored_file.check_free(loads.baseline_path(name))
    run = loads.load(stored_file.single(loads.find(run_name)))
    if not run.complete:
        raise UserError("the load test was interrupted, so it is not kept as a baseline", Exit.NOTHING)
    print(f"kept as {shown(loads.save(run, name))}", file=sys.stderr)
    return Exit.FINE
