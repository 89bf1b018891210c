"""`document --screenshots`: takes the pictures of pages that a browser shows, where the stored ones are not of the
pages as they are now.

The console is shown by the server as it is built, over a small shop; the page of a load test is of a stored run.
"""

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from run_benches import files
from run_benches.analysis.load_findings import LoadFindings
from run_benches.cli import serving
from run_benches.errors import UserError
from run_benches.measure import build
from run_benches.places import shown
from run_benches.render import document, load_pictures, load_report, report, screenshots
from run_benches.render.screenshots import Screenshot
from run_benches.setup import browser
from run_benches.setup.browser import Tab


def take() -> None:
    """Takes those that are not of the present pages; says which."""
    found: list[tuple[Screenshot, Callable[[Screenshot], bytes]]] = [(screenshots.console(), _console)]
    if tested := document.load_tests().get(screenshots.SCENARIO):
        found.append((screenshots.of_load_page(tested), partial(_page, tested)))
    for picture, taken in found:
        if picture.fault():
            files.replace(screenshots.FOLDER / picture.file, picture.sealed(taken(picture)))
            print(f"took {shown(screenshots.FOLDER / picture.file)}", file=sys.stderr)


def _console(picture: Screenshot) -> bytes:
    build.programs("strata")
    with serving.running(screenshots.SHOP) as url:
        for table, records in screenshots.records().items():
            body, headers = json.dumps(records).encode(), {"content-type": "application/json"}
            urllib.request.urlopen(urllib.request.Request(f"{url}/{table}", body, headers), timeout=60).close()

        def show(tab: Tab) -> None:
            tab.open(f"{url}/_console#Product?{urllib.parse.quote(screenshots.QUERY)}")
            tab.wait_for(
                "document.querySelectorAll('#rows tbody tr').length == 8 && !document.querySelector('#plan').hidden"
            )

        return _taken(picture, show)


def _page(tested: LoadFindings, picture: Screenshot) -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        drawn = load_pictures.pictures(tested)
        file.write_text(
            report.page(load_report.page(tested, drawn), {picture.file: picture.svg() for picture in drawn}),
            encoding="utf-8",
        )

        def show(tab: Tab) -> None:
            tab.open(file.as_uri())
            tab.wait_for("document.readyState == 'complete' && document.images.length")

        return _taken(picture, show)


def _taken(picture: Screenshot, show: Callable[[Tab], None]) -> bytes:
    chosen = browser.found()
    if chosen is None:
        raise UserError("no browser takes pictures of pages here: with Debian, apt-get install chromium")
    with TemporaryDirectory() as folder:
        with Tab(chosen, Path(folder) / "profile") as tab:
            tab.look(picture.width, picture.height)
            tab.call("Emulation.setScrollbarsHidden", hidden=True)
            show(tab)
            tab.picture(Path(folder) / "picture.png")
        return (Path(folder) / "picture.png").read_bytes()
