"""A load test in words: a line for each scenario on the terminal, and its page. That has what did not run first, then
whether to believe the rest, then the figures of each scenario.

Why in this order: who reads a throughput before its validity has read it already. Every figure is one that the load
tool stored, or a quotient of two of them whose name says of what; a quantile that may not be told has no number.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from run_benches.analysis import figures, load_figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.load_findings import LoadFindings, Measured
from run_benches.render import cells, load_pictures, markdown
from run_benches.render.pictures import Picture
from run_benches.render.section import Section
from run_benches.render.source import PICTURES, revision
from run_benches.stats import estimates
from run_benches.store.loads import Judged, LoadResult, Operation, Statistics

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


def on_terminal(found: LoadFindings) -> Section:
    """A line for each scenario, or each repeat of one: whether to believe it, and the figures that most people come
    for."""
    body = []
    for one in found.outcomes:
        told, why = [cells.words(one.state), "", "", ""], "; ".join(one.reasons)
        if result := one.result:
            each = load_figures.server_cpu_ns(result)
            told = [
                cells.words(result.validity),
                load_figures.throughput(result),
                figures.time(each) if each else "",
                ", ".join(cells.words(judged.outcome) for judged in result.objectives),
            ]
        body.append([one.name, *told, why])
    return Section(
        "load tests",
        [],
        ["scenario", "state", "ok/s>", "server CPU per right answer>", "objectives", "why"],
        body,
    )


def page(found: LoadFindings, drawn: Sequence[Picture]) -> str:
    """The page as Markdown."""
    identity = found.machine.identity
    lines = [
        f"# Load tests of {found.started[:10]}",
        "",
        (
            f"Revision {revision(found.tool.commit, found.tool.dirty)}, begun {found.started}, {figures.time(found.seconds * 1e9)} in all, on {identity.get('cpu_model')} with "
            f"{figures.plural(int(identity.get('cores', 0)), 'core')}; a server that the load tool started shares it with the client. Made by `{' '.join(found.command)}`."
        ),
        "",
        *body(found, drawn),
    ]
    return "\n".join(lines) + "\n"


def body(found: LoadFindings, drawn: Sequence[Picture]) -> list[str]:
    """All that the page says of the figures, without its title."""
    missing = [f"* **{name}**: {why}" for name, why in found.not_run]
    missing = missing or ["Nothing: every scenario and every operation that was planned was run."]
    missing += [] if found.complete else ["", "The run was interrupted."]
    lines = ["## What was not run", "", *missing, ""]
    lines += [*_validity(found), *_cpu(found, drawn), *_servers(found), *_quotas(found)]
    for number, one in enumerate(found.measured, start=1):
        lines += _scenario(one, [picture for picture in drawn if picture.name.startswith(f"load-{number}-")])
    return lines


def _validity(found: LoadFindings) -> list[str]:
    repeats: dict[tuple[str, ...], list[int]] = {}
    for one in found.outcomes:
        result = one.result
        told = [cells.words(one.state), "", figures.NOT_RUN]
        if result:
            outcomes = [f"{_objective(judged)}: **{cells.words(judged.outcome)}**" for judged in result.objectives]
            told = [
                cells.words(result.validity),
                "; ".join(result.broken) or "none",
                "; ".join(outcomes) or "none declared",
            ]
        validity, *rest = told
        line = (one.shared_name, f"**{validity}**", *rest)
        repeats.setdefault(line, []).append(result.scenario.repeat or 1 if result else 1)
    names = Counter(name for name, *_ in repeats)
    body = [
        [f"{name}, repeat {', '.join(map(str, numbers))}" if names[name] > 1 else name, *rest]
        for (name, *rest), numbers in repeats.items()
    ]
    explained = (
        "`valid`: all rules hold. `client bound`: the client was the bottleneck, so the throughput is a lower bound, or was late in the tail, which is then its own. `quota not binding`: the server did not use what it "
        "was given, so the figures are not those of that quota. `inconclusive`: it ended before "
        "it had measured what was planned. `invalid`: a rule is broken, and the figures below are shown only to say why."
    )
    table = markdown.table(["scenario", "validity", "broken rules", "objectives"], body)
    return ["## Whether to believe it", "", *table, "", explained, ""]


def _objective(judged: Judged) -> str:
    objective = judged.objective
    ((kind, limits),) = objective["bound"].items()
    words, shown = _bound(kind, limits)
    stage = f"stage {objective['stage']}" if "stage" in objective else ""
    of = objective.get("operation") or stage or " and ".join(map(cells.words, objective.get("classes", [])))
    measured = "nothing measured" if judged.measured is None else f"measured {shown(judged.measured)}"
    return f"{of}: {words}, {measured}" if of else f"{words}, {measured}"


def _bound(kind: str, limits: Any) -> tuple[str, Callable[[float], str]]:
    """A bound of the load tool in words, and how what was measured of it is shown."""
    match kind:
        case "throughput_at_least":
            return f"at least {figures.round_amount(limits)} right answers a second", figures.amount
        case "failures_at_most":
            return f"at most {limits * 100:g} % of requests without a right answer", figures.percent
        case "response" | "lag" | "last_lag":
            way = {
                "response": "",
                "lag": " from an append or a message to each subscriber",
                "last_lag": " from a message to its last subscriber",
            }[kind]
            return (
                f"p{limits['quantile'] * 100:g}{way} at most {limits['at_most_ms']:g} ms",
                lambda value: figures.time(value * 1e6),
            )
        case "refused_at_least" | "refused_at_most":
            return f"{cells.words(kind).removeprefix('refused ')} {limits * 100:g} % refused", figures.percent
        case "goodput":
            # A number in results of before.
            stages = " and ".join(map(str, limits.get("of_stages") or [limits["of_stage"]]))
            words = f"at least {limits['at_least'] * 100:g} % of the right answers a second of stage {stages}"
            return words, figures.percent
        case "growth":
            return f"growth of {limits['of']} at most {limits['at_most'] * 100:g} %", figures.percent
        case _:
            return cells.words(kind), figures.amount


def _cpu(found: LoadFindings, drawn: Sequence[Picture]) -> list[str]:
    body = [_used(one) for one in found.measured]
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
    return ["## Throughput and CPU", "", *_table(_SPREAD, columns, body), *pictures, ""]


def _table(words: str, columns: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A table below its words."""
    return [words, "", *markdown.table(columns, body), ""]


