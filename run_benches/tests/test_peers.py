"""Others beside ours: wins and losses alike, and no goal."""

from run_benches import findings, peers
from run_benches.runs import Ratio, Run
from run_benches.source import Source
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with, rendered, section

CASE = "0_indexes_1_thread"


def beside_sqlite(ratio: float = 2.0) -> Run:
    run = a_run()
    run.benches[f"integration/read/sqlite/{CASE}"] = made_up.bench(1210 * ratio, "one read", indexes=0)
    pairs = [ratio] * 8
    run.ratios[f"integration/read/strata/{CASE}"] = Ratio("ran", [], f"integration/read/sqlite/{CASE}", None, None, pairs, ratio, ratio * 0.98, ratio * 1.02)
    codecs = {"strata": (300, 1050), "bincode": (30, 760), "serde_json": (450, 1050)}
    for codec, (time_ns, size) in codecs.items():
        run.benches[f"encoding/encode/{codec}/1_kb"] = made_up.bench(time_ns, "encodes a record", bytes_per_operation=float(size))
    return run


def told(run: Run) -> str:
    return "\n".join(peers.section(Source(run, {}, {}, None)))


def test_a_ratio_of_pairs_is_told_as_it_is_and_one_of_lone_processes_is_marked() -> None:
    text = told(beside_sqlite())
    assert "| 2.00 [1.96, 2.04] | ours |" in line_with(text, "|  | sqlite |")
    assert line_with(text, "|  | serde_json |").startswith("|  | serde_json | 450 ns (441 to 464 ns) | 1.50 [1.46, 1.55] (*) | ours | 1050 |")


def test_losses_stand_beside_wins() -> None:
    text = told(beside_sqlite(ratio=0.5))
    assert "| 0.500 [0.490, 0.510] | theirs |" in line_with(text, "|  | sqlite |")
    assert "* beside `sqlite`, of 1 row: ours faster in 0, slower in 1, not to be told in 0" in text
    assert "* beside `bincode`, of 1 row: ours faster in 0, slower in 1, not to be told in 0" in text


def test_an_interval_that_holds_one_tells_neither() -> None:
    assert "of 1 row: ours faster in 0, slower in 0, not to be told in 1" in told(beside_sqlite(ratio=1.0))


def test_too_few_processes_tell_neither() -> None:
    run = beside_sqlite()
    run.benches["encoding/encode/bincode/1_kb"].points_ns = [30.0, 31.0]
    assert "(too few processes for an interval) (*) | neither |" in line_with(told(run), "|  | bincode |")


def test_figures_of_other_kinds_form_no_ratio() -> None:
    run = beside_sqlite()
    run.benches["encoding/encode/bincode/1_kb"].facts.unit = "bytes"
    assert "| not measured |  |" in line_with(told(run), "|  | bincode |")


def test_a_floor_is_no_peer_and_a_peer_is_no_floor() -> None:
    run = beside_sqlite(ratio=0.5)
    assert "storage/get" not in told(run)
    assert "sqlite" not in section(rendered(run), "Floors")
    assert {held.verdict for held in findings.held(run) if held.is_peer} == {"a peer, no goal"}
    assert len(findings.floors(run)) == len(findings.held(run)) - 1


def test_without_peers_nothing_is_compared() -> None:
    assert "not run: no peer has a row in this run" in told(a_run())
