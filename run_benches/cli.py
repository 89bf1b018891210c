"""What can be typed: words to commands, and every ending to an exit code.

Why the first word may be a layer: `run-benches.py transaction` is what one types. A first word that is no command, no layer and no row is
an error that names the nearest one, before anything is built.
"""

import argparse
import errno
import re
import sys
from pathlib import Path

from run_benches import (
    build,
    checks,
    compare,
    comparison,
    doctor,
    explanation,
    figures,
    left_behind,
    packages,
    profile,
    runs,
    selection,
    sessions,
    shapes,
    stored,
    telling,
    toolchain,
)
from run_benches.comparison import Comparison
from run_benches.errors import Complaint, Exit
from run_benches.sessions import Wish

NOT_THERE_YET = {
    "load": "load tests of the whole server",
}
COMMANDS = ("run", "list", "save", "baselines", "runs", "compare", "explain", "more", "profile", "calibrate", "document", "report", "doctor", "test", *NOT_THERE_YET)
LIST_SCHEMA = 1

OUTSIDE_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""A disk that is full or may not be written is no defect of the runner."""

EPILOG = f"""exit codes: 0 fine; 1 something is slower, or a test, or with --strict a goal, failed; 2 usage, set-up, build or bench error; 3 contaminated, or
nothing, or not all, was measured