def _titles(quantiles: Sequence[float]) -> list[str]:
    return [f"p{quantile * 100:g}>" for quantile in quantiles]


def _used(measured: Measured) -> list[str]:
    results = measured.results
    validity = ", ".join(dict.fromkeys(cells.words(result.validity) for result in results))
    seconds, offered = measured.first.window.arrivals_seconds, "closed loop"
    if measured.first.loop == "open" and seconds:
        offered = figures.amount(measured.first.total.scheduled / seconds)
    bound = ">= " if any(map(load_figures.client_limited, results)) else ""
    server = [found for result in results if (found := load_figures.server_cpu_ns(result)) is not None]
    client = [found for result in results if (found := load_figures.client_cpu_ns(result)) is not None]
    demand = max(
        max(result.processes.client_thread_demand, result.processes.busiest_client_thread) for result in results
    )
    return [
        measured.name,
        validity,
        offered,
        bound + _spread([result.throughput for result in results], figures.amount_spread),
        _spread(server, figures.time_spread),
        _spread(client, figures.time_spread),
        _spread([1e9 / found for found in server], figures.amount_spread),
        figures.percent(demand),
    ]


def _servers(found: LoadFindings) -> list[str]:
    """Returns the section on what a request costs servers over one database, and the database: beside one server in the
    same repeat, since they take turns."""
    alone: dict[object, Measured] = {}
    body = []
    for one in found.measured:
        if storage := one.first.scenario.data.storage:
            body.append(_of_servers(one, alone.setdefault(storage, one)))
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
    return ["## Servers over one database", "", *_table(_SERVERS, columns, body)] if body else []


def _of_servers(measured: Measured, alone: Measured) -> list[str]:
    database = next((f"{one.program} {one.version}" for one in measured.first.brokers), figures.NOT_RUN)
    told = [measured.name, str(measured.first.scenario.load.servers), database, str(len(measured.results))]
    for of in (load_figures.server_cpu_ns, load_figures.database_cpu_ns):
        ours, others = (list(map(of, one.results)) for one in (measured, alone))
        ratio = estimates.ratio([one / other for one, other in zip(ours, others) if one and other])
        beside = figures.ratio(ratio.middle, ratio.low, ratio.high) if ratio else figures.NOT_RUN
        told.append(_spread([value for value in ours if value is not None], figures.time_spread))
        told.append("" if measured is alone else beside)
    return told


def _quotas(found: LoadFindings) -> list[str]:
    """Each operation under each limit of the server, in the columns of the published test; how much of the limit was
    used stands beside them."""
    body = [_of_quota(one, cell.operation) for one in found.measured if one.first.quota for cell in one.first.cells]
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
        *_titles(QUOTA_QUANTILES),
        "failed>",
        "share used>",
        "throttled periods>",
    ]
    return ["## Under quotas", "", *_table(_QUOTAS, columns, body)] if body else []


