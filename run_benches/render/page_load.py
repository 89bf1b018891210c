"""The page of the performance document about load tests: of the stored run of each scenario, or the word that there is
none.

Why no figure of it stands elsewhere: a load test is of a client and a server on one machine, and everything else in the
document is of benches inside one process. Side by side they stand in one table, which says what each is.
"""

from collections.abc import Sequence

from run_benches.analysis import figures, load_findings
from run_benches.analysis.load_findings import LoadFindings
from run_benches.render import load_comparison_report, load_pictures, load_report, markdown, page_ladder
from run_benches.render.source import Source, Stored, marked, origin, told_by

NAME = "load"

_WORDS = (
    "What the whole server does over HTTP, client and server on one machine; `docs/load-tests.md` says how. The benches of the"
    " other pages say what a layer costs; here requests queue, and a client has to keep up."
)

_IN_TURNS = (
    "Differences are told of what took turns alone: two servers, each with its own data, in short windows, and pair after pair of new servers."
    " A change is B's figure over A's."
)

_BESIDE = (
    "The ladder's highest rung is one request after the other over HTTP, told by the server's CPU, in the runs of benches that the other pages are of."
    " Under load an answer waits for a connection and for the client before it starts, and for a processor, the network stack and the client"
    " while it is served. Means over the same requests: response = waited + service. What the server says itself is from the head of a request"
    " to its answer; the rest of the service is TLS, the network stack and the client."
)


def page(source: Source) -> list[str]:
    """The page."""
    head, turns = [f"# {NAME}", "", _WORDS, ""], _turns(source)
    if not source.loads:
        return [*head, *marked(NAME, "no stored load test", [figures.NOT_MEASURED]), *turns]
    found, measured = load_findings.together(source.loads), list(source.loads.values())
    blocks = [
        *_block(measured, "limits", _limits(found)),
        *turns,
        *_block(measured, "micro against load", _beside(source)),
        *_block(measured, NAME, load_report.body(found, load_pictures.pictures(found))),
    ]
    return [*head, *blocks]


def measured(source: Source) -> list[str]:
    """When, at which revision and on which machine the scenarios and comparisons were measured, and whether the code
    has changed since."""
    found: list[tuple[str, Stored, bool | None]] = []
    for name, run in source.loads.items():
        found.append((name, run, source.stale.get(f"load {name}", False)))
    for name, compared in source.compared.items():
        what = f"comparison {name}"
        found.append((what, compared, source.stale.get(what, False)))
    return _block([run for _, run, _ in found], "measured", told_by(found)) if found else []


def _turns(source: Source) -> list[str]:
    """The comparisons that were kept: what differs between two loads, or two servers, that took turns."""
    found = ["## In turns", "", _IN_TURNS, ""] if source.compared else []
    for name, compared in source.compared.items():
        told = load_comparison_report.section(compared)
        lines = [f"### {told.title}", "", *markdown.table(told.columns, told.body), "", *told.sentences]
        found += _block([compared], f"comparison {name}", lines)
    return found


def _block(measured: Sequence[Stored], name: str, lines: list[str]) -> list[str]:
    return marked(name, origin(measured), lines) if lines else []


def _limits(found: LoadFindings) -> list[str]:
    columns = [
        "scenario",
        "limited by",
        "server's CPU, of both sides'>",
        "of that in the kernel>",
        "server, of a processor>",
        "client thread, used or ready, of a processor>",
    ]
    body = []
    for one in found.limits:
        shares = (one.server_share, one.kernel_share, one.server_processors, one.client_thread_demand)
        told = [figures.NOT_MEASURED if share is None else figures.percent(share) for share in shares]
        body.append([one.scenario, one.words, *told])
    return ["## What limits it", "", *markdown.table(columns, body)] if body else []


def _beside(source: Source) -> list[str]:
    ladder = source.of(page_ladder.LAYER).found
    body: list[list[str]] = []
    unlike: dict[str, None] = {}
    for tested in source.loads.values():
        for step in tested.steps(ladder):
            of_several = "of several operations"
            told = [
                step.scenario,
                step.operation,
                f"{step.request}: {_time(step.rung_ns)}" if step.request else "no such request",
                _time(step.server_cpu_ns, of_several),
                "closed loop" if step.waited_ns is None else figures.added_time(step.waited_ns),
                "" if step.waited_ns is None else _time(step.send_lag_ns),
                figures.time(step.service_ns),
                _time(step.own_ns, of_several),
            ]
            body.append(told)
        likeness = tested.machine.likeness(ladder.machine)
        if not likeness.alike:
            unlike[likeness.words] = None
    if not body:
        return []
    columns = [
        "scenario",
        "operation",
        "ladder's highest rung, server CPU>",
        "under load: server CPU>",
        "waited, mean>",
        "of that the client was late>",
        "service, mean>",
        "of that in the server>",
    ]
    left_out = [f"**The ladder's figures are left out: {'; '.join(unlike)}.**", ""] if unlike else []
    return ["## Micro against load", "", _BESIDE, "", *left_out, *markdown.table(columns, body)]


def _time(nanoseconds: float | None, without: str = figures.NOT_MEASURED) -> str:
    return without if nanoseconds is None else figures.time(nanoseconds)
