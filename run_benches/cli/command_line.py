"""The command line: words to options, and every ending to an exit code.

Why the first word may be a layer: `run-benches.py transaction` is what one types. A first word that is no command, no
layer and no row is an error that names the nearest one, before anything is built.

Why apart from `commands`: this much runs on a bare Python, so that `--help` and a slip of the keyboard are answered at
once. Everything else runs inside `.venv`, and may use what requirements.txt lists.
"""

import argparse
import errno
import itertools
import os
import re
import sys
import traceback
from pathlib import Path

from run_benches import interrupts, places, processes, scratch
from run_benches.errors import Exit, UserError
from run_benches.measure import selection
from run_benches.measure.layers import layer_names
from run_benches.setup import packages
from run_benches.stats.judge import MOST_PAIRS

COMMANDS = (
    "run",
    "list",
    "save",
    "baselines",
    "runs",
    "compare",
    "explain",
    "more",
    "profile",
    "calibrate",
    "document",
    "renew",
    "report",
    "load",
    "lake",
    "library",
    "doctor",
    "test",
)

LOAD_TOOL = {
    "calibrate": "measure what the client itself can do; later load tests are judged by it",
    "capacity": "search the highest rate at which a scenario meets its objectives",
    "check": "judge stored results again",
    "lint": "apply the laws to a report of another tool",
}
"""The actions that the load tool carries out by itself, with the words that follow as they are."""

LOAD_ACTIONS = ("run", "compare", "list", "save", "baselines", "runs", "show", "report", *LOAD_TOOL)

USUAL_TIMEOUT_S = 120.0

TELLING = "timeout picture markdown strict json"
PLANNING = "sides sets rows all benches_of budget margin alpha pairs seed"

USED: dict[str, dict[str, tuple[str, str]]] = {
    "run": {"resume": ("timeout strict json", "--resume goes on with the plan of the interrupted run")},
    "save": {"stored_run": ("name", "save --run keeps a run that is there already, and measures nothing")},
    "baselines": {"remove": ("name", "baselines remove prints no tables")},
    "compare": {
        "criterion": ("json", "--criterion shows what cargo bench left behind, and measures nothing"),
        "stored": ("sides json", "--stored shows two stored runs, and measures nothing"),
        "resume": (f"all {TELLING}", "--resume goes on with the plan of the interrupted comparison"),
        "dry_run": (f"{PLANNING} json", "--dry-run measures and judges nothing"),
        "markdown": (f"{PLANNING} resume {TELLING.replace('json', '')}", "--markdown is what is printed"),
    },
    "more": {"markdown": (f"name budget {TELLING.replace('json', '')}", "--markdown is what is printed")},
    "calibrate": {"smoke": ("timeout", "--smoke has its own few rows and pairs, and prints a summary")},
    "document": {
        "check": ("run output", "--check writes nothing and shows the first difference"),
        "screenshots": ("", "--screenshots is of the committed documents, and renders them, too"),
    },
}
"""By command, what restricts it: the options and words that are used beside that, and why no others are."""

OUTSIDE_TROUBLE = frozenset(
    getattr(errno, name)
    for name in (
        "ENOSPC",
        "EDQUOT",
        "EROFS",
        "EACCES",
        "EPERM",
        "ENOTDIR",
        "EISDIR",
        "ELOOP",
        "ENAMETOOLONG",
        "EFBIG",
        "EIO",
        "ESTALE",
        "EMFILE",
        "ENFILE",
        "EAGAIN",
        "ENOMEM",
    )
)
"""The errors of the system that are no defect of the runner: a disk that is full or may not be written, a folder that
is none, a limit."""

EPILOG = """exit codes: 0 fine; 1 something is slower or has more allocations, or a test, or with --strict a goal, failed; 2 usage, set-up, build or bench
error; 3 contaminated, stopped, or nothing, or not all, was measured

Ctrl-C (SIGINT), SIGTERM and SIGHUP stop every command at any stage: what it started ends, its temporary files go, what is done is kept

a first word that is a layer or a row means run: run-benches.py transaction"""


def main(arguments: list[str]) -> int:
    """Carries out what was typed; returns the exit code."""
    try:
        interrupts.heed()
        return _carried_out(arguments)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return Exit.NOTHING
    finally:
        interrupts.STOP.ending = True  # it is decided how this ends


