"""The drawing of the layers: what the code lists is what is drawn."""

import xml.etree.ElementTree
from pathlib import Path

from run_benches import places
from run_benches.analysis.ladder import RUNGS
from run_benches.render import layers_drawing


def texts() -> list[str]:
    return [
        element.text or ""
        for element in xml.etree.ElementTree.fromstring(layers_drawing.svg()).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_every_module_is_drawn_highest_first_and_every_rung_of_the_ladder() -> None:
    names = [layer.name for layer in layers_drawing.modules(places.ROOT / "src")]
    drawn = [text for text in dict.fromkeys(texts()) if text in names]
    assert drawn == names[::-1]
    rungs = {rung for text in texts() for rung in text.split(", ")}
    assert {"driver", "ingress_cpu", "tcp", "raw"} <= set(layers_drawing.rungs()) <= rungs
    assert set(layers_drawing.rungs()) <= set(RUNGS)


def test_a_layer_is_told_in_the_words_of_its_own_header(tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text(
        "pub use one::One;\nmod layers {\n    pub(crate) mod plant;\n    pub mod one;\n}\n/// Not pub mod three;\npub mod two;\n"
    )
    (tmp_path / "one.rs").write_text("//! Who holds which key: an array, and more.\n//!\n//! Why.\n")
    (tmp_path / "two.rs").write_text("//! Queries: text to tree, tree to plan. More.\n")
    told = [(layer.name, layer.words) for layer in layers_drawing.modules(tmp_path)]
    assert told == [("one", "Who holds which key"), ("two", "text to tree, tree to plan")]
