"""`load compare` with a load tool that measures nothing: which pairs are run, what is concluded from them, how it ends."""

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest

from run_benches.analysis.findings import Findings
from run_benches.compare import load_comparison
from run_benches.errors import UserError
from run_benches.render import page
from run_benches.store import load_comparisons
from run_benches.store.load_comparisons import LoadComparison
from run_benches.tests import checkout as checkouts
from run_benches.tests import made_up
from run_benches.tests.checkout import Checkout
from run_benches.tests.test_document import HEADERS, a_run

GIT = ["git", "-c", "user.name=nobody", "-c", "user.email=none"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout that is a repository."""
    made = checkouts.made(tmp_path / "checkout")
    for words in (["init", "-q", "-b", "main"], ["add", "Cargo.toml"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*GIT, *words], cwd=made.root, check=True)
    return made


def last(checkout: Checkout) -> LoadComparison:
    return load_comparisons.load(max((checkout.root / "runs").glob("load-compare-*.json")))


CPU = "rest-crud/server CPU per right answer"


def compare(checkout: Checkout, *words: str) -> tuple[int, str, str]:
    done = checkout.run("load", "compare", "rest-crud", "--seed", "7", *words)
    return done.returncode, done.stdout, done.stderr


def test_a_server_that_needs_less_is_faster_and_what_is_equal_is_the_same(checkout: Checkout) -> None:
    code, output, errors = compare(checkout, "--versus=--no-tls", "--", "--concurrent-tasks", "8")
    assert code == 0, errors
    compared = last(checkout)
    judgements = {name: row.judgement for name, row in compared.rows.items()}
    cpu = judgements.pop(CPU)
    assert (
        cpu
        and cpu.verdict == "faster"
        and cpu.low is not None
        and cpu.high is not None
        and cpu.low < cpu.estimate < cpu.high < 0
    )
    assert judgements and {judgement.verdict for judgement in judgements.values() if judgement} == {"same"}
    assert compared.complete and compared.done == 13, "all are clear at the early look"
    unjudged = [row.reason for row in compared.rows.values() if row.judgement is None]
    assert (
        set(unjudged) == {"too few requests on side A and too few requests on side B, in pair 1"}
        and f"{unjudged[0]}" in output
    )
    assert (
        compared.pairs
        and compared.pairs > 13
        and f"{len(compared.rows) - len(unjudged)} rows, {compared.pairs} pairs of servers" in errors
    )
    assert (compared.a.flags, compared.b.flags) == (
        ["--concurrent-tasks", "8"],
        ["--concurrent-tasks", "8", "--no-tls"],
    )
    assert compared.rows[CPU].times is None and compared.rows["rest-crud/get one/p50"].times == "response"
    assert (
        "faster" in output
        and "13 pairs of servers, 10 windows each" not in output
        and "13 pairs of servers, 20 windows each" in output
    )


def test_a_server_that_needs_more_is_slower_whichever_side_came_first(checkout: Checkout) -> None:
    code, _, errors = compare(checkout, "--versus", "rest-crud", "--", "--no-tls")
    assert code == 0, errors
    assert "--no-tls" in last(checkout).b.flags
    (checkout.root / "bin" / "load-program").write_text(
        (checkout.root / "bin" / "load-program").read_text().replace("0.7", "1.4")
    )
    code, output, _ = compare(checkout, "--versus=--no-tls")
    judgement = last(checkout).rows[CPU].judgement
    assert code == 1 and judgement and judgement.verdict == "slower" and "slower" in output


def test_a_server_that_refuses_requests_does_not_win_by_it(checkout: Checkout) -> None:
    code, output, errors = compare(checkout, "--versus=--rate 7")
    assert code == 1, errors
    compared = last(checkout)
    judgement = compared.rows["rest-crud/requests per right answer"].judgement
    assert judgement and judgement.verdict == "slower" and compared.counts["b"].failed == {"status_503": 13 * 100}
    assert (
        "1300 of 65000 requests (status_503 1300) of side B were not answered right" in output
        and "of side A" not in output
    )


def test_pairs_that_break_a_rule_do_not_count_and_end_it_when_they_are_many(checkout: Checkout) -> None:
    checkout.trouble("rest-crud break\n")
    code, output, _ = compare(checkout, "--versus=--no-tls")
    assert code == 2 and "T3: sent is not ok + failed + censored" in output and "side " in output
    assert not last(checkout).complete
    assert last(checkout).done == 0 and len(last(checkout).invalid) == 4


def test_fewer_pairs_than_the_rule_needs_are_refused(checkout: Checkout) -> None:
    assert "pairs of servers, and --pairs says 3" in checkout.error(
        "load", "compare", "rest-crud", "--versus=--no-tls", "--pairs", "3"
    )
    assert "is no number from 1 on" in checkout.run("load", "compare", "rest-crud", "--pairs", "0").stderr
    assert "give one of them" in checkout.error("load", "compare", "rest-crud", "--versus=--no-tls", "--base", "main")
    assert "no scenario 'never'" in checkout.error("load", "compare", "never")


def test_one_that_is_kept_stands_on_the_page_about_load_tests(checkout: Checkout) -> None:
    words = ("load", "compare", "rest-crud", "--seed", "7", "--versus=--no-tls", "--keep", "tls")
    assert checkout.run(*words).returncode == 0
    assert "is never overwritten" in checkout.error(*words)
    (stored,) = (checkout.root / "runs").glob("load-compare-*.json")
    assert checkout.run("load", "save", "again", stored.stem).returncode == 0
    assert (
        "faster" in checkout.run("load", "show", "again").stdout
        and "faster" in checkout.run("load", "show", str(stored)).stdout
    )
    kept = load_comparisons.load(checkout.root / "baselines" / "load" / "comparisons" / "tls.json")
    text = page.render(Findings.of(a_run()), HEADERS, None, compared={"tls": kept})["performance/load.md"]
    assert re.search(
        r"### the working tree \(\w{12}\S*\): rest-crud \(A\) and the working tree \(\w{12}\S*\): rest-crud --no-tls \(B\)",
        text,
    )
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {CPU} "))
    assert "| faster |" in line and "| CPU time |" in line
    assert (
        "13 pairs of servers, 20 windows each" in text
        and "@ " in text.partition("BEGIN comparison tls: ")[2].partition("-->")[0]
    )


def test_the_comparison_is_printed_as_json(checkout: Checkout) -> None:
    code, output, _ = compare(checkout, "--versus=--no-tls", "--json")
    assert code == 0 and json.loads(output)["rows"][CPU]["kind"] == "server CPU per right answer"


def test_of_loads_that_are_not_alike_what_both_have_is_compared_by_name() -> None:
    a = made_up.a_load_run().scenarios["rest-crud"].read()
    assert a
    first, *others = [cell.operation for cell in a.cells]
    beside = dataclasses.replace(a, cells=[dataclasses.replace(a.cells[-1], operation="append 100"), *a.cells])
    rows = load_comparison._rows(a, beside)
    variant = a.scenario.name
    assert next(iter(rows)) == f"{variant}/{first}/p50" and all(f"{variant}/{name}/p50" in rows for name in others)
    assert not any("per right answer" in name or "append" in name for name in rows), (
        "a right answer is another thing on each side"
    )
    assert f"{variant}/server CPU per right answer" in load_comparison._rows(a, a)
    with pytest.raises(UserError, match="no operation of one side has the name of one of the other"):
        load_comparison._rows(
            dataclasses.replace(a, cells=[dataclasses.replace(a.cells[0], operation="other")]), beside
        )


def test_how_long_messages_take_to_the_last_subscriber_is_compared() -> None:
    load = made_up.a_load_run_of_messages()
    a = load.scenarios["rest-crud"].read()
    made_up.result_of(load)["multicasts"]["last_lag"] = None
    b = load.scenarios["rest-crud"].read()
    assert a and b
    name = f"{a.scenario.name}/last arrival of a message/p50"
    row = load_comparison._rows(a, a)[name]
    assert row.times == "last arrival" and row.a == row.b and len(row.a) == 1
    assert load_comparison._rows(a, b)[name].reason == "too few requests on side B"
    assert not any("last arrival" in name for name in load_comparison._rows(dataclasses.replace(a, multicasts=None), a))
