"""The report: the page's own words and figures, in one file that asks for nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from run_benches.analysis.findings import Findings
from run_benches.render import document, page, report
from run_benches.render.gallery import pictures
from run_benches.store import runs
from run_benches.tests.checkout import Checkout
from run_benches.tests.test_document import HEADERS, a_run

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><text>7 &lt; 8</text></svg>'


class Read(HTMLParser):
    """The words that a reader sees, and what a browser would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def whole() -> tuple[str, str]:
    markdown = report.joined(page.render(Findings.of(a_run()), HEADERS, None))
    return markdown, report.page(markdown, {picture.file: SVG for picture in pictures(Findings.of(a_run())).values()})


def test_it_says_what_the_page_says_and_no_figure_more() -> None:
    markdown, rendered = whole()
    seen = " ".join(Read(rendered).words)
    assert numbers(seen) == numbers(markdown.replace("<!--", "").replace("-->", ""))
    for heading in re.findall(r"^## (.*)$", markdown, re.MULTILINE):
        assert seen.count(heading) >= 2, f"{heading} stands in the contents and on the page"


def test_it_opens_with_what_was_found_and_the_ladder_and_holds_every_page() -> None:
    markdown, _ = whole()
    titles = re.findall(r"^## (.*)$", markdown, re.MULTILINE)
    assert titles[:2] == ["What was found", "The ladder"]
    assert {"All figures: storage", "All figures: Bottlenecks", "All figures: Method"} <= set(titles)
    assert ".md)" not in markdown and "A part of" not in markdown


def test_the_details_of_the_machine_are_folded() -> None:
    _, rendered = whole()
    folded = rendered.split("<details>")
    assert any("architecture" in part.split("</details>")[0] for part in folded[1:])
    assert rendered.count("<details>") == rendered.count("</details>")


def test_it_needs_nothing_but_itself() -> None:
    _, rendered = whole()
    read = Read(rendered)
    assert "script" not in {tag for tag, _ in read.tags} and "link" not in {tag for tag, _ in read.tags}
    sources = [attrs["src"] for tag, attrs in read.tags if "src" in attrs]
    assert sources and all(source and source.startswith("data:") for source in sources)
    assert "url(" not in rendered and "@import" not in rendered


def test_every_line_of_the_contents_leads_somewhere() -> None:
    _, rendered = whole()
    read = Read(rendered)
    anchors = [attrs["id"] for _, attrs in read.tags if attrs.get("id")]
    assert len(anchors) == len(set(anchors))
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert links and {str(link) for link in links} <= {f"#{anchor}" for anchor in anchors}


def test_equal_headings_get_anchors_of_their_own_and_text_stays_text() -> None:
    rendered = report.page("# A & B\n\n## Same\n\n## Same\n\n1 <b>2</b> `<c>`\n\n<script>alert(1)</script>\n", {})
    read = Read(rendered)
    assert [attrs["id"] for tag, attrs in read.tags if tag == "h2"] == ["same", "same-2"]
    assert not {"b", "c", "script"} & {tag for tag, _ in read.tags}
    assert "<title>A &amp; B</title>" in rendered and "<b>2</b>" in "".join(read.words)


def test_the_run_is_the_last_one_or_else_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    assert report.default_run() == document.reference()
    (tmp_path / "20260102T030405Z-abc.json").touch()
    (tmp_path / "20260101T030405Z-abc.json").touch()
    assert report.default_run().name == "20260102T030405Z-abc.json"


def test_a_run_that_is_not_there_is_one_line(checkout: Checkout) -> None:
    assert "no stored run 'nosuch'" in checkout.error("report", "nosuch")
