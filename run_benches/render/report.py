"""`report`: the performance pages of a run as one HTML file that needs nothing else, for sending and for looking at.

Why from the pages' Markdown and not from the run: two renderings of one run would say two things one day. So whatever
is said is said by page.py, and here it only gets a form: first what was found and the ladder, then the rest of the main
page and the other pages, one after the other; links between pages lead to their places in the file. There are a table
of contents, tables that scroll in themselves, pictures inside of the file, and beside each block of figures the command
and the revision that it comes from. There is no script: what is to be read is there.
"""

import base64
import html
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from run_benches import files, places
from run_benches.errors import Exit
from run_benches.places import shown
from run_benches.render import document
from run_benches.store import runs

TEMPLATE = Path(__file__).with_suffix(".html")
_FOLD = re.compile(r"<details><summary>[^<>]*</summary>|</details>")
_BEGIN = re.compile(r"<!-- BEGIN (?P<name>.*?): (?P<origin>.*) -->")


def main(run_path: Path, output: Path | None) -> Exit:
    """Renders the report of a stored run and says where it is."""
    _, texts, pictures = document.contents(run_path)
    file = output or places.RUNS / run_path.stem / "report.html"
    (files.write if output else files.replace)(
        file, page(joined(texts), {picture.file: picture.svg() for picture in pictures})
    )
    print(
        f"wrote {shown(file)} from {shown(run_path)}: one file, to be opened in a browser",
        file=sys.stderr if output else sys.stdout,
    )
    return Exit.FINE


def default_run() -> Path:
    """The run that a report is of if none is named: the last one of this checkout, or else the one of the performance
    page."""
    past = runs.stored_runs()
    return past[-1] if past else document.reference()


def joined(texts: Mapping[str, str]) -> str:
    """The pages as one, the main page first."""
    main, *others = (_without_ways(text) for text in texts.values())
    return "\n".join([_ladder_first(main), *(_demoted(text) for text in others)])


_LADDER = "## The ladder\n"
_FOUND = "## What was found\n"
_OTHER = "All figures: "
"""The beginning of the heading of a page that follows the main one, so that its anchor is unlike those of the main
page."""


def _ladder_first(text: str) -> str:
    """The main page with the ladder right behind what was found."""
    parts = re.split(r"(?m)^(?=## )", text)
    ladder = [part for part in parts if part.startswith(_LADDER)]
    rest = [part for part in parts if not part.startswith(_LADDER)]
    after = next((at + 1 for at, part in enumerate(rest) if part.startswith(_FOUND)), len(rest))
    return "".join([*rest[:after], *ladder, *rest[after:]])


def _demoted(text: str) -> str:
    """A page as a section: its headings are one lower, and the way back is not needed."""
    text = re.sub(r"(?m)^(#+) ", r"#\1 ", text)
    return re.sub(r"^## (.*)\n\n.*\n", lambda found: f"## {_OTHER}{found[1]}\n", text, count=1)


def _without_ways(text: str) -> str:
    """Links to other pages become links to where these stand in the file."""
    return re.sub(r"\]\((?:[\w.-]+/)?([\w-]+)\.md\)", lambda found: f"](#{_anchor(_OTHER + found[1])})", text)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"


def page(markdown: str, svgs: Mapping[str, str]) -> str:
    """The whole file. `svgs` are the pictures by the file name under which the Markdown shows them."""
    reader = MarkdownIt("commonmark", renderer_cls=_Renderer).enable("table")
    tokens = reader.parse(markdown)
    headings = _headings(tokens)
    body = reader.renderer.render(tokens, reader.options, {"svgs": svgs})
    contents = "\n".join(
        f'<li><a href="#{anchor}">{html.escape(title)}</a></li>' for level, title, anchor in headings if level == "h2"
    )
    title = next((title for level, title, _ in headings if level == "h1"), "Performance")
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(title), contents=contents, body=body
    )


def _headings(tokens: Sequence[Token]) -> list[tuple[str, str, str]]:
    """Gives every heading an anchor of its own; returns level, title and anchor of each."""
    found: list[tuple[str, str, str]] = []
    taken: set[str] = set()
    for opening, inline in itertools.pairwise(tokens):
        if opening.type != "heading_open":
            continue
        name = _anchor(inline.content)
        anchor = next(
            one for one in (name, *(f"{name}-{number}" for number in range(2, len(tokens)))) if one not in taken
        )
        taken.add(anchor)
        opening.attrSet("id", anchor)
        found.append((opening.tag, inline.content, anchor))
    return found


class _Renderer(RendererHTML):
    """Markdown's elements as this page wants them; found by the names of the tokens."""

    def table_open(self, tokens: Sequence[Token], number: int, options: OptionsDict, env: EnvType) -> str:
        """A table scrolls in itself, also with the keys, so that the page never does."""
        return '<div class="table" role="region" aria-label="table" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], number: int, options: OptionsDict, env: EnvType) -> str:
        """Closes the table and what it scrolls in."""
        return "</table></div>\n"

    def image(self, tokens: Sequence[Token], number: int, options: OptionsDict, env: EnvType) -> str:
        """A picture inside of the file, by itself: the names within two pictures would meet if they stood in one
        document. What it shows is said below it, for everybody."""
        file = str(tokens[number].attrs["src"]).rpartition("/")[2]
        data = base64.b64encode(env["svgs"][file].encode()).decode()
        return (
            f'<img alt="" src="data:image/svg+xml;base64,{data}"><small>{html.escape(tokens[number].content)}</small>'
        )

    def html_block(self, tokens: Sequence[Token], number: int, options: OptionsDict, env: EnvType) -> str:
        """The marks around figures become a line that says where they come from; what is folded stays folded; there is
        no other HTML."""
        if _FOLD.fullmatch(tokens[number].content.strip()):
            return tokens[number].content
        found = _BEGIN.match(tokens[number].content)
        return (
            f'<p class="origin">{html.escape(found["name"])}: <code>{html.escape(found["origin"])}</code></p>\n'
            if found
            else ""
        )

    def html_inline(self, tokens: Sequence[Token], number: int, options: OptionsDict, env: EnvType) -> str:
        """Escapes what looks like HTML in a sentence: it was meant to be read."""
        return html.escape(tokens[number].content)