def _carried_out(arguments: list[str]) -> int:
    try:
        _check_streams()
        try:
            options = _options(arguments)
            places.use_cache()
            packages.enter_environment(arguments)
            try:
                from run_benches.cli import commands
            except (ImportError, AttributeError) as error:
                if isinstance(error, ImportError) and (error.name or "").startswith("run_benches"):
                    raise
                packages.STAMP.unlink(missing_ok=True)
                raise UserError(
                    f"a package in .venv is damaged ({error}): type it again, and .venv is made anew"
                ) from error
            with scratch.of_the_command():
                try:
                    return commands.carry_out(options, arguments)
                finally:
                    processes.end_all()
        finally:
            sys.stdout.flush()
    except UserError as error:
        print(f"run-benches.py: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        _open_on_nothing(1, 2)
        return Exit.NOTHING if interrupts.STOP.requested else Exit.FINE
    except Exception as error:  # noqa: BLE001 - of a defect Python would end with 1, which means that something is slower
        if isinstance(error, OSError) and error.errno in OUTSIDE_TROUBLE:
            where = error.filename or "standard output or a file"
            print(
                f"run-benches.py: {error.strerror}: {where}; mend that, then go on: with --resume if a run was under way, else with the same command",
                file=sys.stderr,
            )
            _open_on_nothing(1)
        else:
            traceback.print_exc()
        return Exit.ERROR


def _check_streams() -> None:
    """Complains if nothing can be printed. A closed standard input or error is opened on nothing, or the next file that
    is opened would get its number, and with it what is meant for another."""
    try:
        os.fstat(0)
    except OSError:
        _open_on_nothing(0)
    try:
        os.write(2, b"")
    except OSError:
        _open_on_nothing(2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - it is open as long as the process lives
    try:
        os.write(1, b"")
    except OSError as error:
        _open_on_nothing(1)
        raise UserError(
            f"standard output cannot be written ({error.strerror}): send it to a file, a pipe or /dev/null"
        ) from error


def _open_on_nothing(*descriptors: int) -> None:
    """Opens them on nothing, also for what is started from here and for what Python still holds back for them."""
    for descriptor in descriptors:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != descriptor:
            os.dup2(nothing, descriptor)
            os.close(nothing)
        os.set_inheritable(descriptor, True)


def _options(arguments: list[str]) -> argparse.Namespace:
    """Returns the options that were typed, if they can be meant."""
    typed = arguments if arguments[:1] and arguments[0] in (*COMMANDS, "-h", "--help") else ["run", *arguments]
    typed, flags = _with_load_flags(typed) if typed[0] == "load" else (typed, [])
    # An empty word most often is a variable that is not set. A name for what is kept is looked at where it becomes that
    # of a file.
    for before, word in itertools.pairwise([*typed, *flags]):
        if (word == "" and before != "save") or re.fullmatch(r"--[a-z-]+=", word):
            raise UserError(
                f"the word after {word.rstrip('=') or before} is empty (is a variable not set?): give it a value, or leave it out"
            )
    parser = _parser()
    options = parser.parse_args(typed)
    options.flags = flags
    _check_used(options, _actions(parser, options))
    if "timeout" in options and options.timeout is None:
        options.timeout = USUAL_TIMEOUT_S
    if options.command in ("run", "save", "list"):
        selection.check_layers([*options.rows, *getattr(options, "skip", [])], layer_names(), COMMANDS)
    return options


def _actions(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[argparse.Action]:
    """The options and words that belong to the command that was typed."""
    found: list[argparse.Action] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += _actions(action.choices[getattr(options, action.dest)], options)
        else:
            found.append(action)
    return found


def _check_used(options: argparse.Namespace, actions: list[argparse.Action]) -> None:
    """Complains about an option or a word that would have no effect beside another one."""
    names = {
        action.dest: "/".join(action.option_strings) or str(action.metavar or action.dest)
        for action in actions
        if action.dest != "help"
    }
    given = {
        dest: name
        for dest, name in names.items()
        if getattr(options, dest) not in (None, []) and getattr(options, dest) is not False
    }
    modes = [
        mode for mode in USED.get(options.command, {}) if mode in given or mode == getattr(options, "action", None)
    ]
    for mode in modes:
        used, why = USED[options.command][mode]
        for dest, name in given.items():
            if dest not in (mode, "action", *used.split()):
                raise UserError(f"{why}: leave out {name}")
    if options.flags and options.action not in ("run", "compare", *LOAD_TOOL):
        raise UserError(f"load {options.action} takes no flags of the load tool: leave out {options.flags[0]!r}")


def _with_load_flags(typed: list[str]) -> tuple[list[str], list[str]]:
    """`load` means `load run`; what follows `--`, or one of the load tool's own words, is for the load tool."""
    if typed[1:2] == [] or typed[1] not in (*LOAD_ACTIONS, "-h", "--help"):
        typed = ["load", "run", *typed[1:]]
    if typed[1] in LOAD_TOOL and typed[2:3] not in (["-h"], ["--help"]):
        return typed[:2], [word for word in typed[2:] if word != "--"]
    at = typed.index("--") if "--" in typed else len(typed)
    return typed[:at], typed[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "run-benches.py", description="Measures Strata layer by layer.", epilog=EPILOG, formatter_class=formatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="measure, print the tables, store the run (the default)")
    _add_measuring(run)
    run.add_argument(
        "--resume", nargs="?", const="", metavar="RUN", help="go on with an interrupted run (by default the last one)"
    )
    save = commands.add_parser("save", help="measure, and keep the run as a baseline; never overwrites")
    save.add_argument(
        "name",
        metavar="NAME",
        help="of letters, digits, dots, dashes and underscores; not `last`, HEAD, or one like those of runs",
    )
    _add_measuring(save)
    save.add_argument(
        "--run",
        metavar="RUN",
        dest="stored_run",
        help="keep this stored run (or `last`) instead of measuring; no other option goes with it",
    )
    rows = commands.add_parser("list", help="layers, rows, what each measures")
    rows.add_argument("rows", nargs="*", metavar="LAYER|ROW")
    baselines = commands.add_parser("baselines", help="list, show or remove baselines")
    baselines.add_argument("action", nargs="?", choices=["show", "remove"])
    baselines.add_argument("name", nargs="?", metavar="NAME")
    past = commands.add_parser("runs", help="list or show the runs of this checkout")
    past.add_argument("action", nargs="?", choices=["show"])
    past.add_argument("name", nargs="?", metavar="RUN", default=None)
    _add_comparing(
        commands.add_parser("compare", help="which rows became slower between two revisions, judged in lock-step pairs")
    )
    why = commands.add_parser("explain", help="why a row got its verdict")
    why.add_argument("row", metavar="ROW")
    why.add_argument("--of", metavar="COMPARISON", help="by default the last one")
    again = commands.add_parser("more", help="spend more pairs on the rows of a comparison that could not be told")
    again.add_argument("name", nargs="?", metavar="COMPARISON", help="by default the last one")
    again.add_argument(
        "--budget", type=_seconds, metavar="TIME", help="as many pairs as fit: 8m, 1h (never fewer than the test needs)"
    )
    _add_telling(again)
    flames = commands.add_parser(
        "profile", help="where the time of a row goes: flame graph and top ten; with REV, how that changed"
    )
    flames.add_argument("row", metavar="ROW")
    flames.add_argument("revision", nargs="?", metavar="REV")
    rates = commands.add_parser("calibrate", help="measure our own error rates, into baselines/calibration/")
    rates.add_argument("--budget", type=_seconds, metavar="TIME", help="how long to add to the pool of pairs (1h)")
    rates.add_argument(
        "--rows", action="append", default=[], metavar="LAYER|ROW", help="only these rows; may be repeated"
    )
    rates.add_argument("--smoke", action="store_true", help="a few pairs, thrown away: does every part work?")
    rates.add_argument(
        "--timeout", type=_seconds, metavar="TIME", help="give up on a process that says nothing for so long (2m)"
    )
    _add_document(commands.add_parser("document", help="render docs/PERFORMANCE.md and its pictures from stored runs"))
    anew = commands.add_parser(
        "renew", help="measure what is stale of the stored runs behind the committed pages, and render these"
    )
    anew.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a layer, a scenario, a kept comparison, or load (all of the last two); by default everything",
    )
    anew.add_argument("--all", action="store_true", help="measure what is fresh, too")
    anew.add_argument(
        "--dry-run",
        action="store_true",
        help="say what is stale, why, and how long it takes; build and measure nothing",
    )
    anew.add_argument(
        "--timeout",
        type=_seconds,
        metavar="TIME",
        help="give up on a process of a bench that says nothing for so long (2m)",
    )
    report = commands.add_parser(
        "report", help="the performance page of a run as one HTML file that needs nothing else"
    )
    report.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="a baseline, a run, a file or `last`; by default the last run, or else baselines/reference",
    )
    report.add_argument(
        "--output", type=_file, metavar="FILE", help="by default runs/RUN/report.html; - is standard output"
    )
    _add_load(
        commands.add_parser(
            "load",
            help="load tests of the whole server",
            epilog="load SCENARIO... means load run; its own flags follow `--` (load rest-crud -- --concurrent-tasks 8)",
        )
    )
    commands.add_parser(
        "lake",
        help="streams as Iceberg tables: builds strata-lake, sets up readers and an object store, and runs the scenario cold-storage",
    )
    commands.add_parser(
        "library",
        help="RocksDB as a library: what a program that embeds the store puts into its .cargo/config.toml, to never compile it",
    )
    commands.add_parser("doctor", help="what makes this machine noisy, and what would help")
    test = commands.add_parser("test", help="all tests that this machine can run")
    test.add_argument("--full", action="store_true", help="slow tests too; fails on a skip")
    for name, command in commands.choices.items():
        if name not in ("document", "report", "load"):
            command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="LAYER|ROW",
        help="layers, rows (indexes/hash_insert) or patterns ('transaction/*'); by default all",
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--quick",
        action="store_true",
        help="CRUD by one thread, the ladder of GET and the main floors, in about 4 minutes once built (by default 15 at most)",
    )
    scale.add_argument(
        "--full",
        action="store_true",
        help="every row that has a partner in turns with it, every workload twice; about an hour and a half",
    )
    scale.add_argument("--budget", type=_seconds, metavar="TIME", help="as exact as fits: 90s, 8m, 1h")
    parser.add_argument(
        "--skip", action="append", default=[], metavar="LAYER|ROW", help="leave these rows out; may be repeated"
    )
    parser.add_argument("--seed", type=int, help="the order of everything; by default drawn anew and stored")
    parser.add_argument(
        "--timeout", type=_seconds, metavar="TIME", help="give up on a process that says nothing for so long (2m)"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 if a goal is missed, 3 if one is not shown to be met"
    )