def _of_quota(measured: Measured, name: str) -> list[str]:
    results, limit = measured.results, measured.first.scenario.load.server_cpus
    assert limit
    pairs = [(result, cell) for result in results for cell in result.cells if cell.operation == name]
    rate = median([cell.counts.ok / result.window.seconds for result, cell in pairs])
    kind = load_pictures.kind_of(measured.first)
    found: list[Statistics] = [one for _, cell in pairs if (one := getattr(cell, kind))]
    times = [figures.NOT_RUN] * 2
    if found:
        times[0] = figures.time(median([one.mean for one in found]))
        times[1] = figures.time(median([one.standard_deviation for one in found]))
    used = [
        result.processes.server.seconds / result.window.seconds / limit for result in results if result.processes.server
    ]
    throttled = [result.quota.throttled_periods for result in results if result.quota]
    periods = sum(result.window.seconds for result in results) / PERIOD_SECONDS
    return [
        *(measured.name, str(len(results)), f"{limit:g}", name, figures.amount(rate), figures.amount(rate / limit)),
        *(_median_of(found, 0.5), *times, *(_median_of(found, quantile) for quantile in QUOTA_QUANTILES)),
        str(sum(sum(cell.counts.failed.values()) for _, cell in pairs)),
        figures.percent(median(used)) if used else figures.NOT_MEASURED,
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


def _scenario(measured: Measured, drawn: Sequence[Picture]) -> list[str]:
    name, result = measured.name, measured.first
    load = result.scenario.load
    how = "A closed loop: service times alone, from the start of each request"
    if load.schedule:
        how = "An open loop: response times run from when a request should have started"
    said = f"{result.scenario.about or name}. {how}. {figures.plural(load.connections, 'connection')}, window of {figures.time(result.window.seconds * 1e9)}"
    kind = load_pictures.kind_of(result)
    columns = [
        "operation",
        "ok>",
        "ok/s>",
        "min>",
        "mean>",
        "deviation>",
        *_titles(QUANTILES),
        "max>",
        "body bytes/s>",
    ]
    ran = [cell for cell in result.cells if cell.state == "ran"]
    body = []
    for cell in ran:
        found: Statistics | None = getattr(cell, kind)
        times = [figures.NOT_RUN] * 3
        if found:
            times = [figures.time(value) for value in (found.min, found.mean, found.standard_deviation)]
        rate, received = cell.counts.ok / result.window.seconds, "0 B/s"
        if cell.body_bytes_received:
            received = figures.rate(1e9 * result.window.seconds / cell.body_bytes_received, "bytes")
        quantiles = [_quantile(found, quantile) for quantile in QUANTILES]
        told = [cell.operation, str(cell.counts.ok), figures.amount(rate), *times, *quantiles]
        body.append([*told, _latest(found), received])
    lines = [f"## {name}", "", *_table(f"{said}.", columns, body), _LEGEND, "", *_repeats(measured, kind)]
    for picture in drawn:
        lines += [f"![{picture.alt}]({PICTURES}/{picture.file})", ""]
    lines += [*_accounts(ran, result), *_failures(ran), ""]
    of_streams = [*_events(result), *_stages(result), *_deliveries(result), *_multicasts(result), *_promises(result)]
    return lines + of_streams


def _events(result: LoadResult) -> list[str]:
    """Events of a stream apart from requests; CPU for each of them, where all requests append."""
    of = {operation.name: operation.events for operation in result.scenario.operations}
    body, total = [], 0
    for cell in result.cells:
        events = of[cell.operation] if cell.state == "ran" else None
        if events is not None:
            rates = [
                figures.amount(count / result.window.seconds) for count in (cell.counts.ok, cell.counts.ok * events)
            ]
            body.append([cell.operation, *rates])
            total += cell.counts.ok * events
    if not body:
        return []
    lines = _table("Events that were acknowledged:", ["operation", "requests/s>", "events/s>"], body)
    server = result.processes.server_throughout or result.processes.server
    if len(body) < len(result.cells) or server is None or not total:
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
        body.append(
            [
                str(number),
                str(declared["users"]),
                figures.time(stage.window.seconds * 1e9),
                figures.amount(stage.throughput),
                *map(str, counts),
                *(_quantile(service, quantile) for quantile in SPREAD_QUANTILES),
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
        *_titles(SPREAD_QUANTILES),
    ]
    return _table("Stages, one after the other on one server:", columns, body)


def _deliveries(result: LoadResult) -> list[str]:
    if result.subscribers is None:
        return []
    body = []
    for declared, kind in zip(result.scenario.subscribers, result.subscribers.kinds, strict=True):
        counts = (declared["count"], kind.due, kind.lag.count if kind.lag else 0, kind.missing, kind.repeated)
        quantiles = [_quantile(kind.lag, quantile) for quantile in SPREAD_QUANTILES]
        body.append([f"`{declared['path']}`", *map(str, counts), *quantiles, _latest(kind.lag)])
    columns = [
        "subscribers",
        "number>",
        "events due>",
        "samples>",
        "missing>",
        "repeated>",
        *_titles(SPREAD_QUANTILES),
        "max>",
    ]
    return _table("Deliveries, from the intended start of an append to each subscriber:", columns, body)


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
        targets = "more targets" if beyond is None else f"more than {beyond} targets"
        if of.up_to is not None:
            targets = f"up to {of.up_to} targets"
        lags.append((f"the last of {targets}", of.answered, of.received, of.last_lag))
    times = []
    for to, answered, received, lag in lags:
        mean = figures.time(lag.mean) if lag else figures.NOT_RUN
        quantiles = [_quantile(lag, at) for at in MESSAGE_QUANTILES]
        times.append([to, str(answered), str(received), mean, *quantiles, _latest(lag)])
    return [
        *_table(
            "Messages, counted where they arrive: the targets are those of the answers, received is what subscribers have.",
            columns,
            [[str(found.answered), *counts.values(), rate, cpu]],
        ),
        *_table(
            "From the intended start of a request to the arrival of its message (lag):",
            ["to", "messages>", "received>", "mean>", *_titles(MESSAGE_QUANTILES), "max>"],
            times,
        ),
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
    body = []
    for name, words in _PROMISES.items():
        if kept := result.promises.get(name):
            body.append([words, str(kept.checked), str(kept.wrong)])
    kills: list[str] = []
    if result.kills:
        in_flight = ", ".join(map(str, result.kills))
        times = figures.plural(len(result.kills), "time")
        kills = [f"The server was killed {times}, with {in_flight} requests in flight.", ""]
    words = "What was read back after the window, held against what was acknowledged:"
    return kills + _table(words, ["promise", "checked>", "wrong>"], body)


def _repeats(measured: Measured, kind: str) -> list[str]:
    if len(measured.results) == 1:
        return []
    body = []
    for name in (cell.operation for cell in measured.first.cells):
        pairs = [(result, cell) for result in measured.results for cell in result.cells if cell.operation == name]
        found: list[Statistics] = [one for _, cell in pairs if (one := getattr(cell, kind))]
        rates = _spread([cell.counts.ok / result.window.seconds for result, cell in pairs], figures.amount_spread)
        told = [name, rates, _spread([one.mean for one in found], figures.time_spread)]
        for quantile in SPREAD_QUANTILES:
            values = [value for one in found if (value := load_figures.at(one, quantile)[1]) is not None]
            unknown = {text for one in found if (text := _quantile(one, quantile)) in (TOO_FEW, BEYOND)}
            told.append(", ".join(sorted(unknown)) or _spread(values, figures.time_spread))
        body.append(told)
    columns = ["operation", "ok/s>", "mean>", *_titles(SPREAD_QUANTILES)]
    words = f"The table above is of the first of {len(measured.results)} repeats, each of processes of its own. Of all of them, the median (least to most):"
    return _table(words, columns, body)


def _latest(found: Statistics | None) -> str:
    if found is None:
        return figures.NOT_RUN
    return f"{BEYOND} ({figures.time(found.max)})" if found.beyond else figures.time(found.max)


def _quantile(found: Statistics | None, quantile: float) -> str:
    told, value = load_figures.at(found, quantile)
    if not told:
        return TOO_FEW if found else figures.NOT_RUN
    return BEYOND if value is None else figures.time(value)


def _accounts(ran: Sequence[Operation], result: LoadResult) -> list[str]:
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
    body = []
    for cell in ran:
        one = cell.counts
        declared = weights[cell.operation] / sum(weights.values())
        shares = [figures.percent(declared), figures.percent(one.scheduled / max(1, result.total.scheduled))]
        counts = [one.scheduled, one.dropped, one.sent, one.ok, *([one.refused] if refuses else [])]
        counts += [sum(one.failed.values()), one.censored]
        body.append([cell.operation, *shares, *map(str, counts)])
    return _table("What became of every request:", columns, body)


def _failures(ran: Sequence[Operation]) -> list[str]:
    body = []
    for cell in ran:
        for failure, number in cell.counts.failed.items():
            took = cell.failed_service.get(failure)
            times = [figures.time(took.mean), figures.time(took.max)] if took else [figures.NOT_RUN] * 2
            body.append([cell.operation, failure, str(number), figures.percent(number / cell.counts.sent), *times])
    if not body:
        return ["No request failed."]
    columns = ["operation", "class", "requests>", "of those sent>", "mean>", "max>"]
    return ["Failures by class:", "", *markdown.table(columns, body)]
