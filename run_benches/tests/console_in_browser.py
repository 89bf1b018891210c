"""The console in a real browser, on a real server: it shows the tables, runs queries, and asks nobody but its server.

Not collected with the other tests, as the report in a browser is not: a step of its own, which says how to get a
browser. The server is the binary as it is built, so that what is looked at is what people get.
"""

import json
import re
import struct
import subprocess
import threading
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from run_benches.cli import serving
from run_benches.setup import browser

SCHEMA = """
type Brand @table @export { id: ID! @primaryKey  name: String! @indexed  products: [Product] @relationship(to: "brandId") }
type Product @table(durability: "strong") @export {
  id: ID! @primaryKey  name: String!  category: String @indexed  price: Float @indexed  serial: Int
  note: String  brandId: ID @indexed  brand: Brand @relationship(from: "brandId")
}
type Empty @table @export { id: ID! @primaryKey  name: String! }
type Click @stream(partitions: 2) @export
type Audit @stream @export
"""

REGISTRY = """
type Device @table(expiration: 3600) @multicast @export { id: ID! @primaryKey  room: String @indexed  ttl: Int @ttl }
type Plain @table @export { id: ID! @primaryKey }
"""

PHOTOS = """
type Photo @table @export { id: ID! @primaryKey  free: Blob  listed: Blob @thumb(sizes: ["900x900", "30x0"]) }
"""

LONG = 9007199254740993
"""An integer that is none of JavaScript's."""


@pytest.fixture(scope="module")
def built() -> None:
    assert serving.build()


@pytest.fixture
def server(built: None) -> Iterator[str]:
    """The URL of a server with a small shop."""
    with serving.running(SCHEMA) as url:
        send(f"{url}/Brand", [{"id": "nord", "name": "Nord & Söhne"}, {"id": "keen*(1)", "name": "<b>Keen</b>"}])
        send(f"{url}/Product", [product(number) for number in range(60)])
        yield url


@pytest.fixture
def registry(built: None) -> Iterator[str]:
    """The URL of a server with three registrations."""
    with serving.running(REGISTRY) as url:
        send(
            f"{url}/Device",
            [
                {"id": "d1", "room": "r1"},
                {"id": "d2", "room": "r1", "ttl": 200},
                {"id": "d/3 <ü>", "room": "r2", "ttl": 31536000},
            ],
        )
        yield url


def product(number: int) -> dict[str, Any]:
    made = {
        "id": f"p{number:02}",
        "name": f"Lamp {number}",
        "category": "light" if number % 2 else "seat",
        "price": number + 0.5,
        "serial": LONG,
    }
    return made | {
        "brandId": [None, "nord", "keen*(1)"][number % 3],
        "note": "<img src=x onerror=alert(1)>" if number == 1 else None,
    }


def send(url: str, body: Any, method: str = "POST") -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status in (200, 201, 202)


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[browser.Tab]:
    chosen = browser.found()
    assert chosen
    with browser.Tab(chosen, tmp_path / "profile") as opened:
        opened.look(1280, 900)
        yield opened


def run(tab: browser.Tab, query: str, control: bool = False) -> None:
    """Types a query in place of the one that is there, and runs it by the keyboard."""
    tab.evaluate("document.querySelector('#query').focus(), document.querySelector('#query').select()")
    tab.type(query)
    tab.press("Enter", 13, control)