def _add_comparing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="git revisions or saved baselines; `.` is the working tree (by default: where it left main, and it)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="sets",
        help="engine options (cache=32M); given twice: two configurations of one revision",
    )
    parser.add_argument(
        "--rows",
        action="append",
        default=[],
        metavar="LAYER|ROW",
        help="only these layers, rows or patterns; may be repeated",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="all layers, not only those that the change can reach; shows unchanged rows, too",
    )
    parser.add_argument(
        "--benches-of", choices=["own", "A", "B"], help="whose bench sources both sides run (each its own)"
    )
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="spend more time: 20m, 2h")
    parser.add_argument(
        "--margin",
        type=_share,
        metavar="PERCENT",
        help="a change within this counts as the same, in all rows (2%%, or what benches/margins.toml says)",
    )
    parser.add_argument("--alpha", type=_level, help="the rate of false verdicts in the family of all rows (0.05)")
    parser.add_argument(
        "--pairs",
        type=_pairs,
        metavar="N",
        help="at least so many fresh pairs of each row that is decided (the rule needs 16 and more)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="build both sides, say what would be measured and how long it takes (with --json: the plan), and stop",
    )
    parser.add_argument("--seed", type=int, help="the random seed; by default drawn anew and stored")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="COMPARISON",
        help="go on with an interrupted comparison (by default the last one)",
    )
    parser.add_argument(
        "--stored", action="store_true", help="two stored runs side by side, not measured again, without a verdict"
    )
    parser.add_argument(
        "--criterion",
        metavar="NAME",
        help="what `cargo bench -- --save-baseline NAME` left behind, side by side, without a verdict",
    )
    _add_telling(parser)


