"""The page of the performance document about load tests: of the one stored load test that belongs to it, or the word that there is none.

Why no figure of it stands elsewhere: a load test is of a client and a server on one machine, and everything else in the document is of benches
inside one process. Side by side they stand in one table, which says what each is.
"""

import shlex

from run_benches.analysis import figures, load_findings
from run_benches.analysis.load_findings import Step
from run_benches.render import load_comparison_report, load_page, load_pictures, tables
from run_benches.render.source import Source, marked, revision
from run_benches.store.load_comparisons import LoadComparison
from run_benches.store.loads import LoadRun

NAME = "load"

_WORDS = (
    "What the whole server does over HTTP, client and server on one machine; `docs/load-tests.md` says how. The benches of the"
    " other pages say what a layer costs; here requests queue, and a client has to keep up."
)

_IN_TURNS = (
    "Differences are told of what took turns alone: two servers, each with its own data, in short windows, and pair after pair of new servers."
    " A change is B's figure over A's."
)

_LOADED = "the server or the load tool"

_BESIDE = (
    "The ladder's highest rung is one request after the other over HTTP, told by the server's CPU, in the run of benches that the other pages are of."
    " Under load an answer waits for a connection and for the client before it starts, and for a processor, the network stack and the client"
    " while it is served. Means over the same requests: response = waited + service. What the server says itself is from the head of a request"
    " to its answer; the rest of the service is TLS, the network stack and the client."
)


def page(source: Source) -> list[str]:
    """The page."""
    load, turns = source.load, _turns(source)
    if load is None:
        return [f"# {NAME}", "", _WORDS, "", *marked(NAME, "no stored load test", [figures.NOT_MEASURED]), *turns]
    lines = load_page.body(load, load_pictures.pictures(load))
    return [f"# {NAME}", "", _WORDS, "", *source.age(NAME, _LOADED), *_block(load, "limits", _limits(load)), *turns, *_block(load, "micro against load", _beside(source, load)), *_block(load, NAME, lines)]


def _turns(source: Source) -> list[str]:
    """The comparisons that were kept: what differs between two loads, or two servers, that took turns."""
    if not source.compared:
        return []
    found = ["## In turns", "", _IN_TURNS, ""]
    columns = [column.title + (">" if column.right else "") for column in load_comparison_report.COLUMNS]
    for number, compared in enumerate(source.compared, start=1):
        age = source.age(f"comparison {number}", _LOADED)
        lines = [f"### {load_comparison_report.title(compared)}", "", *age, *tables.markdown(columns, load_comparison_report.body(compared)), "", *load_comparison_report.sentences(compared)]
        found += _block(compared, f"comparison {number}", lines)
    return found


def _block(load: LoadRun | LoadComparison, name: str, lines: list[str]) -> list[str]:
    origin = f"python3 {shlex.join(load.command)} @ {revision(load.tool.commit, load.tool.dirty)}"
    return marked(name, origin, lines) if lines else []


def _limits(load: LoadRun) -> list[str]:
    found = load_findings.limits(load)
    columns = ["scenario", "limited by", "server's CPU, of both sides'>", "of that in the kernel>", "server, of a processor>", "client thread, used or ready, of a processor>"]
    body = [[one.scenario, one.words, *map(_share, (one.server_share, one.kernel_share, one.server_processors, one.client_thread_demand))] for one in found]
    return ["## What limits it", "", *tables.markdown(columns, body)] if found else []


def _share(share: float | None) -> str:
    return figures.NOT_MEASURED if share is None else figures.percent(share)


def _beside(source: Source, load: LoadRun) -> list[str]:
    found = load_findings.steps(load, source.run)
    if not found:
        return []
    columns = ["scenario", "operation", "ladder's highest rung, server CPU>", "under load: server CPU>", "waited, mean>", "of that the client was late>", "service, mean>", "of that in the server>"]
    likeness = load.machine.likeness(source.run.machine)
    unlike = [] if likeness.alike else [f"**The ladder's figures are left out: {likeness.words}.**", ""]
    return ["## Micro against load", "", _BESIDE, "", *unlike, *tables.markdown(columns, [_line(step) for step in found])]


def _line(step: Step) -> list[str]:
    rung = f"{step.request}: {_time(step.rung_ns)}" if step.request else "no such request"
    own = "of several operations" if step.own_ns is None else figures.time(step.own_ns)
    waited = "closed loop" if step.waited_ns is None else figures.added_time(step.waited_ns)
    lag = "" if step.waited_ns is None else _time(step.send_lag_ns)
    cpu = "of several operations" if step.server_cpu_ns is None else _time(step.server_cpu_ns)
    return [step.scenario, step.operation, rung, cpu, waited, lag, figures.time(step.service_ns), own]


def _time(nanoseconds: float | None) -> str:
    return figures.time(nanoseconds) if nanoseconds is not None else figures.NOT_MEASURED