def rows(tab: browser.Tab) -> list[list[str]]:
    """The table as it is read, its head first."""
    found: list[list[str]] = tab.evaluate(
        "[...document.querySelectorAll('#rows tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return found


def settled(tab: browser.Tab, count: int) -> None:
    """Waits for so many rows, and for their plan."""
    tab.wait_for(
        f"document.querySelectorAll('#rows tbody tr').length == {count} && !document.querySelector('#plan').hidden"
    )


def fits(tab: browser.Tab) -> bool:
    return bool(tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def only_the_server(tab: browser.Tab, url: str) -> None:
    """Nothing was complained about, and nobody else was asked."""
    assert not tab.errors
    assert {request.partition(":")[0] for request in tab.requests} <= {"http", "data", "about"}
    assert all(request.startswith(f"{url}/") for request in tab.requests if request.startswith("http"))


def test_the_tables_a_query_its_rows_its_plan_and_its_time(server: str, tab: browser.Tab) -> None:
    tab.open(f"{server}/")
    settled(tab, 2)
    tab.wait_for("document.querySelector('[data-count=Empty]').innerText == '0'")
    assert tab.evaluate("location.pathname") == "/_console"
    tables = tab.evaluate("[...document.querySelectorAll('#tables a')].map(link => link.innerText.split(/\\s+/))")
    assert tables == [["Brand", "2"], ["Product", "60"], ["Empty", "0"]]
    assert rows(tab)[1][1:] == ["keen*(1)", "<b>Keen</b>"], "records are text"

    tab.evaluate("document.querySelector('#tables a[data-table=Product]').click()")
    settled(tab, 25)
    attributes = tab.evaluate(
        "[...document.querySelectorAll('#attributes tr')].map(row => [...row.cells].map(cell => cell.innerText).join(' '))"
    )
    assert (
        attributes[2:4] == ["category String ordered", "price Float ordered"]
        and attributes[-1] == "brand Brand by brandId"
    )
    assert rows(tab)[1][5] == str(LONG), "to its last digit"

    run(tab, "category==light&price=gt=50&sort=-price&select=name,price,brand{name}", control=True)
    settled(tab, 5)
    assert rows(tab)[:3] == [
        ["Record", "name", "price", "brand.name"],
        ["1", "Lamp 59", "59.5", "<b>Keen</b>"],
        ["2", "Lamp 57", "57.5", "null"],
    ]
    # The plan comes after the rows; until then, that of the query before is there.
    tab.wait_for("document.querySelector('#steps').innerText.includes('Index price (ordered), 1 range')")
    assert "filter: category==light" in tab.evaluate("document.querySelector('#steps').innerText")
    assert tab.evaluate("document.querySelector('#plan-facts').innerText").startswith("10 records examined")
    status = tab.evaluate("document.querySelector('#status').innerText")
    assert "5 rows" in status and " ms" in status
    only_the_server(tab, server)


def test_pages_links_and_addresses(server: str, tab: browser.Tab) -> None:
    tab.open(f"{server}/_console#Product?{urllib.parse.quote('sort=price&limit=50')}")
    settled(tab, 50)
    tab.evaluate("document.querySelector('#next').click()")
    tab.wait_for("document.querySelectorAll('#rows tbody tr').length == 10")
    tab.evaluate("document.querySelector('#first').click()")
    settled(tab, 50)
    tab.evaluate("document.querySelectorAll('#rows tbody a')[1].click()")
    tab.wait_for("document.querySelector('#name').innerText == 'Brand'")
    settled(tab, 1)
    assert rows(tab)[1][1] == "keen*(1)", "the foreign key leads to its record, whatever stands in it"
    tab.evaluate("history.back()")
    settled(tab, 50)
    tab.evaluate("document.querySelector('#rows tbody button').click()")
    assert json.loads(tab.evaluate("document.querySelector('#record[open] pre').innerText"))["serial"] == LONG
    tab.press("Escape", 27)
    tab.wait_for("!document.querySelector('#record').open")
    only_the_server(tab, server)


def test_what_is_wrong_is_shown_where_it_is(server: str, tab: browser.Tab) -> None:
    tab.open(f"{server}/_console#Product")
    settled(tab, 25)
    run(tab, "name==Lämp&prize=gt=1")
    tab.wait_for("!document.querySelector('#problem').hidden")
    assert "prize" in tab.evaluate("document.querySelector('#problem strong').innerText")
    before, marked = tab.evaluate(
        "[document.querySelector('#problem mark').previousSibling.data, document.querySelector('#problem mark').innerText]"
    )
    assert (before, marked) == ("name==Lämp&", "prize")
    # The browser itself says on the console that the answer was a 400.
    assert len(tab.errors) == 1 and "400" in tab.errors[0]
    run(tab, "limit=3")
    settled(tab, 3)
    assert tab.evaluate("document.querySelector('#problem').hidden")
    tab.evaluate("location.hash = '#Nope?limit=1'")
    tab.wait_for(
        "document.querySelector('#none').innerText == 'There is no table Nope.' && document.querySelector('#table').hidden"
    )
    tab.evaluate("location.hash = '#Product'")
    tab.wait_for("document.querySelector('#none').hidden && !document.querySelector('#table').hidden")


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_is_readable_in_the_light_and_in_the_dark(server: str, tab: browser.Tab, dark: bool) -> None:
    tab.look(360, 800, dark)
    tab.open(f"{server}/_console#Product")
    settled(tab, 25)
    assert fits(tab)
    ground, ink = tab.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert (luminance(ground) < 0.2) == dark
    lighter, darker = sorted((luminance(ground), luminance(ink)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) > 7, "WCAG, AAA"
    tab.look(1280, 900, dark)
    assert fits(tab)
    tab.evaluate("document.body.focus()")
    tab.press("Tab", 9)
    assert tab.evaluate("document.activeElement.className") == "skip", "a keyboard comes to the query at once"
    only_the_server(tab, server)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_graphiql_asks_and_shows_dialogs(server: str, tab: browser.Tab) -> None:
    tab.open(f"{server}/_console/graphiql.html")
    tab.wait_for(
        "document.querySelector('.graphiql-query-editor .CodeMirror') && document.querySelector('.graphiql-execute-button')"
    )
    tab.evaluate(
        "document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.setValue('{ Product(id: \"p01\") { name serial brand { name } } }')"
    )
    tab.evaluate("document.querySelector('.graphiql-execute-button').click()")
    tab.wait_for("document.querySelector('.result-window').innerText.includes('Nord & Söhne')")
    # The schema was read, and the dialogs bring their styles.
    tab.evaluate("document.querySelector('[aria-label=\"Show Documentation Explorer\"]').click()")
    tab.wait_for("document.querySelector('.graphiql-plugin').innerText.includes('Query')")
    tab.evaluate("document.querySelector('[aria-label=\"Open settings dialog\"]').click()")
    tab.wait_for("document.querySelector('.graphiql-dialog')")
    only_the_server(tab, server)


def test_an_empty_table_says_how_to_fill_it(server: str, tab: browser.Tab) -> None:
    tab.open(f"{server}/_console#Empty")
    tab.wait_for("document.querySelector('#rows .note code')")
    command = tab.evaluate("document.querySelector('#rows .note code').innerText")
    created = subprocess.run(
        ["sh", "-c", command.replace("curl", "curl -s")], capture_output=True, text=True, check=False
    )
    assert json.loads(created.stdout)["name"] == "text", created.stderr
    run(tab, "name==none")
    tab.wait_for("document.querySelector('#rows .note').innerText == 'No records match the query.'")
    only_the_server(tab, server)


def cells(tab: browser.Tab, place: str) -> list[list[str]]:
    """A table of the page of streams as it is read, without its head."""
    found: list[list[str]] = tab.evaluate(
        f"[...document.querySelectorAll('#{place} tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return found


def test_streams_their_groups_their_latest_events_and_what_is_done_with_them(server: str, tab: browser.Tab) -> None:
    tab.open(f"{server}/_console/streams.html")
    tab.wait_for("document.querySelector('#name')?.innerText == 'Click'")
    assert tab.evaluate("[...document.querySelectorAll('#streams a')].map(link => link.innerText.split(/\\s+/))") == [
        ["Click", "0"],
        ["Audit", "0"],
    ]
    assert tab.evaluate("document.querySelector('#events').innerText") == "No events are kept."
    events = [
        {"payload": {"n": LONG, "html": "<b>no</b>"}, "partition": number % 2, "key": f"k{number}"}
        for number in range(60)
    ]
    send(f"{server}/Click/bulk", {"records": events})
    send(f"{server}/Click", events[0])
    send(f"{server}/Click/consumers/mail", {"offsets": [{"partition": 1, "offset": 12}]}, "PUT")
    # It looks again by itself.
    tab.wait_for(
        "document.querySelector('#groups tbody') && document.querySelectorAll('#events tbody tr').length == 20"
    )
    assert [row[:4] for row in cells(tab, "partitions")] == [["0", "0", "31", "31"], ["1", "0", "30", "30"]]
    assert cells(tab, "groups") == [["mail", "1", "12", "18"]]
    latest = cells(tab, "events")
    assert [latest[0][0], *latest[0][2:]] == ["30", "k0", f'{{"n":{LONG},"html":"<b>no</b>"}}'], (
        "the newest first, as text, to the last digit"
    )
    activity = {row[0]: row[1:5] for row in cells(tab, "activity")}
    assert activity["single appends"] == ["1", "1", "0", "–"] and activity["bulk appends"] == ["1", "60", "0", "–"]
    tab.evaluate(
        "document.querySelector('#partition').selectedIndex = 1, document.querySelector('#partition').dispatchEvent(new Event('change'))"
    )
    tab.wait_for("document.querySelector('#events tbody td').innerText == '29'")
    tab.evaluate("document.querySelector('#streams li:nth-child(2) a').click()")
    tab.wait_for("document.querySelector('#name').innerText == 'Audit'")
    tab.evaluate("location.hash = '#Nope'")
    tab.wait_for(
        "document.querySelector('#none').innerText == 'There is no stream Nope.' && document.querySelector('#stream').hidden"
    )
    only_the_server(tab, server)


def test_the_page_of_streams_fits_and_pauses(server: str, tab: browser.Tab) -> None:
    tab.look(360, 800)
    tab.open(f"{server}/_console/streams.html#Click")
    tab.wait_for("document.querySelector('#name')?.innerText == 'Click'")
    assert fits(tab)
    tab.look(1280, 900)
    assert fits(tab)
    tab.evaluate("document.querySelector('#pause').click()")
    assert (
        tab.evaluate(
            "document.querySelector('#pause').getAttribute('aria-pressed') + document.querySelector('#pause').innerText"
        )
        == "trueGo on"
    )
    only_the_server(tab, server)


def lives(tab: browser.Tab) -> list[str]:
    found: list[str] = tab.evaluate("[...document.querySelectorAll('.life')].map(cell => cell.innerText)")
    return found


def test_registrations_have_a_remaining_life(registry: str, tab: browser.Tab) -> None:
    tab.open(f"{registry}/_console#Device?{urllib.parse.quote('sort=id')}")
    settled(tab, 3)
    tab.wait_for("[...document.querySelectorAll('.life')].every(cell => cell.innerText != '…')")
    assert rows(tab)[0] == ["Record", "ends in", "id", "room", "ttl"]
    shapes = [r"36[45] d( \d+ h)?", r"59 min \d+ s|1 h", r"[23] min( \d+ s)?"]
    for shown, shape in zip(lives(tab), shapes, strict=True):
        assert re.fullmatch(shape, shown), shown
    left = "[...document.querySelectorAll('.life')[2].innerText.matchAll(/(\\d+) (min|s)/g)].reduce((sum, [, n, unit]) => sum + n * (unit == 's' ? 1 : 60), 0)"
    tab.wait_for(f"{left} <= {tab.evaluate(left) - 4}")
    # It is asked for again; what was renewed says so.
    send(f"{registry}/Device/d2", {}, "PATCH")
    tab.wait_for("document.querySelectorAll('.life')[2].innerText.includes('renewed')")
    # Without ids nobody can be asked.
    run(tab, "select=room")
    tab.wait_for("document.querySelectorAll('#rows th').length == 2 && !document.querySelector('.life')")
    only_the_server(tab, registry)


def png(width: int, height: int) -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x20\x60\xa0" * width) * height)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


def test_a_blob_that_is_a_picture_is_shown_as_a_thumbnail(built: None, tab: browser.Tab) -> None:
    with serving.running(PHOTOS) as url:
        send(f"{url}/Photo", [{"id": "a"}, {"id": "b"}, {"id": "c"}])
        for path, content in (("a/free", png(300, 200)), ("b/listed", png(300, 200)), ("c/free", b"no picture")):
            request = urllib.request.Request(
                f"{url}/Photo/{path}", content, {"content-type": "image/png"}, method="PUT"
            )
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 201
        tab.open(f"{url}/_console#Photo?sort=id")
        settled(tab, 3)
        tab.wait_for(
            "document.querySelectorAll('#rows img').length == 2 && [...document.querySelectorAll('#rows img')].every(one => one.complete)"
        )
        assert tab.evaluate(
            "[...document.querySelectorAll('#rows img')].map(one => [one.naturalWidth, one.naturalHeight])"
        ) == [[60, 40], [30, 20]]
        shown = [row[2:] for row in rows(tab)[1:]]
        assert [[cell.strip() for cell in row] for row in shown] == [
            ["/Photo/a/free", "null"],
            ["null", "/Photo/b/listed"],
            ["/Photo/c/free", "null"],
        ]
        assert fits(tab)


def listening(url: str, heard: list[Any]) -> threading.Thread:
    """Subscribes to one record until it has a message."""
    stream = urllib.request.urlopen(f"{url}/Device/d1?stream=sse")

    def listen() -> None:
        with stream:
            for line in stream:
                if line.startswith(b"data:") and b"message" in line:
                    heard.append(json.loads(line[5:])["message"])
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    return thread


def fill(tab: browser.Tab, box: str, text: str) -> None:
    tab.evaluate(f"document.querySelector('#{box}').focus(), document.querySelector('#{box}').select()")
    tab.type(text)


def test_a_message_is_sent_to_who_the_query_finds(registry: str, tab: browser.Tab) -> None:
    tab.open(f"{registry}/_console#Device")
    settled(tab, 3)
    assert (
        tab.evaluate("document.querySelector('#targets').value + document.querySelector('#send').innerText")
        == "Send to all"
    )
    run(tab, "room==r1&sort=-id&limit=1")
    settled(tab, 1)
    assert (
        tab.evaluate("document.querySelector('#targets').value + document.querySelector('#send').innerText")
        == "room==r1Send"
    )
    heard: list[Any] = []
    listener = listening(registry, heard)
    fill(tab, "message", '{"text":"<b>hi</b>"}')
    tab.press("Enter", 13, True)
    tab.wait_for("!document.querySelector('#receipt').hidden")
    facts = tab.evaluate("[...document.querySelectorAll('#receipt-facts span')].map(fact => fact.innerText)")
    assert facts[:-1] == ["to 2 records", "1 delivered", "1 absent", "0 pending", "0 failed"] and facts[-1].endswith(
        " ms"
    )
    assert cells(tab, "undelivered") == [["d2", "absent"]]
    listener.join(60)
    assert heard == [{"text": "<b>hi</b>"}]
    fill(tab, "targets", "")
    tab.evaluate("document.querySelector('#targets').value = '', document.querySelector('#send').click()")
    tab.wait_for("document.querySelector('#receipt-facts').innerText.includes('to 3 records')")
    assert "d/3 <ü>" in [row[0] for row in cells(tab, "undelivered")]
    only_the_server(tab, registry)
    tab.evaluate("location.hash = '#Plain'")
    tab.wait_for("document.querySelector('#name').innerText == 'Plain' && document.querySelector('#multicast').hidden")


def test_a_message_that_is_refused_says_why_and_where(registry: str, tab: browser.Tab) -> None:
    tab.open(f"{registry}/_console#Device")
    settled(tab, 3)
    for conditions, before, marked in [
        ("room==Ö'1&rom==2", "room==Ö'1&", "rom"),
        ("room==r1&limit=1", "room==r1&", "limit"),
    ]:
        fill(tab, "targets", conditions)
        fill(tab, "message", "1")
        tab.press("Enter", 13, True)
        tab.wait_for(f"document.querySelector('#multicast-problem mark')?.innerText == {json.dumps(marked)}")
        assert tab.evaluate("document.querySelector('#multicast-problem mark').previousSibling.data") == before
    fill(tab, "targets", "room==r1")
    fill(tab, "message", '{"text":')
    tab.press("Enter", 13, True)
    tab.wait_for("!document.querySelector('#multicast-problem mark')")
    assert tab.evaluate(
        "document.querySelector('#multicast-problem strong').innerText && document.querySelector('#receipt').hidden"
    )
    fill(tab, "message", '"x"')
    tab.press("Enter", 13, True)
    tab.wait_for("document.querySelector('#multicast-problem').hidden && !document.querySelector('#receipt').hidden")


@pytest.mark.parametrize("dark", [False, True])
def test_the_receipt_fits_and_is_readable(registry: str, tab: browser.Tab, dark: bool) -> None:
    tab.look(360, 800, dark)
    tab.open(f"{registry}/_console#Device")
    settled(tab, 3)
    fill(tab, "message", "1")
    tab.press("Enter", 13, True)
    tab.wait_for("!document.querySelector('#receipt').hidden")
    assert fits(tab)
    missed = "document.querySelector('#receipt-facts .missed')"
    ground, ink = tab.evaluate(
        f"[getComputedStyle(document.querySelector('#multicast')).backgroundColor, getComputedStyle({missed}).color]"
    )
    lighter, darker = sorted((luminance(ground), luminance(ink)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) > 4.5, "WCAG, AA"
    tab.look(1280, 900, dark)
    assert fits(tab)
