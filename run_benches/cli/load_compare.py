"""`load compare`: builds the servers of both sides, has them compared, and prints the verdicts.

Exit codes as of `compare`: 0 nothing is slower, 1 something is, 2 it could not be done, 3 nothing, or not all, was
measured.
"""

import argparse
import dataclasses
import secrets
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from run_benches import serialization
from run_benches.compare import load_comparison, revisions, worktree
from run_benches.compare.load_comparison import Programs
from run_benches.errors import Exit, UserError
from run_benches.interrupts import until_stopped
from run_benches.measure import build, load_run, machine, provenance
from run_benches.measure.lock import alone
from run_benches.places import RUNS, shown
from run_benches.render import load_comparison_report as report
from run_benches.render import terminal
from run_benches.store import load_comparisons, stored_file
from run_benches.store.load_comparisons import LoadComparison, LoadSide
from run_benches.store.runs import Binary


def main(options: argparse.Namespace, arguments: list[str]) -> Exit:
    """Compares, stores and prints."""
    (scenario,) = load_run.chosen([options.scenario])
    keep = load_comparisons.kept_path(options.keep) if options.keep else None
    if keep:
        stored_file.check_free(keep)
    versus = shlex.split(options.versus) if options.versus is not None else None
    with alone():
        if versus is not None and options.base is not None:
            raise UserError(
                "--versus is of one server with two loads, --base of two servers with one: give one of them"
            )
        b = revisions.resolve(None)
        a = b if versus is not None else revisions.resolve(options.base) if options.base else revisions.merge_base()
        tool = build.programs("load", "strata")
        programs = Programs(
            tool["load"],
            *(
                [tool["strata"]] * 2
                if versus is not None
                else [worktree.build_program(one, "strata") for one in (a, b)]
            ),
        )
        other, flags = load_comparison.same_flags(scenario.name, options.flags, versus or [])
        sides = [
            LoadSide(a.name, a.commit, a.dirty, scenario.name, options.flags, build.binary(programs.a)),
            LoadSide(b.name, b.commit, b.dirty, other, flags, build.binary(programs.b)),
        ]
        if versus is None and sides[0].server == sides[1].server:
            raise UserError(
                "the servers of both sides are the same to the byte, so there is nothing to compare: name another --base, or what differs with --versus"
            )
        seed = options.seed if options.seed is not None else secrets.randbelow(2**32)
        compared = _new(
            sides, build.binary(tool["load"]), arguments, options.windows, options.margin, options.alpha, seed
        )
        path = stored_file.new(RUNS, "load-compare-")
        with until_stopped("the same command, which begins anew: of what was measured there is no verdict"):
            load_comparison.carry_out(compared, path, programs, options.pairs)
        if keep and compared.complete:
            stored_file.keep(keep, compared)
    return printed(compared, path, options.json)


def again(stored: LoadComparison, arguments: list[str]) -> LoadComparison:
    """Compares the sides of a stored comparison anew, both with the server of this checkout; of an interrupted one
    nothing is judged."""
    with alone():
        working = revisions.resolve(None)
        tool = build.programs("load", "strata")
        sides = [
            dataclasses.replace(
                side, name=working.name, commit=working.commit, dirty=working.dirty, server=build.binary(tool["strata"])
            )
            for side in (stored.a, stored.b)
        ]
        compared = _new(
            sides, build.binary(tool["load"]), arguments, stored.windows, stored.margin, stored.alpha, stored.seed
        )
        path = stored_file.new(RUNS, "load-compare-")
        with until_stopped(
            f"run-benches.py {shlex.join(arguments)}, which begins anew: of what was measured there is no verdict"
        ):
            load_comparison.carry_out(compared, path, Programs(tool["load"], tool["strata"], tool["strata"]), None)
    return compared


def printed(compared: LoadComparison, path: Path, as_json: bool) -> Exit:
    """Prints a comparison; returns how the command ends."""
    if as_json:
        print(serialization.text(compared), end="")
    else:
        print(*terminal.sections([report.section(compared)]), f"stored as {shown(path)}", sep="\n")
    if len(compared.invalid) > load_comparison.MOST_INVALID:
        print("too many pairs were invalid, so nothing was judged", file=sys.stderr)
        return Exit.ERROR
    verdicts = [row.judgement.verdict for row in compared.rows.values() if row.judgement]
    if "slower" in verdicts:
        return Exit.FAILED
    lost = any(row.a and row.reason for row in compared.rows.values())
    return Exit.NOTHING if lost or not compared.complete or set(verdicts) <= {"can't tell"} else Exit.FINE


def _new(
    sides: list[LoadSide], client: Binary, arguments: list[str], windows: int, margin: float, alpha: float, seed: int
) -> LoadComparison:
    return LoadComparison(
        schema=load_comparisons.SCHEMA,
        tool=provenance.tool(),
        command=["run-benches.py", *arguments],
        started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=0.0,
        complete=False,
        machine=machine.describe(None),
        build=provenance.how_built(),
        a=sides[0],
        b=sides[1],
        seed=seed,
        windows=windows,
        margin=margin,
        alpha=alpha,
        sources=provenance.of_scenarios({side.scenario for side in sides}),
        client=client,
    )
