"""Whole comparisons of a tiny repository: real cargo, linker, broker and judge; only the clock of its benches is made
up, so that what two revisions differ by is known. What a person types, sees and gets."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from run_benches import places
from run_benches.cli import command_line
from run_benches.compare import new_comparison
from run_benches.store import comparisons
from run_benches.store.comparisons import ComparedSide, Comparison
from run_benches.store.runs import Facts
from run_benches.tests.workspace import Workspace, repository, workspace

__all__ = ["workspace"]

ROWS = {
    "storage": '("get/strata/one", number()), ("scan/strata/many", 7000), ("get/floor/one", 900)',
    "routing": '("resolve/strata/one", 300 + number() / 100_000)',
    "ladder": '("get/strata/storage", number()), ("get/strata/routing", number() + 300), ("get/floor/raw", 900)',
}
SENTINELS = '("integers/sentinel/one", 1000), ("copy/sentinel/many", 2000)'
SEED = ("--seed", "7")
RULES = ("--margin", "3%", "--alpha", "0.0005", "--pairs", "24")
"""At this level thirteen pairs that all agree are not enough for the early look."""

FASTER = ("compare", "main", "--rows", "storage", "--markdown", *RULES, *SEED)
Compared = tuple[Workspace, "subprocess.CompletedProcess[str]"]
"""A repository, and what a comparison of it said."""


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    """The tiny repository with layers of known cost; get takes as many nanoseconds as its number says."""
    return opened(workspace)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory, stub: Path) -> Compared:
    """One in which get has become slower, after the comparison that found it."""
    project = opened(repository(tmp_path_factory.mktemp("slower") / "checkout", stub))
    project.number(1050)
    return project, typed(project, "compare", *SEED)


@pytest.fixture(scope="module")
def faster(tmp_path_factory: pytest.TempPathFactory, stub: Path) -> Compared:
    """One in which get has become faster."""
    project = opened(repository(tmp_path_factory.mktemp("faster") / "checkout", stub))
    project.number(950)
    return project, typed(project, *FASTER)


def opened(workspace: Workspace) -> Workspace:
    for name in ("first", "second"):
        (workspace.root / f"benches/{name}.rs").unlink()
    manifest = (workspace.root / "Cargo.toml").read_text().partition("[[bench]]")[0]
    workspace.write("Cargo.toml", manifest + "".join(f'[[bench]]\nname = "{name}"\nharness = false\n' for name in ROWS))
    for name, rows in ROWS.items():
        workspace.write(
            f"benches/{name}.rs",
            f'use answer::number::number;\n\nfn main() {{\n    answer_harness::suite("{name}", &[{rows}]);\n}}\n',
        )
    workspace.write("benches/harness/src/lib.rs", (places.ROOT / "run_benches/tests/fakes/suite.rs").read_text())
    workspace.write(
        "benches/harness/benches/rows.rs", f'fn main() {{\n    answer_harness::suite("harness", &[{SENTINELS}]);\n}}\n'
    )
    workspace.write(
        "benches/harness/Cargo.toml",
        '[package]\nname = "answer-harness"\nversion = "0.1.0"\nedition = "2024"\n[[bench]]\nname = "harness"\npath = "benches/rows.rs"\nharness = false\n',
    )
    for layer in ("storage", "routing"):
        workspace.write(
            f"src/{layer}.rs",
            "pub use crate::number::number;\n" if layer == "storage" else "pub use crate::storage::number;\n",
        )
    workspace.write("src/lib.rs", "pub mod number;\npub mod storage;\npub mod routing;\n")
    workspace.write("run-benches.py", (places.ROOT / "run-benches.py").read_text())
    workspace.number(1000)
    workspace.commit()
    return workspace


def typed(project: Workspace, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(project.root / "run-benches.py"), *words]
    return subprocess.run(
        command, env=project.environment(), cwd="/", capture_output=True, text=True, timeout=300, check=False
    )


def stored(project: Workspace) -> list[Path]:
    return sorted((project.root / "runs").glob("compare-*.json"))


def last(project: Workspace) -> Comparison:
    return comparisons.load(stored(project)[-1])


def verdicts(compared: Comparison) -> dict[str, str]:
    return {id: row.judgement.verdict if row.judgement else row.state for id, row in compared.rows.items()}


def test_what_became_slower_is_found_and_the_layer_named(slower: Compared) -> None:
    project, done = slower
    compared = last(project)
    assert done.returncode == 1, done
    assert verdicts(compared) == {
        "storage/get/strata/one": "slower",
        "storage/scan/strata/many": "same",
        "storage/get/floor/one": "left_out",
        "routing/resolve/strata/one": "same",
        "ladder/get/strata/storage": "slower",
        "ladder/get/strata/routing": "slower",
        "ladder/get/floor/raw": "left_out",
    }
    assert compared.b.dirty and compared.a.name == "merge base with main"
    row = compared.rows["storage/get/strata/one"]
    assert row.judgement and (row.judgement.stage, len(row.pairs)) == ("early look", 13)
    assert compared.attribution and compared.attribution.guilty == "storage"
    assert {share.explained for share in compared.attribution.shares if share.rung == "routing"} == {1.0}
    assert all(len(control.pairs) >= 12 and not control.alarm for control in compared.controls.values())
    assert "SLOWER: 3 rows" in done.stdout and "storage" in done.stdout.splitlines()[0]


def test_a_faster_one_is_no_failure_and_both_directions_are_told(faster: Compared) -> None:
    project, done = faster
    assert done.returncode == 0 and verdicts(last(project))["storage/get/strata/one"] == "faster", done
    assert "ladder/get/strata/storage" not in last(project).rows
    assert "faster" in done.stdout.splitlines()[0] and "<details>" in done.stdout, done


def test_rules_that_were_typed_stand_in_the_file_and_are_kept(faster: Compared) -> None:
    compared = last(faster[0])
    row = compared.rows["storage/get/strata/one"]
    assert (row.margin, compared.design.alpha, compared.design.fewest_pairs) == (0.03, 0.0005, 24)
    assert compared.design.deciding_pairs == 24 and compared.design.decided_rows == 1
    assert row.judgement and (row.judgement.stage, len(row.pairs)) == ("decision", 24)


def test_a_dry_run_says_what_it_would_cost_and_measures_nothing(project: Workspace) -> None:
    project.number(1050)
    done = typed(project, "compare", "--dry-run", *SEED)
    assert (done.returncode, done.stdout) == (0, "") and "screen: 6 pairs of each, about" in done.stderr, done
    plan = json.loads(typed(project, "compare", "--dry-run", "--json", *SEED).stdout)
    planned = {id for id, row in plan["comparison"]["rows"].items() if row["state"] == "not_run"}
    assert (
        plan["comparison"]["design"]["seed"] == 7
        and "storage/get/strata/one" in planned
        and plan["comparison"]["controls"]
    )
    assert (
        planned == set(plan["forecast"]["visible"])
        and 0 < plan["forecast"]["screen_s"] < plan["forecast"]["quarter_s"] < plan["forecast"]["all_s"]
    )
    assert not stored(project) and not list((project.root / "runs").glob("compare-*"))


@pytest.mark.parametrize(
    "words",
    [
        ("--margin", "0%"),
        ("--margin", "60%"),
        ("--margin", "0.02"),
        ("--alpha", "1"),
        ("--alpha", "x"),
        ("--pairs", "0"),
        ("--pairs", "501"),
    ],
)
def test_rules_that_are_none_are_refused(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["compare", *words])
    assert ended.value.code == 2 and f"argument {words[0]}: '{words[1]}' is no" in capsys.readouterr().err


def test_the_same_code_is_identical_and_not_run(project: Workspace) -> None:
    project.write("src/number.rs", (project.root / "src/number.rs").read_text() + "// a remark\n")
    done = typed(project, "compare", "--json", *SEED)
    assert done.returncode == 0 and set(verdicts(last(project)).values()) == {"identical", "left_out"}, done
    assert json.loads(done.stdout)["schema"] == comparisons.SCHEMA
    assert not last(project).design.order


def test_a_change_that_nothing_stands_on_leaves_layers_out(project: Workspace) -> None:
    project.write("src/routing.rs", "pub use crate::storage::number;\npub fn more() {}\n")
    done = typed(project, "compare", *SEED)
    assert "left out: storage (nothing under it changed; --all widens)" in done.stderr, done
    assert "storage" in last(project).left_out and "left out" in done.stdout


def test_a_clean_tree_at_the_merge_base_has_nothing_to_compare(project: Workspace) -> None:
    done = typed(project, "compare")
    assert done.returncode == 2 and "nothing to compare" in done.stderr


def test_a_row_of_one_side_is_listed_and_not_judged(project: Workspace) -> None:
    path = project.root / "benches/routing.rs"
    path.write_text(path.read_text().replace("&[", '&[("split/strata/one", 50), '))
    done = typed(project, "compare", "--rows", "routing", *SEED)
    assert last(project).rows["routing/split/strata/one"].reasons == ["only in the working tree"]
    assert "each side runs its own" in done.stderr and "only in the working tree" in done.stdout
    typed(project, "compare", "--rows", "routing", "--benches-of", "A", *SEED)
    assert "routing/split/strata/one" not in last(project).rows


def test_two_settings_of_one_revision_are_two_sides(project: Workspace) -> None:
    done = typed(project, "compare", "--set", "cache=1M", "--set", "cache=2M", "--rows", "routing", *SEED)
    compared = last(project)
    assert done.returncode == 0 and (compared.a.name, compared.b.name) == ("cache=1M", "cache=2M"), done
    assert compared.b.settings == {"STRATA_SET": "cache=2M"} and verdicts(compared) == {
        "routing/resolve/strata/one": "same"
    }


def test_settings_that_change_nothing_are_no_two_sides(project: Workspace) -> None:
    done = typed(project, "compare", "--set", "cache=1M", "--set", "CACHE=1m", "--rows", "routing")
    assert done.returncode == 2 and "give the engine the same options" in done.stderr, done


def test_sides_that_do_other_work_are_not_judged(project: Workspace) -> None:
    harness = project.root / "benches/harness/src/lib.rs"
    harness.write_text(harness.read_text().replace("does one thing", "does two things"))
    project.number(1050)
    done = typed(project, "compare", "--rows", "storage", *SEED)
    assert "its sides do other work" in last(project).rows["storage/get/strata/one"].reasons[0]
    assert done.returncode == 3 and "NOTHING WAS JUDGED" in done.stdout, done


def with_rows(project: Workspace, rows: str) -> None:
    project.write(
        "benches/storage.rs",
        f'use answer::number::number;\n\nfn main() {{\n    answer_harness::suite("storage", &[{rows}]);\n}}\n',
    )
    project.commit()


@pytest.mark.parametrize(
    ("before", "after", "verdict", "code"),
    [
        (4000, 5000, "more allocations", 1),
        (5000, 4000, "fewer allocations", 0),
        (5000, 7000, "more allocations", 1),
        (7000, 5000, "fewer allocations", 0),
    ],
)
def test_a_limit_of_allocations_that_is_passed_is_a_verdict_of_its_own(
    project: Workspace, before: int, after: int, verdict: str, code: int
) -> None:
    with_rows(
        project,
        ", ".join(f'("{name}/strata/allocates", number())' for name in ("put", "add", "set", "let"))
        + ', ("scan/strata/many", 7000)',
    )
    project.number(before)
    project.commit()
    project.number(after)
    done = typed(project, "compare", "HEAD", ".", "--rows", "storage", *SEED)
    compared = last(project)
    for name in ("put", "add", "set", "let"):  # as many in a row as would give the rest of a layer up
        row = compared.rows[f"storage/{name}/strata/allocates"]
        assert row.state == "judged" and row.judgement is None and row.allocations
        assert (row.allocations.verdict, row.allocations.a, row.allocations.b, row.allocations.at_most) == (
            verdict,
            before / 1000,
            after / 1000,
            4.0,
        )
    assert verdicts(compared)["storage/scan/strata/many"] == "same"
    assert done.returncode == code and verdict.upper() in done.stdout.splitlines()[0].upper(), done
    assert f"{before // 1000} -> {after // 1000}" in typed(project, "explain", "storage/put/strata/allocates").stdout
    assert (
        json.loads(typed(project, "explain", "storage/put/strata/allocates", "--json").stdout)["rows"][
            "storage/put/strata/allocates"
        ]["allocations"]["at_most"]
        == 4
    )


def test_a_limit_of_allocations_that_both_sides_pass_alike_is_no_verdict(project: Workspace) -> None:
    with_rows(project, '("put/strata/allocates", 5000), ("get/strata/one", number())')
    project.number(950)
    done = typed(project, "compare", "HEAD", ".", "--rows", "storage", *SEED)
    row = last(project).rows["storage/put/strata/allocates"]
    assert row.state == "invalid" and "the same on both sides: 5 -> 5" in row.reasons[-1]
    assert done.returncode == 2 and verdicts(last(project))["storage/get/strata/one"] == "faster", done


def test_what_the_engine_refuses_is_run_again_once_and_counted_beside_the_row(project: Workspace) -> None:
    with_rows(project, '("put/strata/refused_once", 1000), ("put/strata/refused", 1000), ("get/strata/one", number())')
    project.number(950)
    done = typed(project, "compare", "HEAD", ".", "--rows", "storage", "--all", *SEED)
    compared = last(project)
    once, ever = compared.rows["storage/put/strata/refused_once"], compared.rows["storage/put/strata/refused"]
    assert (
        once.state == "judged"
        and once.refusals == ["screen, pair 1: the engine refused: Busy"]
        and "run again" in done.stdout
    )
    assert ever.state == "invalid" and "the engine refused: Busy, also when it was run again" in ever.reasons[0]
    assert verdicts(compared)["storage/get/strata/one"] == "faster"


@pytest.mark.parametrize(
    ("job", "number"), [("screen:3:storage", signal.SIGHUP), ("decide:20:storage", signal.SIGTERM)]
)
def test_an_interrupted_comparison_goes_on_as_if_it_had_not_been(
    faster: Compared, job: str, number: signal.Signals
) -> None:
    """In the screen, and after the early look."""
    project, _ = faster
    expected, known = last(project), len(stored(project))
    command = [sys.executable, str(project.root / "run-benches.py"), *FASTER]
    process = subprocess.Popen(
        command, env=project.environment(), cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (len(stored(project)) > known and job in [done.name for done in last(project).design.order]):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(30) == 3 and not last(project).complete
    resumed, found = typed(project, "compare", "--resume"), last(project)
    assert resumed.returncode == 0 and found.complete, resumed
    assert [done.name for done in found.design.order] == [done.name for done in expected.design.order]
    assert verdicts(found) == verdicts(expected)
    assert [point.effect for row in found.rows.values() for point in row.pairs] == [
        point.effect for row in expected.rows.values() for point in row.pairs
    ]


def test_another_seed_is_another_order(faster: Compared) -> None:
    project, _ = faster
    first = last(project)
    typed(project, *FASTER[:-1], "8")
    orders = [[job.name for job in compared.design.order] for compared in (first, last(project))]
    assert sorted(orders[0]) == sorted(orders[1]) and len(orders[0]) > 20 and orders[0] != orders[1]


def test_a_comparison_is_explained_and_needs_no_more(slower: Compared) -> None:
    project, _ = slower
    said = typed(project, "explain", "storage/get/strata/one")
    assert said.returncode == 0 and "slower" in said.stdout, said
    assert typed(project, "explain", "storage/gte/strata/one").returncode == 2
    done = typed(project, "more")
    assert done.returncode == 2 and "no row that could not be told" in done.stderr


def test_a_budget_that_is_too_small_is_refused_before_it_is_spent(project: Workspace) -> None:
    project.number(1050)
    done = typed(project, "compare", "--budget", "2s")
    assert done.returncode == 2 and "a larger --budget" in done.stderr


def test_a_row_that_one_side_alone_has_is_said_to_be_of_that_side() -> None:
    sides = ComparedSide("a", "1", False, "1"), ComparedSide("b", "2", False, "2")
    facts = {"storage/get/strata/one": Facts("gets", "records", 1, 1)}
    for index, of_sides in enumerate(((facts, {}), ({}, facts))):
        row = new_comparison._row(new_comparison.ComparisonRequest(), sides, of_sides, "storage/get/strata/one", 0.02)
        assert (row.state, row.reasons) == ("one_side", [f"only in {sides[index].name}"])


def test_workloads_are_compared_where_they_are_named_and_those_with_a_background_never() -> None:
    sides = (
        ComparedSide("a", "1", False, "1", code={"macro": "x"}),
        ComparedSide("b", "2", False, "2", code={"macro": "y"}),
    )
    facts = {
        "macro/load/strata/1": Facts("loads", "records", 1, 1, workload=True),
        "macro/beside/strata/1": Facts("reads", "records", 1, 1, workload=True, background=True),
    }

    def state(id: str, *words: str) -> str:
        return new_comparison._row(
            new_comparison.ComparisonRequest(rows=list(words)), sides, (facts, facts), id, 0.02
        ).state

    assert (state("macro/load/strata/1"), state("macro/load/strata/1", "macro/load")) == ("left_out", "not_run")
    assert state("macro/beside/strata/1", "macro/beside") == "left_out"
