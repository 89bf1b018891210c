"""Others beside ours: wins and losses alike, and no goal."""

from run_benches.analysis.findings import Findings
from run_benches.analysis.peers import census
from run_benches.render import peers
from run_benches.render.source import Source
from run_benches.store.runs import Ratio, Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with, rendered, section

CASE = "0_indexes_1_thread"


def beside_sqlite(ratio: float = 2.0) -> Run:
    """SQLite takes `ratio` times as long as ours to read; two codecs beside ours, one faster and one slower."""
    run = a_run()
    run.benches[f"integration/read/sqlite/{CASE}"] = made_up.bench(1210 * ratio, "one read", indexes=0)
    run.ratios[f"integration/read/strata/{CASE}"] = Ratio(
        "ran", [], f"integration/read/sqlite/{CASE}", None, None, [ratio] * 8, ratio, ratio * 0.98, ratio * 1.02
    )
    made_up.family(run, [f"integration/read/strata/{CASE}", f"integration/read/sqlite/{CASE}"])
    codecs = {"strata": (300, 1050), "bincode": (30, 760), "serde_json": (450, 1050)}
    for codec, (time_ns, size) in codecs.items():
        run.benches[f"encoding/encode/{codec}/1_kb"] = made_up.bench(
            time_ns, f"encodes a record by {codec}", bytes_per_operation=float(size)
        )
    return made_up.family(run, [f"encoding/encode/{codec}/1_kb" for codec in codecs])


def told(run: Run) -> str:
    return "\n".join(peers.section(Source(Findings.of(run), {}, {})))


def of_layer(run: Run, layer: str) -> str:
    return "\n".join(peers.layer_tables(Source(Findings.of(run), {}, {}), layer))


def test_a_line_tells_wins_and_losses_alike_and_the_ends_with_their_intervals() -> None:
    text = told(beside_sqlite())
    assert line_with(text, "| `sqlite` |").endswith(
        "| 1 | 1 | 0 | 0 | 0 | 2.00x [1.99x, 2.01x] `read/0_indexes_1_thread` | the only one |"
    )
    assert "| 1 | 0 | 1 | 0 | 0 | 0.100x [0.0996x, 0.100x] `encode/1_kb` |" in line_with(text, "| `bincode` |")


def test_on_the_page_of_the_layer_every_row_says_what_it_does_and_how_large_it_is() -> None:
    text = of_layer(beside_sqlite(), "encoding")
    assert line_with(text, "| strata |").startswith(
        "| `encode/1_kb` | strata | encodes a record by strata | 300 ns (294 to 309 ns) | ours | 1050 |"
    )
    assert "| 1.50x [1.49x, 1.51x], ours faster | 1050 |" in line_with(
        text, "| the same | serde_json | encodes a record by serde_json |"
    )
    assert "| 0.100x [0.0996x, 0.100x], ours slower | 760 |" in line_with(text, "| the same | bincode |")


def test_the_census_counts_losses_beside_wins() -> None:
    assert list(census(Findings.of(beside_sqlite(ratio=0.5)).peers))[-1] == (
        "beside `sqlite`, of 1 row ours is faster in 0, slower in 1"
    )


def test_an_interval_that_holds_one_tells_neither() -> None:
    assert "slower in 0, the same within 2 % in 1" in list(census(Findings.of(beside_sqlite(ratio=1.0)).peers))[-1]


def test_too_few_tuples_tell_neither() -> None:
    run = beside_sqlite()
    del run.contrasts["encoding/encode/bincode/1_kb"]["encoding/encode/strata/1_kb"][3:]
    assert "| not resolved (3 tuples: too few for an interval) |" in line_with(
        of_layer(run, "encoding"), "| the same | bincode |"
    )


def test_figures_of_other_kinds_and_rows_without_turns_form_no_ratio() -> None:
    run = beside_sqlite()
    run.benches["encoding/encode/bincode/1_kb"].facts.unit = "bytes"
    run.contrasts.pop("encoding/encode/serde_json/1_kb")
    for peer in ("bincode", "serde_json"):
        assert "| not run: the two took no turns |" in line_with(of_layer(run, "encoding"), f"| the same | {peer} |")


def test_a_floor_is_no_peer_and_a_peer_is_no_floor() -> None:
    run = beside_sqlite(ratio=0.5)
    assert "storage" not in told(run)
    assert "sqlite" not in section(rendered(run), "Floors")
    found = Findings.of(run)
    assert {held.verdict for held in found.held if held.is_peer} == {"a peer, no goal"}
    assert len(found.floors) == len(found.held) - 1


def test_without_peers_nothing_is_compared() -> None:
    assert "not run: no peer has a row in this run" in told(a_run())
