"""The conclusions: each rule makes its sentence where the figures leave no doubt, and none where they do."""

import pytest

from run_benches.analysis.findings import Findings
from run_benches.render import conclusions
from run_benches.render.source import Source
from run_benches.store.runs import Ratio
from run_benches.tests import made_up
from run_benches.tests.made_up import set_ratio
from run_benches.tests.test_document import a_run, whole

CREATE = "integration/create/strata/{}_indexes_1_thread"
ONE, TWO = "scaling/create/strata/1_thread", "scaling/create/strata/2_threads"


@pytest.mark.parametrize(
    ("ratio", "scatter", "said"),
    [
        (1.79, 1, "CREATE takes 79 % ["),
        (0.9, 1, "CREATE takes 10 % [9.5 %, 11 %] less"),
        (1.001, 1, "the same within 2 %: CREATE, READ"),
        (1.02, 10, "not resolved: CREATE."),
    ],
)
def test_what_indexes_cost_is_told_by_verb_and_what_is_not_resolved_has_neither_size_nor_sign(
    ratio: float, scatter: float, said: str
) -> None:
    run = a_run()
    set_ratio(run, CREATE.format(2), CREATE.format(0), ratio, scatter)
    one_thread, eight = conclusions.indexes(Findings.of(run)).sentences
    assert said in one_thread and one_thread.count("CREATE") == 1 and "8 threads" in eight


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
    told = conclusions.steps(Findings.of(run))
    assert told.looked_at == 14 and len(told.sentences) == 4, "two requests by two clocks"
    get, tcp = told.sentences[:2]
    assert "GET on the rung `ingress`, `ingress` adds 910 ns" in get and ": the largest step" in get
    assert "of CPU of a GET on the rung `tcp`, `tcp` adds" in tcp and "largest" not in tcp, "it is the only one"
    set_ratio(run, "ladder/get/strata/ingress", "ladder/get/strata/driver", 910 / 1500 + 1, scatter=48)
    assert ": among the largest steps" in conclusions.steps(Findings.of(run)).sentences[0]
    for rung, below in (("ingress", "driver"), ("driver", "routing"), ("handlers", "transaction")):
        set_ratio(run, f"ladder/get/strata/{rung}", f"ladder/get/strata/{below}", 1.001)
    told = conclusions.steps(Findings.of(run))
    assert (told.looked_at, len(told.sentences)) == (14, 3), "less than a tenth of the request is no sentence"


@pytest.mark.parametrize(
    ("ratio", "scatter", "said"),
    [
        (0.65, 1, ("A second thread makes CREATE 1.54x [", "raw RocksDB: 0.833x [", "bare arithmetic: 1.97x [")),
        (1.22, 1, ("CREATE slower: 0.820x [", "raw RocksDB slower, too: 0.833x [")),
        (1.001, 1, ("leaves the rate of CREATE as it is",)),
        (1.0, 20, ()),
    ],
)
def test_a_second_thread_is_told_beside_the_engine_and_the_machine(
    ratio: float, scatter: float, said: tuple[str, ...]
) -> None:
    run = whole()
    set_ratio(run, TWO, ONE, ratio, scatter)
    told = conclusions.threads(Findings.of(run))
    create = [sentence for sentence in told.sentences if "CREATE" in sentence]
    assert (told.looked_at, len(told.sentences), len(create)) == (5, 1 + bool(said), int(bool(said)))
    assert not [words for words in said if words not in create[0]]


def test_goals_are_counted_and_the_farthest_is_named() -> None:
    run = a_run()
    told = conclusions.goals(Findings.of(run))
    assert told.looked_at == 3 and "2 met, 1 missed, 0 not shown" in told.sentences[0]
    assert "goal: `storage/get/strata/sst`" in told.sentences[0]
    run.ratios[CREATE.format(2)].at_least = 0.99
    assert "goal: `storage/get/strata/sst`" not in conclusions.goals(Findings.of(run)).sentences[0]
    run.ratios = {}
    assert conclusions.goals(Findings.of(run)).sentences == []


def test_others_are_counted_where_anything_is_resolved() -> None:
    run, case = a_run(), "0_indexes_1_thread"
    ours, theirs = f"integration/read/strata/{case}", f"integration/read/sqlite/{case}"
    run.benches[theirs] = made_up.bench(2420, "one read", indexes=0)
    run.ratios[ours] = Ratio("ran", [], theirs)
    made_up.family(run, [ours, theirs])
    (told,) = conclusions.others(Findings.of(run)).sentences
    assert "`sqlite`, of 1 row ours is faster in 1, slower in 0" in told
    set_ratio(run, theirs, ours, 1.0, scatter=20)
    unresolved = conclusions.others(Findings.of(run))
    assert (unresolved.looked_at, unresolved.sentences) == (1, [])


def test_a_run_of_which_no_rule_finds_anything_says_so_and_every_rule_is_listed() -> None:
    run = a_run()
    run.benches, run.ratios, run.families, run.contrasts, run.design.plan = {}, {}, {}, {}, []
    told = conclusions.conclusions(Findings.of(run))
    assert {(one.looked_at, len(one.sentences)) for one in told} == {(0, 0)} and len(told) == len(conclusions.RULES)
    assert "not run: no rule found anything in this run" in conclusions.section(Source(Findings.of(run), {}, {}))
    listed = "\n".join(conclusions.rules(Source(Findings.of(run), {}, {})))
    assert listed.count("not run: nothing to look at | 0 |") == len(conclusions.RULES)
