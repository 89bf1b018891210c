"""Others beside ours: wins and losses alike, and no goal."""

from run_benches.analysis import figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.peers import PeerOutcome, census
from run_benches.render import markdown, peers, summary
from run_benches.render.source import Source
from run_benches.store.runs import Ratio, Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with, rendered, section

CASE = "0_indexes_1_thread"
SQLITE = (f"integration/read/sqlite/{CASE}", f"integration/read/strata/{CASE}")


def beside_sqlite(ratio: float = 2.0) -> Run:
    """SQLite takes `ratio` times as long as ours to read; two codecs beside ours, one faster and one slower."""
    run = a_run()
    theirs, ours = SQLITE
    run.benches[theirs] = made_up.bench(1210 * ratio, "one read", indexes=0)
    run.ratios[ours] = Ratio("ran", [], theirs, None, None, [ratio] * 8, ratio, ratio * 0.98, ratio * 1.02)
    made_up.family(run, [ours, theirs])
    codecs = {"strata": (300, 1050), "bincode": (30, 760), "serde_json": (450, 1050)}
    for codec, (time_ns, size) in codecs.items():
        run.benches[f"encoding/encode/{codec}/1_kb"] = made_up.bench(
            time_ns, f"encodes a record by {codec}", bytes_per_operation=float(size)
        )
    return made_up.family(run, [f"encoding/encode/{codec}/1_kb" for codec in codecs])


def told(run: Run) -> str:
    return "\n".join(peers.section(Source(Findings.of(run), {}, {})))


def outcomes(run: Run) -> dict[str, PeerOutcome | None]:
    return {side.theirs.subject: side.faster() for side in Findings.of(run).peers}


def test_wins_and_losses_are_counted_alike_with_their_ratio_and_interval() -> None:
    assert outcomes(beside_sqlite()) == {"bincode": "theirs", "serde_json": "ours", "sqlite": "ours"}
    assert outcomes(beside_sqlite(ratio=0.5))["sqlite"] == "theirs"
    assert [cell.strip() for cell in line_with(told(beside_sqlite()), "| `bincode` |").split("|")[3:8]] == list("10100")
    assert "faster in 0, slower in 1" in list(census(Findings.of(beside_sqlite(ratio=0.5)).peers))[-1]
    on_the_terminal = summary.text(Findings.of(beside_sqlite()))
    for words in census(Findings.of(beside_sqlite()).peers):
        assert words.replace("`", "") in on_the_terminal
    for side in Findings.of(beside_sqlite()).peers:
        assert side.contrast and figures.factor(side.contrast) in line_with(told(beside_sqlite()), side.theirs.subject)


def test_an_interval_that_holds_one_tells_neither_and_nor_do_too_few_tuples() -> None:
    assert outcomes(beside_sqlite(ratio=1.0))["sqlite"] == "same"
    run = beside_sqlite()
    made_up.set_ratio(run, *SQLITE, 1.0, scatter=20)
    del run.contrasts["encoding/encode/bincode/1_kb"]["encoding/encode/strata/1_kb"][3:]
    assert outcomes(run) == {"bincode": "not resolved", "serde_json": "ours", "sqlite": "not resolved"}
    assert "slower in 0, not resolved in 1" in list(census(Findings.of(run).peers))[-1]


def test_on_the_page_of_the_layer_every_row_says_what_it_does_and_how_large_it_is() -> None:
    text = "\n".join(markdown.sections(peers.layer_tables(Source(Findings.of(beside_sqlite()), {}, {}), "encoding")))
    for codec, size, whose in (
        ("strata", 1050, "ours"),
        ("bincode", 760, "ours slower"),
        ("serde_json", 1050, "ours faster"),
    ):
        line = line_with(text, f"| {codec} | encodes a record by {codec} |")
        assert f"| {size} |" in line and whose in line


def test_figures_of_other_kinds_and_rows_without_turns_form_no_ratio() -> None:
    run = beside_sqlite()
    run.benches["encoding/encode/bincode/1_kb"].facts.unit = "bytes"
    run.contrasts.pop("encoding/encode/serde_json/1_kb")
    assert outcomes(run) == {"bincode": None, "serde_json": None, "sqlite": "ours"}
    assert list(census(Findings.of(run).peers)) == ["beside `sqlite`, of 1 row ours is faster in 1, slower in 0"]


def test_a_floor_is_no_peer_and_a_peer_is_no_floor() -> None:
    run = beside_sqlite(ratio=0.5)
    assert "floor" not in outcomes(run) and "sqlite" not in section(rendered(run), "Floors")
    found = Findings.of(run)
    assert [(held.goal, held.standing) for held in found.held if held.is_peer] == [(None, None)]
    assert len(found.floors) == len(found.held) - 1


def test_without_peers_nothing_is_compared() -> None:
    assert "not run: no peer has a row in this run" in told(a_run())
