"""The report, and the page of a load test, in a real browser: nothing is complained about, nothing is broken, and no
page is wider than its screen.

Not collected with the other tests, since not every machine has a browser: a step of its own, which says how to get one.
"""

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from run_benches.analysis.findings import Findings
from run_benches.analysis.load_findings import LoadFindings
from run_benches.render import gallery, load_pictures, load_report, page, report
from run_benches.render.pictures import Picture
from run_benches.setup import browser
from run_benches.tests.made_up import a_load_run
from run_benches.tests.test_document import HEADERS, a_run

LOOK = """<!DOCTYPE html><iframe style="width: {width}px; height: 2000px; border: 0" srcdoc="{document}"></iframe><pre></pre><script>
document.querySelector("iframe").onload = ({{target}}) => {{
  const seen = target.contentDocument;
  document.querySelector("pre").textContent = JSON.stringify({{
    overflow: seen.documentElement.scrollWidth - seen.documentElement.clientWidth,
    broken: [...seen.images].filter(image => !image.naturalWidth).length,
    images: seen.images.length,
    ground: target.contentWindow.getComputedStyle(seen.body).backgroundColor,
  }});
}};
</script>"""


@pytest.mark.parametrize("width", [400, 1280])
def test_the_report_is_whole_and_fits(width: int, tmp_path: Path) -> None:
    drawn = gallery.pictures(Findings.of(a_run()))
    looked_at(report.joined(page.render(Findings.of(a_run()), HEADERS, None)), list(drawn.values()), width, tmp_path)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_of_a_load_test_is_whole_and_fits(width: int, tmp_path: Path) -> None:
    found = LoadFindings.of(a_load_run())
    drawn = load_pictures.pictures(found)
    looked_at(load_report.page(found, drawn), drawn, width, tmp_path)


def looked_at(markdown: str, drawn: Sequence[Picture], width: int, tmp_path: Path) -> None:
    """Shows a page in a frame of this width and measures it there."""
    rendered = report.page(markdown, {picture.file: picture.svg() for picture in drawn})
    file = tmp_path / "look.html"
    file.write_text(LOOK.format(width=width, document=html.escape(rendered)), encoding="utf-8")
    chosen = browser.found()
    assert chosen
    dom, errors = browser.shown(chosen, file, tmp_path / "profile")
    result = re.findall(r"<pre>(\{.*?\})</pre>", dom)
    assert result and not errors, errors
    assert json.loads(html.unescape(result[0])) == {
        "overflow": 0,
        "broken": 0,
        "images": markdown.count("!["),
        "ground": "rgb(255, 255, 255)",
    }
