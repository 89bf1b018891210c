"""`load`: load tests run, listed, kept, shown, and what else the load tool does.

Why a command with words of its own: a load test is no run of benches; it has scenarios instead of rows, and its own rules. What is the
same is where it is stored and how one asks for it.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from run_benches import files, serialization
from run_benches.cli import load_compare
from run_benches.errors import Complaint, Exit
from run_benches.measure import build, load_run
from run_benches.places import RUNS, shown
from run_benches.progress import duration
from run_benches.render import tables
from run_benches.render.tables import Column
from run_benches.store import loads, stored_file
from run_benches.store.loads import LoadRun

LIST_SCHEMA = 1


def main(options: argparse.Namespace, arguments: list[str]) -> int:
    """Does what was typed behind `load`."""
    match options.action:
        case "run":
            return _printed(*load_run.measure(load_run.chosen(options.scenarios), options.flags, arguments, options.json), options.json)
        case "compare":
            return load_compare.main(options, arguments)
        case "list":
            return _list(options.json)
        case "save":
            return _save(options.name, options.run)
        case "runs" | "baselines":
            return _stored(options.action, options.json)
        case "show":
            path = loads.find(options.run)
            return _printed(loads.load(path), path, options.json)
        case "report":
            return _report(loads.find(options.run), options.output)
        case _:
            tool = build.programs("load")["load"]
            return subprocess.run([str(tool), options.action, *options.flags], check=False).returncode


def _printed(run: LoadRun, path: Path, as_json: bool) -> int:
    if as_json:
        print(serialization.text(run), end="")
        return _code(run)
    columns = [Column("scenario"), Column("state"), Column("ok/s", right=True), Column("server CPU a request", right=True), Column("objectives"), Column("why")]
    print(tables.render("load tests", columns, [_line(name, cell) for name, cell in run.scenarios.items()]))
    print(f"stored as {shown(path)}")
    return _code(run)


def _line(name: str, cell: loads.Cell) -> list[str]:
    found = cell.read()
    why = "; ".join(cell.reasons)
    if found is None:
        return [name, cell.state.replace("_", " "), "", "", "", why]
    server = found.processes.server
    each = f"{server.seconds / found.total.ok * 1e6:.1f} us" if server and found.total.ok else ""
    outcomes = ", ".join(judged.outcome.replace("_", " ") for judged in found.objectives)
    bound = ">= " if found.validity == "client_bound" else ""
    return [name, found.validity.replace("_", " "), f"{bound}{found.throughput:.1f}", each, outcomes, why]


def _code(run: LoadRun) -> int:
    """The load tool's worst; an interrupted run is no pass."""
    return run.code if run.complete else Exit.NOTHING


def _report(path: Path, output: Path | None) -> Exit:
    """The page of a stored load test as one HTML file; says where it is."""
    from run_benches.render import load_page, load_pictures, report

    run = loads.load(path)
    drawn = load_pictures.pictures(run)
    file = output or RUNS / path.stem / "report.html"
    try:
        files.replace(file, report.page(load_page.markdown(run, drawn), {picture.file: picture.svg() for picture in drawn}))
    except OSError as error:
        raise Complaint(f"cannot write {shown(file)}: {error.strerror}; make room or give another --output") from error
    print(f"wrote {shown(file)} from {shown(path)}: one file, to be opened in a browser")
    return Exit.FINE


def _list(as_json: bool) -> Exit:
    scenarios = load_run.carried()
    if as_json:
        print(serialization.text({"schema": LIST_SCHEMA, "scenarios": scenarios}), end="")
    else:
        body = [[one.name, duration(one.seconds) if one.seconds else "by number", one.about] for one in scenarios]
        print(tables.render("scenarios", [Column("scenario"), Column("window"), Column("about")], body))
    return Exit.FINE


def _save(name: str, run_name: str | None) -> Exit:
    stored_file.check_free(loads.baseline_path(name))
    run = loads.load(loads.find(run_name))
    if not run.complete:
        raise Complaint("the load test was interrupted, so it is not kept as a baseline", Exit.NOTHING)
    print(f"kept as {shown(loads.save(run, name))}", file=sys.stderr)
    return Exit.FINE


def _stored(title: str, as_json: bool) -> Exit:
    """Every stored load test in a line; a damaged one says so and does not hide the others."""
    found: list[tuple[Path, LoadRun]] = []
    complaints: list[str] = []
    for path in loads.stored_baselines() if title == "baselines" else loads.stored():
        try:
            found.append((path, loads.load(path)))
        except Complaint as complaint:
            complaints.append(str(complaint))
    if as_json:
        entries = [{"name": path.stem, "started": run.started, "commit": run.tool.commit, "complete": run.complete, "scenarios": list(run.scenarios)} for path, run in found]
        print(serialization.text({"schema": LIST_SCHEMA, title: entries, "damaged": complaints}), end="")
    else:
        columns = [Column("name"), Column("started"), Column("revision"), Column("scenarios")]
        body = [[path.stem, run.started, run.tool.commit[:9] + ("+changes" if run.tool.dirty else ""), ", ".join(run.scenarios)] for path, run in found]
        print(tables.render(f"load tests: {title}", columns, body) if body else f"no {title} of load tests yet")
        print("\n".join(complaints), end="\n" if complaints else "")
    return Exit.ERROR if complaints else Exit.FINE
