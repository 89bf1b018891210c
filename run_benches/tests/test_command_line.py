"""The command line: every option and word is used, or refused by its name, before anything is built."""

import argparse
from pathlib import Path

import pytest

from run_benches.cli import command_line, commands
from run_benches.errors import Exit, UserError
from run_benches.setup import packages
from run_benches.store.comparisons import Comparison
from run_benches.tests.checkout import Checkout, edited
from run_benches.tests.comparisons import comparison, control, row, screened


@pytest.fixture(autouse=True)
def carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends every command that is not refused with code 3."""

    def enter(arguments: list[str]) -> None:
        raise UserError("it would be carried out", Exit.NOTHING)

    monkeypatch.setattr(packages, "enter_environment", enter)


PLANNED = [
    "--set x=1",
    "--rows x",
    "--all",
    "--benches-of A",
    "--benches-of own",
    "--budget 1h",
    "--margin 1%",
    "--alpha 0.01",
    "--pairs 20",
    "--seed 0",
]
TOLD = ["--timeout 2m", "--picture x.svg", "--markdown", "--strict"]


@pytest.mark.parametrize(
    ("typed", "others"),
    [
        ("storage --resume", [""]),
        ("run --resume", ["--skip storage", "--quick", "--full", "--budget 1m", "--seed 0"]),
        ("run --resume X", ["--seed 7"]),
        ("save name storage --run last", [""]),
        (
            "save name --run last",
            ["--skip storage", "--quick", "--full", "--budget 1m", "--seed 0", "--timeout 2m", "--strict", "--json"],
        ),
        ("baselines remove x", ["--json"]),
        ("compare --criterion x", ["a", ". .", *PLANNED, *TOLD, "--dry-run", "--resume", "--stored"]),
        ("compare --stored a b", [*PLANNED, *TOLD, "--dry-run", "--resume", "--criterion x"]),
        ("compare --resume", [*[one for one in PLANNED if one != "--all"], "--dry-run"]),
        ("compare a b --dry-run", TOLD),
        ("compare a b --markdown", ["--json"]),
        ("more --markdown", ["--json"]),
        ("calibrate --smoke", ["--rows storage", "--budget 1h", "--json"]),
        ("document --check", ["--dry-run"]),
        ("load list --", ["--closed"]),
        ("load runs --", ["--closed"]),
        ("load baselines --", ["--closed"]),
        ("load show --", ["--closed"]),
        ("load report --", ["--closed"]),
        ("load save x --", ["--closed"]),
    ],
)
def test_what_would_have_no_effect_is_refused_by_name(
    typed: str, others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for other in others:
        arguments = typed.replace("--resume", "") if other.startswith(("a", ".")) else typed
        assert command_line.main([*arguments.split(), *other.split()]) == 2, other
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("run-benches.py: ") and "leave out" in line, other
        if (
            other.startswith("--")
            and "--stored" not in other
            and "--criterion" not in other
            and "--resume" not in other
        ):
            assert other.split()[0] in line


@pytest.mark.parametrize(
    "typed",
    [
        "run --resume --timeout 1m --strict --json",
        "save name --run last",
        "save name storage --quick --seed 0 --strict --json",
        "baselines show x --json",
        "compare --criterion x --json",
        "compare --stored a b --json",
        "compare --resume X --all --timeout 1m --picture x.svg --strict --json",
        "compare --resume --markdown --picture x.svg",
        f"compare a b {' '.join(PLANNED)} --dry-run --json",
        f"compare a b {' '.join(PLANNED)} {' '.join(TOLD)}",
        "more X --budget 1m --timeout 1m --picture x.svg --markdown --strict",
        "calibrate --smoke --timeout 1m",
        "calibrate --rows x --budget 1h --json",
        "document x --check --output x.md",
        "load run a -- --closed",
        "load compare a --json -- --closed",
        "load lint --anything -- --closed",
    ],
)
def test_what_has_an_effect_is_taken(typed: str) -> None:
    assert command_line.main(typed.split()) == 3


EMPTY = [
    *(
        [command, ""]
        for command in ("run", "list", "compare", "explain", "more", "profile", "document", "report", "load")
    ),
    [""],
    ["storage", ""],
    ["compare", "", "HEAD"],
    ["compare", "HEAD", ""],
    ["profile", "row", ""],
    ["baselines", "show", ""],
    ["runs", "show", ""],
    ["save", "x", ""],
    ["save", "x", "--run", ""],
    ["load", "save", "x", ""],
    *(["load", action, ""] for action in ("run", "compare", "show", "report")),
    *(["load", "compare", "x", option, ""] for option in ("--base", "--versus", "--keep")),
    *(["compare", option, ""] for option in ("--set", "--rows", "--picture", "--criterion", "--resume")),
    *(["run", option, ""] for option in ("--skip", "--resume")),
    ["explain", "x", "--of", ""],
    ["report", "--output", ""],
    ["document", "--output", ""],
    ["calibrate", "--rows", ""],
]


@pytest.mark.parametrize("typed", EMPTY, ids=" ".join)
def test_an_empty_word_is_refused(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    forms = (
        [typed, [*typed[:-2], f"{typed[-2]}="]]
        if typed[-1] == "" and typed[-2:-1] and typed[-2].startswith("--")
        else [typed]
    )
    for form in forms:
        assert command_line.main(form) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is empty" in line and (
            len(typed) < 2 or typed[-2:] == ["load", ""] or typed[typed.index("") - 1] in line
        )


@pytest.mark.parametrize(
    "name",
    [
        "last",
        "LAST",
        "HEAD",
        "20260101T000000Z-abc",
        "load-20260101T000000Z-abc",
        "compare-20260101T000000Z-a-b",
        "load-compare-20260101T000000Z",
    ],
)
def test_a_name_that_means_something_already_is_not_given(checkout: Checkout, measured: str, name: str) -> None:
    checkout.keep(measured, "kept")
    assert checkout.run("load", "rest-crud").returncode == 0
    for words in (
        ["save", name, "--run", "last"],
        ["save", name, "storage"],
        ["load", "save", name],
        ["load", "compare", "rest-crud", "--keep", name],
    ):
        assert f"{name!r} is reserved" in checkout.error(*words)


def test_a_baseline_of_a_reserved_name_can_be_shown_and_removed(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "kept")
    earlier = checkout.root / "baselines" / "last.json"
    (checkout.root / "baselines" / "kept.json").rename(earlier)
    edited(earlier, scale="full")
    assert '"scale": "full"' in checkout.run("baselines", "show", str(earlier), "--json").stdout
    assert checkout.run("baselines", "remove", "last").returncode == 0 and not earlier.exists()


@pytest.mark.parametrize(
    ("compared", "code"),
    [
        (comparison({"storage/get/strata/sst": screened()}), 0),
        (comparison({"storage/get/strata/sst": row(0.05)}), 1),
        (comparison({"storage/get/strata/sst": screened()}, {"harness/copy/bytes/1_MB": control(change=0.03)}), 3),
    ],
)
def test_a_picture_leaves_the_code_of_the_verdict(
    compared: Comparison, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "new" / "changes.svg"
    options = argparse.Namespace(json=False, markdown=True, picture=picture, strict=False)
    assert commands._print_comparison((compared, tmp_path / "compare-1.json"), options) == code
    assert picture.exists() == (code == 1) and ("no picture" in capsys.readouterr().err) == (code != 1)
