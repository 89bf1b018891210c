"""The conclusions: each rule makes its sentence where the figures leave no doubt, and none where they do."""

import math

from run_benches.analysis.findings import Findings
from run_benches.render import conclusions
from run_benches.render.source import Source
from run_benches.store.runs import Ratio, Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, whole

CREATE = "integration/create/strata/{}_indexes_1_thread"


def set_ratio(run: Run, id: str, other: str, ratio: float, scatter: float = 1.0) -> None:
    """Lets a row take so many times as long as another, in every tuple."""
    run.contrasts[id][other] = [math.log(ratio) + scatter * off for off in made_up.TUPLES]


def test_indexes_are_told_by_verb_and_what_is_not_resolved_has_neither_size_nor_sign() -> None:
    run = a_run()
    first = conclusions.indexes(Findings.of(run)).sentences[0]
    assert first.startswith(
        "With 2 indexes instead of none (1 thread), CREATE takes 79 % [78 %, 80 %] longer; UPDATE takes"
    )
    assert first.endswith("the same within 2 %: READ.")
    set_ratio(run, CREATE.format(2), CREATE.format(0), 1.02, scatter=10)
    assert conclusions.indexes(Findings.of(run)).sentences[0].endswith("not resolved: CREATE.")
    set_ratio(run, CREATE.format(2), CREATE.format(0), 0.9)
    assert "CREATE takes 10 % [9.5 %, 11 %] less" in conclusions.indexes(Findings.of(run)).sentences[0]


def test_intervals_of_one_table_hold_together_so_that_few_tuples_say_nothing() -> None:
    run = a_run()
    for others in run.contrasts.values():
        for logs in others.values():
            del logs[6:]
    told = conclusions.indexes(Findings.of(run))
    # six tuples have an interval of 95 %, but not one for five verbs at once
    assert (told.looked_at, told.sentences) == (9, [])


def test_the_largest_step_is_named_by_request_and_clock_and_only_if_it_is_above_the_others() -> None:
    run = a_run()
    get, tcp = conclusions.steps(Findings.of(run)).sentences[:2]
    assert (
        get
        == "Of the 2.41 us of a GET on the rung `ingress`, `ingress` adds 910 ns [894 ns, 926 ns], 38 % of it: the largest step; `raw`, the lowest rung, takes 780 ns."
    )
    assert tcp.startswith("Of the 12.3 us of CPU of a GET on the rung `tcp`, `tcp` adds 9.90 us [") and tcp.endswith(
        "80 % of it; `ingress_cpu`, the lowest rung, takes 2.40 us."
    )
    set_ratio(run, "ladder/get/strata/ingress", "ladder/get/strata/driver", 910 / 1500 + 1, scatter=48)
    assert (
        conclusions.steps(Findings.of(run))
        .sentences[0]
        .endswith("among the largest steps; `raw`, the lowest rung, takes 780 ns.")
    )
    for rung, below in (("ingress", "driver"), ("driver", "routing"), ("handlers", "transaction")):
        set_ratio(run, f"ladder/get/strata/{rung}", f"ladder/get/strata/{below}", 1.001)
    assert "a GET on the rung `ingress`" not in " ".join(conclusions.steps(Findings.of(run)).sentences)


def test_a_second_thread_is_told_beside_the_engine_and_the_machine() -> None:
    run = whole()
    read, create = conclusions.threads(Findings.of(run)).sentences
    assert read.startswith("A second thread makes READ 1.92x [") and "; bare arithmetic: 1.97x [" in read
    assert "; raw RocksDB: 0.833x [" in create
    set_ratio(run, "scaling/create/strata/2_threads", "scaling/create/strata/1_thread", 1.22)
    create = conclusions.threads(Findings.of(run)).sentences[1]
    assert (
        create.startswith("A second thread makes CREATE slower: 0.820x [")
        and "; raw RocksDB slower, too: 0.833x [" in create
    )
    set_ratio(run, "scaling/create/strata/2_threads", "scaling/create/strata/1_thread", 1.0, scatter=20)
    assert len(conclusions.threads(Findings.of(run)).sentences) == 1


def test_goals_are_counted_and_the_farthest_is_named() -> None:
    assert conclusions.goals(Findings.of(a_run())).sentences == [
        "Of 3 goals: 2 met, 1 missed, 0 not shown, 0 not judged. Farthest from its goal: `storage/get/strata/sst`, 0.910 [0.900, 0.921] where 0.95 is the goal: missed by 46.7 ns."
    ]


def test_others_are_counted_where_anything_is_resolved() -> None:
    run, ours, theirs = (
        a_run(),
        "integration/read/strata/0_indexes_1_thread",
        "integration/read/sqlite/0_indexes_1_thread",
    )
    run.benches[theirs] = made_up.bench(2420, "one read", indexes=0)
    run.ratios[ours] = Ratio("ran", [], theirs)
    made_up.family(run, [ours, theirs])
    assert conclusions.others(Findings.of(run)).sentences == [
        "Beside `sqlite`, of 1 row ours is faster in 1, slower in 0."
    ]
    set_ratio(run, theirs, ours, 1.0, scatter=20)
    unresolved = conclusions.others(Findings.of(run))
    assert (unresolved.looked_at, unresolved.sentences) == (1, [])


def test_a_run_of_which_no_rule_finds_anything_says_so_and_every_rule_is_listed() -> None:
    run = a_run()
    run.benches, run.ratios, run.families, run.contrasts, run.design.plan = {}, {}, {}, {}, []
    assert "not run: no rule found anything in this run" in conclusions.section(Source(Findings.of(run), {}, {}))
    listed = "\n".join(conclusions.rules(Source(Findings.of(run), {}, {})))
    assert listed.count("not run: nothing to look at | 0 |") == len(conclusions.RULES)
