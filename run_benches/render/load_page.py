"""The page of a load test: what did not run first, then whether to believe the rest, then the figures of each scenario.

Why in this order: who reads a throughput before its validity has read it already. Every figure is one that the load
tool stored, or a quotient of two of them whose name says of what; a quantile that may not be told has no number.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from run_benches.analysis import figures, load_figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.load_figures import Measured
from run_benches.render import load_pictures, markdown
from run_benches.render.pictures import Picture
from run_benches.render.source import PICTURES, revision
from run_benches.stats import estimates
from run_benches.store.loads import Judged, LoadResult, LoadRun, Operation, Statistics

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.995, 0.999)

SPREAD_QUANTILES = (0.5, 0.99)
"""Those whose spread between repeats is shown."""

QUOTA_QUANTILES = (0.99, 0.995, 0.999)
"""Those of the published test of quotas, beside the median."""

PERIOD_SECONDS = 0.1
"""In which the kernel gives a quota (`PERIOD_US` in load/src/quota.rs)."""

MESSAGE_QUANTILES = (0.5, 0.95, 0.99)
"""Those of the way of a message."""

BEYOND = "> max"
"""The words for a quantile that is later than any request that was measured."""

TOO_FEW = "too few"
"""The words for a quantile that fewer than ten requests are beyond; the table is wide."""

_SPREAD = "In brackets the spread between repeats, each of processes of its own; of one process there is none to show."

_QUOTAS = (
    "Medians of the repeats. Per CPU is by the limit; operations of a mix share it. In a period of 100 ms that is throttled the server had used"
    f" up its share. `{TOO_FEW}: n`: fewer than ten of the n requests lie beyond that quantile."
)

_SERVERS = (
    "The same requests at the same rate, over one database on this machine, which shares the processors with all of them. Beside one server: the ratio"
    " to it in the same repeat, with its interval of 95 % where there are at least six."
)

_LEGEND = f"`{TOO_FEW}`: fewer than ten requests lie beyond that quantile. `{BEYOND}`: it is later than any that was measured, since requests were dropped or censored."


def page(run: LoadRun, drawn: Sequence[Picture]) -> str:
    """The page as Markdown."""
    identity = run.machine.identity
    lines = [
        f"# Load tests of {run.started[:10]}",
        "",
        (
            f"Revision {revision(run.tool.commit, run.tool.dirty)}, begun {run.started}, {figures.time(run.seconds * 1e9)} in all, on {identity.get('cpu_model')} with "
            f"{figures.plural(int(identity.get('cores', 0)), 'core')}; a server that the load tool started shares it with the client. Made by `{' '.join(run.command)}`."
        ),
        "",
        *body(run, drawn),
    ]
    return "\n".join(lines) + "\n"


def body(run: LoadRun, drawn: Sequence[Picture]) -> list[str]:
    """All that the page says of the figures, without its title."""
    lines = [*_not_run(run), *_validity(run), *_cpu(run, drawn), *_servers(run), *_quotas(run)]
    for number, one in enumerate(load_figures.measured(run), start=1):
        lines += _scenario(one, [picture for picture in drawn if picture.name.startswith(f"load-{number}-")])
    return lines


def _not_run(run: LoadRun) -> list[str]:
    missing = load_figures.not_run(run)
    lines = [f"* **{name}**: {why}" for name, why in missing] or [
        "Nothing: every scenario and every operation that was planned was run."
    ]
    interrupted = [] if run.complete else ["", "The run was interrupted."]
    return ["## What was not run", "", *lines, *interrupted, ""]


def _validity(run: LoadRun) -> list[str]:
    body: dict[tuple[str, ...], list[int]] = {}
    for name, cell in run.scenarios.items():
        result = cell.read()
        validity = result.validity.replace("_", " ") if result else cell.state.replace("_", " ")
        rules = "; ".join(result.broken) or "none" if result else ""
        outcomes = (
            "; ".join(f"{_objective(judged)}: **{judged.outcome.replace('_', ' ')}**" for judged in result.objectives)
            if result
            else ""
        )
        line = (
            load_figures.shared_name(name, result),
            f"**{validity}**",
            rules,
            outcomes or ("none declared" if result else figures.NOT_RUN),
        )
        body.setdefault(line, []).append(result.scenario.repeat or 1 if result else 1)
    names = Counter(name for name, *_ in body)
    lines = [
        [f"{name}, repeat {', '.join(map(str, repeats))}" if names[name] > 1 else name, *rest]
        for (name, *rest), repeats in body.items()
    ]
    explained = (
        "`valid`: all rules hold. `client bound`: the client was the bottleneck, so the throughput is a lower bound, or was late in the tail, which is then its own. `quota not binding`: the server did not use what it "
        "was given, so the figures are not those of that quota. `inconclusive`: it ended before "
        "it had measured what was planned. `invalid`: a rule is broken, and the figures below are shown only to say why."
    )
    return [
        "## Whether to believe it",
        "",
        *markdown.table(["scenario", "validity", "broken rules", "objectives"], lines),
        "",
        explained,
        "",
    ]


def _objective(judged: Judged) -> str:
    objective = judged.objective
    ((kind, limits),) = objective["bound"].items()
    words, shown = _bound(kind, limits)
    stage = f"stage {objective['stage']}" if "stage" in objective else ""
    of = (
        objective.get("operation")
        or stage
        or " and ".join(one.replace("_", " ") for one in objective.get("classes", []))
    )
    measured = "nothing measured" if judged.measured is None else f"measured {shown(judged.measured)}"
    return f"{of}: {words}, {measured}" if of else f"{words}, {measured}"


def _bound(kind: str, limits: Any) -> tuple[str, Callable[[float], str]]:
    """A bound of the load tool in words, and how what was measured of it is shown."""
    match kind:
        case "throughput_at_least":
            return f"at least {figures.round_amount(limits)} right answers a second", figures.amount
        case "failures_at_most":
            return f"at most {limits * 100:g} % of requests without a right answer", figures.percent
        case "response":
            return f"p{limits['quantile'] * 100:g} at most {limits['at_most_ms']:g} ms", _milliseconds
        case "lag":
            return (
                f"p{limits['quantile'] * 100:g} from an append or a message to each subscriber at most {limits['at_most_ms']:g} ms",
                _milliseconds,
            )
        case "last_lag":
            return (
                f"p{limits['quantile'] * 100:g} from a message to its last subscriber at most {limits['at_most_ms']:g} ms",
                _milliseconds,
            )
        case "refused_at_least":
            return f"at least {limits * 100:g} % refused", figures.percent
        case "refused_at_most":
            return f"at most {limits * 100:g} % refused", figures.percent
        case "goodput":
            # A number in results of before.
            stages = " and ".join(map(str, limits.get("of_stages") or [limits["of_stage"]]))
            return (
                f"at least {limits['at_least'] * 100:g} % of the right answers a second of stage {stages}",
                figures.percent,
            )
        case "growth":
            return f"growth of {limits['of']} at most {limits['at_most'] * 100:g} %", figures.percent
        case _:
            return kind.replace("_", " "), figures.amount


def _milliseconds(value: float) -> str:
    return figures.time(value * 1e6)


def _cpu(run: LoadRun, drawn: Sequence[Picture]) -> list[str]:
    body = [_used(one) for one in load_figures.measured(run)]
    if not body:
        return []
    columns = [
        "scenario",
        "validity",
        "offered/s>",
        "right answers/s>",
        "server CPU per right answer>",
        "client CPU per right answer>",
        "right answers per CPU second of the server>",
        "client thread, used or ready>",
    ]
    pictures = [f"![{picture.alt}]({PICTURES}/{picture.file})" for picture in drawn if picture.name == "load-cpu"]
    return ["## Throughput and CPU", "", _SPREAD, "", *markdown.table(columns, body), "", *pictures, ""]


def _used(measured: Measured) -> list[str]:
    results = measured.results
    validity = ", ".join(dict.fromkeys(result.validity.replace("_", " ") for result in results))
    bound = ">= " if any(map(load_figures.client_limited, results)) else ""
    server, client = (
        [found for result in results if (found := of(result)) is not None]
        for of in (load_figures.server_cpu_ns, load_figures.client_cpu_ns)
    )
    demand = max(
        max(result.processes.client_thread_demand, result.processes.busiest_client_thread) for result in results
    )
    return [
        *(
            measured.name,
            validity,
            _offered(measured.first),
            bound + _spread([result.throughput for result in results], figures.amount_spread),
        ),
        *(
            _spread(server, figures.time_spread),
            _spread(client, figures.time_spread),
            _spread([1e9 / found for found in server], figures.amount_spread),
        ),
        figures.percent(demand),
    ]


def _servers(run: LoadRun) -> list[str]:
    """Returns the section on what a request costs servers over one database, and the database: beside one server in the
    same repeat, since they take turns."""
    found = [one for one in load_figures.measured(run) if one.first.scenario.data.storage]
    body = [
        _of_servers(
            one, next(first for first in found if first.first.scenario.data.storage == one.first.scenario.data.storage)
        )
        for one in found
    ]
    if not body:
        return []
    columns = [
        "scenario",
        "servers>",
        "database",
        "repeats>",
        "CPU of the servers per right answer>",
        "beside one server>",
        "CPU of the database per right answer>",
        "beside one server>",
    ]
    return ["## Servers over one database", "", _SERVERS, "", *markdown.table(columns, body), ""]


def _of_servers(measured: Measured, alone: Measured) -> list[str]:
    def beside(of: Callable[[LoadResult], float | None]) -> str:
        both = zip(map(of, measured.results), map(of, alone.results))
        ratio = estimates.ratio([one / other for one, other in both if one and other])
        return (
            ""
            if measured is alone
            else figures.NOT_RUN
            if ratio is None
            else figures.ratio(ratio.middle, ratio.low, ratio.high)
        )

    told = [*measured.first.brokers[:1]]
    cells = []
    for of in (load_figures.server_cpu_ns, load_figures.database_cpu_ns):
        cells += [
            _spread([value for result in measured.results if (value := of(result)) is not None], figures.time_spread),
            beside(of),
        ]
    database = f"{told[0].program} {told[0].version}" if told else figures.NOT_RUN
    return [measured.name, str(measured.first.scenario.load.servers), database, str(len(measured.results)), *cells]


def _quotas(run: LoadRun) -> list[str]:
    """Each operation under each limit of the server, in the columns of the published test; how much of the limit was
    used stands beside them."""
    body = [
        _of_quota(one, cell.operation)
        for one in load_figures.measured(run)
        if one.first.quota
        for cell in one.first.cells
    ]
    if not body:
        return []
    columns = [
        "scenario",
        "repeats>",
        "limit, of a processor>",
        "operation",
        "ok/s>",
        "ok/s per CPU>",
        "p50>",
        "mean>",
        "deviation>",
    ]
    columns += [
        *(f"p{quantile * 100:g}>" for quantile in QUOTA_QUANTILES),
        "failed>",
        "share used>",
        "throttled periods>",
    ]
    return ["## Under quotas", "", _QUOTAS, "", *markdown.table(columns, body), ""]


def _of_quota(measured: Measured, name: str) -> list[str]:
    results, limit = measured.results, measured.first.scenario.load.server_cpus
    assert limit
    cells = [cell for result in results for cell in result.cells if cell.operation == name]
    rate = median([cell.counts.ok / result.window.seconds for result, cell in zip(results, cells, strict=True)])
    found: list[Statistics] = [one for cell in cells if (one := getattr(cell, load_pictures.kind_of(measured.first)))]
    times = [
        figures.time(median(values)) if values else figures.NOT_RUN
        for values in ([one.mean for one in found], [one.standard_deviation for one in found])
    ]
    used = [
        result.processes.server.seconds / result.window.seconds / limit for result in results if result.processes.server
    ]
    throttled = [result.quota.throttled_periods for result in results if result.quota]
    periods = sum(result.window.seconds for result in results) / PERIOD_SECONDS
    return [
        *(measured.name, str(len(results)), f"{limit:g}", name, figures.amount(rate), figures.amount(rate / limit)),
        *(_median_of(found, 0.5), *times, *(_median_of(found, quantile) for quantile in QUOTA_QUANTILES)),
        *(
            str(sum(sum(cell.counts.failed.values()) for cell in cells)),
            figures.percent(median(used)) if used else figures.NOT_MEASURED,
        ),
        figures.NOT_MEASURED if None in throttled else f"{sum(filter(None, throttled))} of {periods:.0f}",
    ]


def _median_of(found: Sequence[Statistics], quantile: float) -> str:
    """A quantile, the median of all repeats; or the numbers of requests that are too few to tell it."""
    values = [value for one in found if (value := load_figures.at(one, quantile)[1]) is not None]
    told = {text for one in found if (text := _quantile(one, quantile)) in (TOO_FEW, BEYOND)}
    if TOO_FEW in told:
        return f"{TOO_FEW}: {', '.join(str(one.count) for one in found)}"
    return BEYOND if told else figures.time(median(values)) if values else figures.NOT_RUN


def _spread(values: Sequence[float], shown: Callable[[Spread], str]) -> str:
    found = figures.spread(values)
    return shown(found) if found else figures.NOT_RUN


def _offered(result: LoadResult) -> str:
    seconds = result.window.arrivals_seconds
    return figures.amount(result.total.scheduled / seconds) if result.loop == "open" and seconds else "closed loop"


def _scenario(measured: Measured, drawn: Sequence[Picture]) -> list[str]:
    name, result = measured.name, measured.first
    load = result.scenario.load
    offered = load.schedule
    how = (
        "an open loop: response times run from when a request should have started"
        if offered
        else "a closed loop: service times alone, from the start of each request"
    )
    said = f"{result.scenario.about or name}. {how[0].upper()}{how[1:]}. {figures.plural(load.connections, 'connection')}, window of {figures.time(result.window.seconds * 1e9)}"
    kind = load_pictures.kind_of(result)
    columns = [
        "operation",
        "ok>",
        "ok/s>",
        "min>",
        "mean>",
        "deviation>",
        *(f"p{quantile * 100:g}>" for quantile in QUANTILES),
        "max>",
        "body bytes/s>",
    ]
    cells = [cell for cell in result.cells if cell.state == "ran"]
    body = [_operation(cell, kind, result.window.seconds) for cell in cells]
    pictures = [line for picture in drawn for line in (f"![{picture.alt}]({PICTURES}/{picture.file})", "")]
    table = [*markdown.table(columns, body), "", _LEGEND, "", *_repeats(measured, kind)]
    of_streams = [*_events(result), *_stages(result), *_deliveries(result), *_multicasts(result), *_promises(result)]
    return [
        f"## {name}",
        "",
        f"{said}.",
        "",
        *table,
        *pictures,
        *_accounts(cells, result),
        *_failures(cells),
        "",
        *of_streams,
    ]


def _events(result: LoadResult) -> list[str]:
    """Events of a stream apart from requests; CPU for each of them, where all requests append."""
    of = {operation.name: operation.events for operation in result.scenario.operations}
    counted = [
        (cell, events) for cell in result.cells if cell.state == "ran" and (events := of[cell.operation]) is not None
    ]
    if not counted:
        return []
    body = [
        [
            cell.operation,
            figures.amount(cell.counts.ok / result.window.seconds),
            figures.amount(cell.counts.ok * events / result.window.seconds),
        ]
        for cell, events in counted
    ]
    lines = [
        "Events that were acknowledged:",
        "",
        *markdown.table(["operation", "requests/s>", "events/s>"], body),
        "",
    ]
    server, total = (
        result.processes.server_throughout or result.processes.server,
        sum(cell.counts.ok * events for cell, events in counted),
    )
    if len(counted) < len(result.cells) or server is None or not total:
        return lines
    both = f"CPU for each event: server {figures.time(server.seconds / total * 1e9)}, client {figures.time(result.processes.client.seconds / total * 1e9)}."
    return [*lines, both, ""]


def _stages(result: LoadResult) -> list[str]:
    if not result.stages:
        return []
    body = []
    for number, (declared, stage) in enumerate(zip(result.scenario.load.stages, result.stages, strict=True), start=1):
        total, service = stage.total, stage.cells[0].service if len(stage.cells) == 1 else None
        counts = (total.sent, total.ok, total.refused, sum(total.failed.values()), total.censored)
        quantiles = [_quantile(service, quantile) for quantile in SPREAD_QUANTILES]
        body.append(
            [
                str(number),
                str(declared["users"]),
                figures.time(stage.window.seconds * 1e9),
                figures.amount(stage.throughput),
                *map(str, counts),
                *quantiles,
            ]
        )
    columns = [
        "stage>",
        "users>",
        "window>",
        "ok/s>",
        "sent>",
        "ok>",
        "refused>",
        "failed>",
        "censored>",
        *(f"p{quantile * 100:g}>" for quantile in SPREAD_QUANTILES),
    ]
    return ["Stages, one after the other on one server:", "", *markdown.table(columns, body), ""]


def _deliveries(result: LoadResult) -> list[str]:
    if result.subscribers is None:
        return []
    body = []
    for declared, kind in zip(result.scenario.subscribers, result.subscribers.kinds, strict=True):
        counts = (declared["count"], kind.due, kind.lag.count if kind.lag else 0, kind.missing, kind.repeated)
        body.append(
            [
                f"`{declared['path']}`",
                *map(str, counts),
                *(_quantile(kind.lag, quantile) for quantile in SPREAD_QUANTILES),
                _latest(kind.lag),
            ]
        )
    columns = [
        "subscribers",
        "number>",
        "events due>",
        "samples>",
        "missing>",
        "repeated>",
        *(f"p{quantile * 100:g}>" for quantile in SPREAD_QUANTILES),
        "max>",
    ]
    return [
        "Deliveries, from the intended start of an append to each subscriber:",
        "",
        *markdown.table(columns, body),
        "",
    ]


def _multicasts(result: LoadResult) -> list[str]:
    """Messages as their subscribers received them, over all and by the number of their targets."""
    found = result.multicasts
    if found is None:
        return []
    counts = {
        name: str(getattr(found, name))
        for name in ("targets", "received", "lost", "doubled", "stray", "absent", "pending", "failed", "unanswered")
    }
    server = result.processes.server
    cpu = figures.time(server.seconds / found.received * 1e9) if server and found.received else figures.NOT_RUN
    rate = figures.amount(found.received / result.window.seconds)
    columns = ["messages>", *(f"{name}>" for name in counts), "deliveries/s>", "server CPU per delivery>"]
    lags = [
        ("each", found.answered, found.received, found.lag),
        ("the last", found.answered, found.received, found.last_lag),
    ]
    beyond = found.by_fan_out[-2].up_to if len(found.by_fan_out) > 1 else None
    for of in found.by_fan_out:
        targets = (
            f"of up to {of.up_to} targets"
            if of.up_to is not None
            else "of more targets"
            if beyond is None
            else f"of more than {beyond} targets"
        )
        lags.append((f"the last {targets}", of.answered, of.received, of.last_lag))
    times = [
        [
            to,
            str(answered),
            str(received),
            figures.time(lag.mean) if lag else figures.NOT_RUN,
            *(_quantile(lag, at) for at in MESSAGE_QUANTILES),
            _latest(lag),
        ]
        for to, answered, received, lag in lags
    ]
    return [
        *(
            "Messages, counted where they arrive: the targets are those of the answers, received is what subscribers have.",
            "",
        ),
        *markdown.table(columns, [[str(found.answered), *counts.values(), rate, cpu]]),
        *("", "From the intended start of a request to the arrival of its message (lag):", ""),
        *markdown.table(
            ["to", "messages>", "received>", "mean>", *(f"p{at * 100:g}>" for at in MESSAGE_QUANTILES), "max>"], times
        ),
        "",
    ]


_PROMISES = {
    "gapless": "S1: offsets without a gap",
    "in_place": "S2: acknowledged events at their offsets, byte for byte",
    "in_order": "S3: events of a user in their order",
    "whole": "S4: requests all or nothing",
    "keys_once": "S5: idempotency keys once",
    "offsets_once": "T13: offsets acknowledged once",
    "sent": "T13: events that somebody sent",
}


def _promises(result: LoadResult) -> list[str]:
    if result.promises is None:
        return []
    body = [
        [words, str(kept.checked), str(kept.wrong)]
        for name, words in _PROMISES.items()
        if (kept := result.promises.get(name))
    ]
    kills = (
        [
            f"The server was killed {figures.plural(len(result.kills), 'time')}, with {', '.join(map(str, result.kills))} requests in flight.",
            "",
        ]
        if result.kills
        else []
    )
    return [
        *kills,
        "What was read back after the window, held against what was acknowledged:",
        "",
        *markdown.table(["promise", "checked>", "wrong>"], body),
        "",
    ]


def _repeats(measured: Measured, kind: str) -> list[str]:
    if len(measured.results) == 1:
        return []
    body = []
    for name in (cell.operation for cell in measured.first.cells):
        pairs = [(result, cell) for result in measured.results for cell in result.cells if cell.operation == name]
        found: list[Statistics] = [one for _, cell in pairs if (one := getattr(cell, kind))]
        rates = _spread([cell.counts.ok / result.window.seconds for result, cell in pairs], figures.amount_spread)
        body.append(
            [
                name,
                rates,
                _spread([one.mean for one in found], figures.time_spread),
                *(_quantile_spread(found, quantile) for quantile in SPREAD_QUANTILES),
            ]
        )
    columns = ["operation", "ok/s>", "mean>", *(f"p{quantile * 100:g}>" for quantile in SPREAD_QUANTILES)]
    words = f"The table above is of the first of {len(measured.results)} repeats, each of processes of its own. Of all of them, the median (least to most):"
    return [words, "", *markdown.table(columns, body), ""]


def _quantile_spread(found: Sequence[Statistics], quantile: float) -> str:
    values = [value for one in found if (value := load_figures.at(one, quantile)[1]) is not None]
    unknown = {text for one in found if (text := _quantile(one, quantile)) in (TOO_FEW, BEYOND)}
    return ", ".join(sorted(unknown)) or _spread(values, figures.time_spread)


def _operation(cell: Operation, kind: str, seconds: float) -> list[str]:
    found: Statistics | None = getattr(cell, kind)
    times = (
        [figures.time(value) for value in (found.min, found.mean, found.standard_deviation)]
        if found
        else [figures.NOT_RUN] * 3
    )
    received = figures.rate(1e9 * seconds / cell.body_bytes_received, "bytes") if cell.body_bytes_received else "0 B/s"
    quantiles = [_quantile(found, quantile) for quantile in QUANTILES]
    return [
        cell.operation,
        str(cell.counts.ok),
        figures.amount(cell.counts.ok / seconds),
        *times,
        *quantiles,
        _latest(found),
        received,
    ]


def _latest(found: Statistics | None) -> str:
    if found is None:
        return figures.NOT_RUN
    return f"{BEYOND} ({figures.time(found.max)})" if found.beyond else figures.time(found.max)


def _quantile(found: Statistics | None, quantile: float) -> str:
    told, value = load_figures.at(found, quantile)
    if not told:
        return TOO_FEW if found else figures.NOT_RUN
    return BEYOND if value is None else figures.time(value)


def _accounts(cells: Sequence[Operation], result: LoadResult) -> list[str]:
    weights = {operation.name: operation.weight for operation in result.scenario.operations}
    refuses = result.total.refused > 0
    columns = [
        "operation",
        "share, declared>",
        "share, realised>",
        "scheduled>",
        "dropped>",
        "sent>",
        "ok>",
        *(["refused>"] if refuses else []),
        "failed>",
        "censored>",
    ]
    rows = [(cell.operation, cell.counts) for cell in cells]
    shares = [
        (weights[name] / sum(weights.values()), one.scheduled / max(1, result.total.scheduled)) for name, one in rows
    ]
    body = [
        [
            name,
            *map(figures.percent, of),
            *map(
                str,
                (
                    one.scheduled,
                    one.dropped,
                    one.sent,
                    one.ok,
                    *([one.refused] if refuses else []),
                    sum(one.failed.values()),
                    one.censored,
                ),
            ),
        ]
        for (name, one), of in zip(rows, shares, strict=True)
    ]
    return ["What became of every request:", "", *markdown.table(columns, body), ""]


def _failures(cells: Sequence[Operation]) -> list[str]:
    body = []
    for cell in cells:
        for failure, number in cell.counts.failed.items():
            took = cell.failed_service.get(failure)
            times = [figures.time(took.mean), figures.time(took.max)] if took else [figures.NOT_RUN] * 2
            body.append([cell.operation, failure, str(number), figures.percent(number / cell.counts.sent), *times])
    if not body:
        return ["No request failed."]
    return [
        "Failures by class:",
        "",
        *markdown.table(["operation", "class", "requests>", "of those sent>", "mean>", "max>"], body),
    ]
