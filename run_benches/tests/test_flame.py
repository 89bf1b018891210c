"""Flame graphs: widths are shares, and the picture is well-formed and says in words what its colours say."""

import xml.etree.ElementTree as ET

import pytest

from run_benches.render import flame
from run_benches.render.flame import Frame

MAIN, GET, PUT = (
    Frame("bench::main", "bench"),
    Frame("strata::storage::Store<T>::get & more", "storage"),
    Frame("strata::storage::put", "storage"),
)
COPY = Frame("memcpy", "C library")
STACKS = {(MAIN,): 10.0, (MAIN, GET): 30.0, (MAIN, GET, COPY): 20.0, (MAIN, PUT, COPY): 40.0}
SVG = "{http://www.w3.org/2000/svg}"


def rectangles(svg: str) -> list[tuple[str, float, float, float, str]]:
    """Tooltip, left, width, top and colour of each box."""
    found = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None and title.text and box is not None
        found.append(
            (title.text, float(box.attrib["x"]), float(box.attrib["width"]), float(box.attrib["y"]), box.attrib["fill"])
        )
    return found


def test_a_box_is_as_wide_as_all_that_lies_on_it() -> None:
    shares = {box.stack: box.share for box in flame.boxes(STACKS)}
    assert shares == {(MAIN,): 1.0, (MAIN, GET): 0.5, (MAIN, GET, COPY): 0.2, (MAIN, PUT): 0.4, (MAIN, PUT, COPY): 0.4}
    lefts = {box.stack: box.left for box in flame.boxes(STACKS)}
    assert lefts[MAIN, PUT] == pytest.approx(0.5) and lefts[MAIN, PUT, COPY] == lefts[MAIN, PUT]


def test_a_drawn_box_lies_on_its_caller() -> None:
    drawn = rectangles(flame.draw("row", ["note"], STACKS))
    assert len(drawn) == 5
    base = drawn[0]
    assert base[0] == "bench::main (bench): 100 %"
    second = [box for box in drawn if box[3] == base[3] - 17]
    assert sum(box[2] for box in second) == pytest.approx(0.9 * base[2], abs=0.05)
    for _, left, width, top, _ in drawn[1:]:
        assert any(
            under[3] == top + 17 and under[1] - 0.02 <= left and left + width <= under[1] + under[2] + 0.02
            for under in drawn
        )


def test_colours_are_named_and_pale_boxes_keep_dark_text() -> None:
    svg = flame.draw("row <1>", ["4 samples"], STACKS)
    words = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    assert words[:5] == ["row <1>", "4 samples", "C library 60 %", "storage 30 %", "bench 10 %"]
    assert any(word == "strata::storage::Store<T>::get & more" for word in words)


def test_a_text_is_cut_to_its_box_and_its_end_stays() -> None:
    long = Frame("rocksdb::" + "x" * 300 + "::Get", "RocksDB")
    texts = [text.text or "" for text in ET.fromstring(flame.draw("row", [], {(long,): 1.0})).iter(f"{SVG}text")]
    assert texts[-1].startswith("..") and texts[-1].endswith("::Get") and len(texts[-1]) * 6.7 <= 1180


def test_a_difference_is_orange_where_more_blue_where_less() -> None:
    before = {(MAIN,): 10.0, (MAIN, GET): 70.0, (MAIN, PUT, COPY): 20.0}
    colours = {
        title.split(" (")[0]: (title, colour)
        for title, _, _, _, colour in rectangles(flame.draw("row", [], STACKS, before))
    }
    assert colours["bench::main"] == ("bench::main (bench): 100 %, before 100 %", "#e2e4e7")
    red, _, blue = (int(colours["strata::storage::put"][1][at : at + 2], 16) for at in (1, 3, 5))
    assert red > blue and colours["strata::storage::put"][0].endswith("40 %, before 20 %")
    red, _, blue = (int(colours[GET.function][1][at : at + 2], 16) for at in (1, 3, 5))
    assert blue > red and colours[GET.function][0].endswith("50 %, before 70 %")


def test_what_is_too_narrow_to_be_seen_is_not_drawn() -> None:
    assert len(rectangles(flame.draw("row", [], {(MAIN,): 1e6, (MAIN, GET): 1.0}))) == 1