not there yet: {"; ".join(f"{name} ({what})" for name, what in NOT_THERE_YET.items())}
a first word that is a layer or a row means run: run-benches.py transaction"""


def main(arguments: list[str]) -> int:
    """Carries out what was typed; returns the exit code."""
    try:
        return _carry_out(arguments)
    except Complaint as complaint:
        print(f"run-benches.py: {complaint}", file=sys.stderr)
        return complaint.code
    except BrokenPipeError:
        sys.stderr.close()
        return Exit.FINE
    except OSError as error:
        if error.errno not in OUTSIDE_TROUBLE:
            raise
        print(f"run-benches.py: {error.strerror}: {error.filename or 'a file'}; mend that, then go on with --resume if a run was under way", file=sys.stderr)
        return Exit.ERROR
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return Exit.NOTHING


def _carry_out(arguments: list[str]) -> int:
    if any(word.startswith("--picture") for word in arguments):  # needs matplotlib; at the start, since it starts the command anew
        packages.enter_environment(arguments)
    typed = arguments if arguments[:1] and arguments[0] in (*COMMANDS, "-h", "--help") else ["run", *arguments]
    if typed[0] in NOT_THERE_YET:
        raise Complaint(f"{typed[0]} ({NOT_THERE_YET[typed[0]]}) is not there yet")
    options = _parser().parse_args(typed)
    match options.command:
        case "run":
            return _run(options, arguments)
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
            return _told(compare.more(options.name, options.budget, options.patience), options)
        case "profile":
            return profile.main(options.row, options.revision, options.json)
        case "calibrate":
            packages.enter_environment(arguments)
            from run_benches import calibrate

            return calibrate.main(options.budget, options.rows, options.smoke, options.patience, options.json)
        case "document":
            return _document(options, arguments)
        case "report":
            return _report(options, arguments)
        case "doctor":
            return doctor.main(options.json)
        case _:
            return checks.main(options.full, options.json)


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("run-benches.py", description="Measures Strata layer by layer.", epilog=EPILOG, formatter_class=formatter)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="measure, print the tables, store the run (the default)")
    _add_measuring(run)
    run.add_argument("--resume", nargs="?", const="", metavar="RUN", help="go on with an interrupted run (by default the last one)")
    save = commands.add_parser("save", help="measure, and keep the run as a baseline; never overwrites")
    save.add_argument("name", metavar="NAME")
    _add_measuring(save)
    save.add_argument("--run", metavar="RUN", dest="stored_run", help="keep this stored run (or `last`) instead of measuring")
    rows = commands.add_parser("list", help="layers, rows, what each measures")
    rows.add_argument("rows", nargs="*", metavar="LAYER|ROW")
    baselines = commands.add_parser("baselines", help="list, show or remove baselines")
    baselines.add_argument("action", nargs="?", choices=["show", "remove"])
    baselines.add_argument("name", nargs="?", metavar="NAME")
    past = commands.add_parser("runs", help="list or show the runs of this checkout")
    past.add_argument("action", nargs="?", choices=["show"])
    past.add_argument("name", nargs="?", metavar="RUN", default=None)
    _add_comparing(commands.add_parser("compare", help="which rows became slower between two revisions, judged in lock-step pairs"))
    why = commands.add_parser("explain", help="why a row got its verdict")
    why.add_argument("row", metavar="ROW")
    why.add_argument("--of", metavar="COMPARISON", help="by default the last one")
    again = commands.add_parser("more", help="spend more pairs on the rows of a comparison that could not be told")
    again.add_argument("name", nargs="?", metavar="COMPARISON", help="by default the last one")
    again.add_argument("--budget", type=_seconds, metavar="TIME", help="as many pairs as fit: 8m, 1h (never fewer than the test needs)")
    _add_telling(again)
    flames = commands.add_parser("profile", help="where the time of a row goes: flame graph and top ten; with REV, how that changed")
    flames.add_argument("row", metavar="ROW")
    flames.add_argument("revision", nargs="?", metavar="REV")
    rates = commands.add_parser("calibrate", help="measure our own error rates, into baselines/calibration/")
    rates.add_argument("--budget", type=_seconds, metavar="TIME", default=3600.0, help="how long to add to the pool of pairs (1h)")
    rates.add_argument("--rows", action="append", default=[], metavar="LAYER|ROW", help="only these rows; may be repeated")
    rates.add_argument("--smoke", action="store_true", help="a few pairs, thrown away: does every part work?")
    rates.add_argument("--patience", type=_seconds, default=120.0, metavar="TIME", help="give up on a process that says nothing for so long (2m)")
    _add_document(commands.add_parser("document", help="render docs/PERFORMANCE.md and its pictures from stored runs"))
    report = commands.add_parser("report", help="the performance page of a run as one HTML file that needs nothing else")
    report.add_argument("run", nargs="?", metavar="RUN", help="a baseline, a run, a file or `last`; by default the last run, or else baselines/reference.json")
    report.add_argument("--output", type=Path, metavar="FILE", help="by default runs/RUN/report.html")
    commands.add_parser("doctor", help="what makes this machine noisy, and what would help")
    test = commands.add_parser("test", help="all tests that this machine can run")
    test.add_argument("--full", action="store_true", help="slow tests too; fails on a skip")
    for name, command in commands.choices.items():
        if name not in ("document", "report"):
            command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rows", nargs="*", metavar="LAYER|ROW", help="layers, rows (indexes/hash_insert) or patterns ('transaction/*'); by default all")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="everything but workloads in about 10 minutes once built (by default about 30)")
    scale.add_argument("--full", action="store_true", help="as exact as it gets; about an hour and a half")
    scale.add_argument("--budget", type=_seconds, metavar="TIME", help="as exact as fits: 90s, 8m, 1h")
    parser.add_argument("--skip", action="append", default=[], metavar="LAYER|ROW", help="leave these rows out; may be repeated")
    parser.add_argument("--seed", type=int, help="the order of everything; by default drawn anew and stored")
    parser.add_argument("--patience", type=_seconds, default=120.0, metavar="TIME", help="give up on a process that says nothing for so long (2m)")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a goal is missed, 3 if one could not be judged")


def _add_comparing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sides", nargs="*", metavar="A B", help="git revisions or saved baselines; `.` is the working tree (by default: where it left main, and it)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="sets", help="engine options (cache=32M); given twice: two configurations of one revision")
    parser.add_argument("--rows", action="append", default=[], metavar="LAYER|ROW", help="only these layers, rows or patterns; may be repeated")
    parser.add_argument("--all", action="store_true", help="all layers, not only those that the change can reach; shows unchanged rows, too")
    parser.add_argument("--benches-of", choices=["own", "A", "B"], default="own", help="whose bench sources both sides run (each its own)")
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="spend more time: 20m, 2h")
    parser.add_argument("--seed", type=int, help="everything that luck decides; by default drawn anew and stored")
    parser.add_argument("--resume", nargs="?", const="", metavar="COMPARISON", help="go on with an interrupted comparison (by default the last one)")
    parser.add_argument("--stored", action="store_true", help="two stored runs side by side, not measured again, without a verdict")
    parser.add_argument("--criterion", metavar="NAME", help="what `cargo bench -- --save-baseline NAME` left behind, side by side, without a verdict")
    _add_telling(parser)


def _add_telling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--patience", type=_seconds, default=120.0, metavar="TIME", help="give up on a process that says nothing for so long (2m)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw the changes with their intervals into this file (SVG)")
    parser.add_argument("--markdown", action="store_true", help="print it for a pull request")
    parser.add_argument("--strict", action="store_true", help="exit 3 if any row can't be told")


def _add_document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a baseline, a run, a file or `last`; by default baselines/reference.json")
    parser.add_argument("--output", type=Path, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="print what would change")
    parser.add_argument("--check", action="store_true", help="fail if the document is not what the run renders to")


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h)", text)
    if not found or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 90s, 8m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2]]


def _wish(options: argparse.Namespace, arguments: list[str]) -> Wish:
    scale = "quick" if options.quick else "full" if options.full else "default"
    selection.check_layers([*options.rows, *options.skip], build.layers(), COMMANDS)
    return Wish(options.rows, options.skip, scale, options.budget, options.seed, options.patience, arguments)  # type: ignore[arg-type]


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    if options.resume is None:
        return sessions.report(*sessions.measure(_wish(options, arguments)), options.json, options.strict)
    if options.rows or options.skip or options.quick or options.full or options.budget or options.seed is not None:
        raise Complaint("--resume goes on with the plan of the interrupted run: give it no rows and no scale")
    return sessions.report(*sessions.resume(options.resume or None, options.patience), options.json, options.strict)


def _save(options: argparse.Namespace, arguments: list[str]) -> int:
    if runs.baseline_path(options.name).exists():
        raise runs.already_there(options.name)
    if options.stored_run:
        run, code = runs.load(runs.find(options.stored_run)), Exit.FINE
    else:
        run, path = sessions.measure(_wish(options, arguments))
        code = sessions.report(run, path, options.json, options.strict)
    if not run.complete:
        raise Complaint("the run was interrupted, so it is not kept as a baseline: go on with --resume, then save NAME --run last", Exit.NOTHING)
    print(f"kept as {runs.shown(runs.save(run, options.name))}", file=sys.stderr)
    return code


def _stored(options: argparse.Namespace) -> int:
    if options.action and not options.name:
        raise Complaint(f"{options.command} {options.action} needs a name; to see all: run-benches.py {options.command}")
    if options.action == "remove":
        return stored.remove(options.name)
    if options.action == "show":
        return stored.show(runs.find(options.name), options.json)
    paths = runs.stored_baselines() if options.command == "baselines" else runs.stored_runs()
    return stored.listing(options.command, paths, options.json)


def _compare(options: argparse.Namespace, arguments: list[str]) -> int:
    if options.criterion:
        return left_behind.compare(options.criterion, toolchain.target_folder(), options.json)
    if options.stored:
        if len(options.sides) != 2:
            raise Complaint("compare --stored needs two stored runs: baselines, runs, files or `last`")
        return stored.compare(options.sides[0], options.sides[1], options.json)
    if options.resume is not None:
        if options.sides or options.sets or options.rows or options.budget or options.seed is not None:
            raise Complaint("--resume goes on with the plan of the interrupted comparison: give it no revisions, rows or budget")
        return _told(compare.resume(options.resume or None, options.patience), options)
    if len(options.sides) > 2:
        raise Complaint("compare takes at most two revisions; rows are chosen with --rows")
    a, b = [*options.sides, None, None][:2]
    wish = compare.Wish(a, b, options.sets, options.rows, options.all, options.benches_of.lower(), options.budget, options.seed, options.patience, arguments)
    return _told(compare.compare(wish), options)


def _explain(options: argparse.Namespace) -> int:
    compared = comparison.load(comparison.find(options.of))
    text = explanation.explain(compared, options.row)
    rows = {id: row for id, row in compared.rows.items() if selection.matches(id, options.row)}
    print(shapes.text({"schema": comparison.SCHEMA, "rows": rows}) if options.json else text, end="")
    return Exit.FINE


def _told(found: tuple[Comparison, Path], options: argparse.Namespace) -> int:
    compared, path = found
    if options.json:
        print(shapes.text(compared), end="")
    elif options.markdown:
        print(telling.markdown(compared), end="")
    else:
        print(telling.text(compared, path, getattr(options, "all", False)), end="", flush=True)
    if options.picture:
        from run_benches import forest

        forest.forest(compared, options.picture)
    return telling.exit_code(compared, options.strict)


def _document(options: argparse.Namespace, arguments: list[str]) -> int:
    path = runs.find(options.run) if options.run else None
    packages.enter_environment(arguments)
    from run_benches import document

    return document.main(path, options.output, options.dry_run, options.check)


def _report(options: argparse.Namespace, arguments: list[str]) -> int:
    path = runs.find(options.run) if options.run else None
    packages.enter_environment(arguments)
    from run_benches import report

    return report.main(path or report.default_run(), options.output)


def _list(words: list[str], as_json: bool) -> int:
    layers = build.layers()
    selection.check_layers(words, layers)
    built = build.last_build()
    suites = {layer: build.ask(layer, built[layer]) for layer in layers if layer in built}
    ids = [id for suite in suites.values() for id in suite.facts.rows]
    selection.check_rows([word for word in words if word.partition("/")[0] in suites], ids)
    wanted = [layer for layer in layers if not words or any(selection.layer_fits(layer, word) for word in words)]
    if as_json:
        rows = {layer: {id: facts for id, facts in suites[layer].facts.rows.items() if selection.chosen(id, words)} if layer in suites else None for layer in wanted}
        print(shapes.text({"schema": LIST_SCHEMA, "layers": rows}), end="")
        return Exit.FINE
    for layer in wanted:
        print(f"{layer}: {build.about(layer)}")
        for id, facts in suites[layer].facts.rows.items() if layer in suites else ():
            if selection.chosen(id, words):
                print(f"  {id}  [{facts.threads} thread{'s' if facts.threads > 1 else ''}, {facts.unit}]  {facts.op}")
    shown = [id for id in ids if selection.chosen(id, words)]
    if shown:
        print(f"{figures.plural(len(shown), 'row')} of {figures.plural(len({id.partition('/')[0] for id in shown}), 'layer')}")
    if len(suites) < len(layers):
        print("rows are listed once the benches are built; to build and measure: run-benches.py --quick")
    return Exit.FINE