def _add_telling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", type=_seconds, metavar="TIME", help="give up on a process that says nothing for so long (2m)"
    )
    parser.add_argument(
        "--picture",
        type=_other_file,
        metavar="FILE",
        help="also draw the changes, if there are any, with their intervals into this file (SVG)",
    )
    parser.add_argument("--markdown", action="store_true", help="print it for a pull request")
    parser.add_argument("--strict", action="store_true", help="exit 3 if any row can't be told")


def _add_document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a baseline, a run, a file or `last`; by default baselines/reference"
    )
    parser.add_argument(
        "--output",
        type=_page,
        metavar="FILE",
        help="the main page; the others and the pictures lie in a folder beside it",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would change")
    parser.add_argument(
        "--screenshots",
        action="store_true",
        help="also take anew the pictures of pages that are not of the present ones (builds the server, needs a browser)",
    )
    parser.add_argument("--check", action="store_true", help="fail if the document is not what the run renders to")


def _add_load(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="run scenarios and store what they measured (the default)")
    run.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="names or files; by default all of this checkout")
    listing = actions.add_parser("list", help="scenarios, what each is about")
    compare = actions.add_parser(
        "compare",
        help="which figures of a scenario became worse between two revisions, judged over pairs of servers that take turns",
    )
    compare.add_argument("scenario", metavar="SCENARIO", help="a name or a file")
    compare.add_argument(
        "--base", metavar="REV", help="side A; by default where HEAD left main. Side B is the working tree"
    )
    compare.add_argument(
        "--versus",
        metavar="FLAGS",
        help="the same server on both sides; side B has these flags of the load tool in addition, behind another scenario if it has one (--versus=--no-tls)",
    )
    compare.add_argument(
        "--pairs", type=_count, metavar="NUMBER", help="pairs of servers; by default as many as the rule needs"
    )
    compare.add_argument(
        "--windows", type=_count, metavar="NUMBER", default=10, help="windows of each side in a pair (10)"
    )
    compare.add_argument(
        "--margin", type=_share, metavar="SHARE", default=0.05, help="changes within it count as the same (5%%)"
    )
    compare.add_argument(
        "--alpha", type=_level, metavar="LEVEL", default=0.05, help="the probability of any false verdict (0.05)"
    )
    compare.add_argument("--seed", type=int, metavar="NUMBER", help="of everything random")
    compare.add_argument(
        "--keep", metavar="NAME", help="keep it in baselines/load/comparisons, from where the document takes it"
    )
    save = actions.add_parser("save", help="keep a stored load test, or a comparison, under a name; never overwrites")
    save.add_argument("name", metavar="NAME")
    save.add_argument("run", nargs="?", metavar="RUN", help="by default the last one")
    show = actions.add_parser("show", help="the table of a stored load test, or of a comparison")
    show.add_argument("run", nargs="?", metavar="RUN", help="by default the last one")
    page = actions.add_parser("report", help="the page of a load test as one HTML file that needs nothing else")
    page.add_argument("run", nargs="?", metavar="RUN", help="by default the last one")
    page.add_argument(
        "--output", type=_file, metavar="FILE", help="by default runs/RUN/load-report.html; - is standard output"
    )
    past = [actions.add_parser(name, help=f"list the {name} of load tests") for name in ("runs", "baselines")]
    for command in (run, compare, listing, show, *past):
        command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    for name, about in LOAD_TOOL.items():
        actions.add_parser(name, help=about)


