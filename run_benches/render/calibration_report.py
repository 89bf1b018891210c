"""The findings of a calibration, in words: the tables on the terminal and a section of the performance page, from the
results alone.

Why counts everywhere: "no false alarm" of nine rows and of nine thousand are different claims, so every rate stands
with what it was counted over and how far it may be off.
"""

from collections.abc import Sequence

from run_benches.analysis import figures
from run_benches.calibrate.error_rates import ErrorRates, Rate
from run_benches.render import markdown, terminal
from run_benches.render.section import Section

CONDITION_COLUMNS = (
    "condition",
    "pairs of each row>",
    "rows called changed",
    "over shuffles>",
    "comparisons of a layer with one>",
    "intervals that hold 0>",
    "rows that a screen settles>",
    "controls alarmed>",
)
KIND_COLUMNS = ("condition", "kind of row", "called slower or faster")
POWER_COLUMNS = ("condition", "rows slower by>", "called slower>", "called same>", "can't tell>")
FOUND_COLUMNS = ("rows slower by>", "condition", "kind of row", "called slower")
USUAL_COLUMNS = ("condition", "judged by", "called changed>", "rate>")
PLANT_COLUMNS = ("layer", "planted>", "measured [95 %]>", "found>", "layer named>", "row")
GOAL_COLUMNS = ("goal", "wanted", "counted>", "state")

FOUND = ("3", "5")
"""The slow-downs, in percent, that goals are about."""

LIMITS = (
    (
        "Comparisons are drawn from the pool without replacement, by whole rounds, and judged by the code that judges a real one; bounds are"
        " one-sided, exact and of 95 %, and count only draws that share no pair. The share over shuffles is the average of many such draws, which"
        " share pairs: steadier, and without a bound."
    ),
    (
        "Rows called changed are counted where fresh pairs decide every row: in comparisons of one layer without a screen. A real one screens"
        " first, and cannot call changed what the screen has settled, so it alarms less often."
    ),
    (
        "Rows of one comparison share its minutes, so bounds by row are too narrow where a bad minute hits many rows; the count by comparison"
        " does not have that fault. Pairs that met unlike conditions are run again by a real comparison, and are not in a drawn one."
    ),
    (
        "Power is of all rows made slower at once, the hardest case for the correction for many rows; real slow-downs are those of the table of"
        " plants. A change of exactly the margin (2 %) lies on the border between two verdicts: where pairs scatter little it is called slower"
        " about every second time. The margin is never below a nanosecond, so a change of 3 or 5 % in a row of few nanoseconds is `same` by rule."
        " Rows of more threads than cores scatter from pair to pair by more than such a change, most of all under load. What was planted may have"
        " cost less than planned: measured is what counts, and below the margin nothing is to be found."
    ),
    (
        "The usual tools judge each pair (both sides had the same turns) or each process with the one before it, with their defaults but for"
        " fewer samples, and shorter ones where no time is named; ours judges many pairs together."
    ),
)


UNMEASURED = "Our own error rates have not been measured yet: `run-benches.py calibrate`."


def counted(rate: Rate) -> str:
    """`0 of 59: at most 5.0 %`, `58 of 59: at least 92 %`, `3 of 59: 1.4 % to 13 %`, or that there is nothing."""
    if rate.at_most is None or rate.at_least is None:
        return "no data"
    bounds = (
        f"at most {figures.percent(rate.at_most)}"
        if rate.count == 0
        else f"at least {figures.percent(rate.at_least)}"
        if rate.count == rate.of
        else figures.percent_range(rate.at_least, rate.at_most)
    )
    return f"{rate.count} of {rate.of}: {bounds}"


def summary(results: ErrorRates) -> str:
    """Returns all of it for a terminal, the goals last."""
    return "\n".join([*terminal.sections(sections(results)), _census(results)])


def sentence(results: ErrorRates) -> str:
    """Tells what is known of our own errors, for the README: a line for each goal that was counted."""
    lines = [f"* {goal.name}: {counted(goal.rate)}" for goal in results.goals if goal.rate.of]
    return "\n".join([f"Pairs of one revision with itself, {', '.join(results.conditions)}:", "", *lines])


def goals(results: ErrorRates) -> list[str]:
    """Returns the lines of Markdown that the performance page opens with: how much was counted, and the goals with what
    was found."""
    goals = sections(results)[-1]
    return [_census(results), "", *markdown.table(goals.columns, goals.body), ""]


def section(results: ErrorRates) -> list[str]:
    """All that was counted, and what the counts do not say, as lines of Markdown."""
    return [*markdown.sections(reversed(sections(results)[:-1])), *(f"* {limit}" for limit in LIMITS), ""]


def _census(results: ErrorRates) -> str:
    pairs = sum(condition.rounds * condition.rows for condition in results.conditions.values())
    whole = figures.plural(len(results.comparisons), "comparison")
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in results.outcomes.items())
    failed = (
        f"; {sum(results.failures.values())} pairs failed, of {figures.plural(len(results.failures), 'row')}"
        if results.failures
        else ""
    )
    revision = f"{results.commit[:9]}{' (a working tree)' if results.dirty else ''}"
    return f"{pairs} pairs of {revision} with itself in {results.hours:g} h of measuring; {whole} carried out whole{f' ({outcomes})' if outcomes else ''}{failed}"


def sections(results: ErrorRates) -> list[Section]:
    """Returns the tables that have lines, the goals last."""
    unchanged, by_kind, power, found, usual = _by_condition(results)
    plants = []
    for one in results.plants:
        bounds = "" if one.low is None or one.high is None else f" [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"
        measured = f"{100 * one.size:+.1f} %{bounds}"
        told = [one.layer, figures.percent(one.share), measured, counted(one.found), counted(one.named), one.row]
        plants.append(told)
    goals = [[goal.name, goal.wanted, counted(goal.rate), goal.state] for goal in results.goals]
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("what the usual tools say of the same machine code", USUAL_COLUMNS, usual),
        ("rows made slower", POWER_COLUMNS, power),
        ("rows made slower, by the kind of row", FOUND_COLUMNS, found),
        ("real slow-downs", PLANT_COLUMNS, plants),
        ("nothing changed, by the kind of row", KIND_COLUMNS, by_kind),
        ("nothing changed", CONDITION_COLUMNS, unchanged),
        ("goals", GOAL_COLUMNS, goals),
    ]
    return [Section(title, [], columns, body) for title, columns, body in tables if body]


def _by_condition(results: ErrorRates) -> Sequence[list[list[str]]]:
    """The lines of the tables that have some for each condition."""
    unchanged, by_kind, power, found, usual = tables = [list[list[str]]() for _ in range(5)]
    for name, one in results.conditions.items():
        shuffled = "no data" if one.shuffled is None else figures.percent(one.shuffled)
        rates = map(counted, (one.alarming, one.coverage, one.screened, one.contaminated))
        unchanged.append([name, str(one.rounds), counted(one.false_alarms), shuffled, *rates])
        by_kind += [[name, kind, counted(rate)] for kind, rate in one.by_kind.items() if rate.of]
        for slower, of in one.power.items():
            if of.slower.of:
                power.append([name, f"{slower} %", *map(counted, (of.slower, of.same, of.cannot_tell))])
        for slower in FOUND:
            rated = one.found.get(slower, {}).items()
            found += [[f"{slower} %", name, kind, counted(rate)] for kind, rate in rated if rate.of]
        for tool, rate in ({"run-benches.py compare": one.false_alarms} | one.usual).items():
            if rate.of:
                usual.append([name, tool, counted(rate), figures.percent(rate.count / rate.of)])
    return tables