def _file(text: str) -> Path:
    """Where to write; looked at before anything is measured."""
    if text.endswith("/") or Path(text).is_dir():
        raise UserError(f"cannot write {text}: it is a folder; name a file")
    return Path(text)


def _other_file(text: str) -> Path:
    """A file other than standard output, which has something else."""
    path = _file(text)
    if text == "-" or (path.exists() and not path.is_char_device() and os.path.samestat(path.stat(), os.fstat(1))):
        raise UserError(f"cannot write {text}: other things are printed on standard output; name a file")
    return path


def _page(text: str) -> Path:
    """A file that others can lie beside."""
    path = _other_file(text)
    if path.exists() and not path.is_file():
        raise UserError(f"cannot write {text}: pages and pictures lie beside it, so it has to be a file")
    return path


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h)", text)
    if not found or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 90s, 8m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2]]


def _share(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)  # without the sign 0.02 might mean 2 %
    if not found or not 0 < float(found[1]) <= 50:
        raise argparse.ArgumentTypeError(f"{text!r} is no margin: write 2% or 0.5%, at most 50%")
    return float(found[1]) / 100


def _level(text: str) -> float:
    if not re.fullmatch(r"0?\.\d+", text) or not 0 < float(text) < 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is no level: write 0.05 or 0.01")
    return float(text)


def _pairs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_PAIRS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of pairs from 1 to {MOST_PAIRS}")
    return int(text)
