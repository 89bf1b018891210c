"""Clients that people use, each once through what the server offers: records, lists in pages, the change feed, blobs.

Why, where the tests of the server send what they like, byte by byte: a library has habits of its own (how it writes a
path, what it does with a `Link`, which codings it accepts, when it gives out a line of a stream), and a generator
leaves out what it does not understand. Not collected with the other tests, for they need what only `test --full`
installs.
"""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import quote

import pytest

from run_benches.cli import serving

httpx, requests = importlib.import_module("httpx"), importlib.import_module("requests")

SCHEMA = """
type Thing @table @export {
  id: ID! @primaryKey  name: String!  price: Float  stock: Int  made: Date  tags: [String]  details: Any
  brandId: ID @indexed  brand: Brand @relationship(from: "brandId")
}
type Brand @table @export { id: ID! @primaryKey  name: String!  things: [Thing] @relationship(to: "brandId") }
type Photo @table @export { id: ID! @primaryKey  title: String  picture: Blob }
"""

WAIT_S = 60.0
"""Longer than anything here takes."""

IDS = ("plain", "a/b", "ü x", "100%", "a?b#c&d=e;f+g", "..a")
"""Ids, most of which a path has only in another form."""

PICTURE = bytes(range(256)) * 1000
"""More than one piece on the wire."""

NOTHING = {"price": None, "stock": None, "made": None, "tags": None, "details": None, "brandId": None}


class Client(Protocol):
    """A library, used as its manual says."""

    def ask(self, method: str, path: str, content: bytes | Iterable[bytes] | None = None, **options: Any) -> Any:
        """One request; its response has `status_code`, `headers`, `links`, `content` and `json()` in either library."""

    def lines(self, path: str, headers: dict[str, str]) -> AbstractContextManager[Iterator[str]]:
        """The lines of a response that does not end, as they come."""


class Requests:
    def __init__(self, url: str) -> None:
        self._session, self._url = requests.Session(), url

    def ask(self, method: str, path: str, content: bytes | Iterable[bytes] | None = None, **options: Any) -> Any:
        return self._session.request(method, self._url + path, data=content, timeout=WAIT_S, **options)

    @contextmanager
    def lines(self, path: str, headers: dict[str, str]) -> Iterator[Iterator[str]]:
        with self._session.get(self._url + path, headers=headers, stream=True, timeout=WAIT_S) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
            yield (line.decode() for line in response.iter_lines())


class Httpx:
    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=WAIT_S)

    def ask(self, method: str, path: str, content: bytes | Iterable[bytes] | None = None, **options: Any) -> Any:
        return self._client.request(method, path, content=content, **options)

    @contextmanager
    def lines(self, path: str, headers: dict[str, str]) -> Iterator[Iterator[str]]:
        with self._client.stream("GET", path, headers=headers) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
            yield response.iter_lines()


@pytest.fixture(scope="module")
def built() -> None:
    assert serving.build()


@pytest.fixture
def server(built: None) -> Iterator[str]:
    with serving.running(SCHEMA) as url:
        yield url


@pytest.fixture(params=[Requests, Httpx])
def client(request: pytest.FixtureRequest, server: str) -> Client:
    made: Client = request.param(server)
    return made


@pytest.mark.parametrize("key", IDS)
def test_a_record_is_created_read_changed_replaced_and_deleted(client: Client, key: str) -> None:
    record = {
        "id": key,
        "name": "Lámp",
        **NOTHING,
        "price": 2.5,
        "made": "2024-02-29",
        "tags": ["new", "ü"],
        "details": {"of": [1, None]},
    }
    created = client.ask("POST", "/Thing", json=record)
    path, etag = created.headers["location"], created.headers["etag"]
    assert (created.status_code, path, created.json()) == (201, f"/Thing/{quote(key, safe='')}", record)
    assert client.ask("POST", "/Thing", json=record).status_code == 409

    read = client.ask("GET", path)
    assert (read.status_code, read.headers["etag"], read.json()) == (200, etag, record)
    assert client.ask("GET", path, headers={"If-None-Match": etag}).status_code == 304

    changed = client.ask("PATCH", path, json={"price": None, "stock": 7}, headers={"If-Match": etag})
    assert (changed.status_code, changed.json()) == (200, record | {"price": None, "stock": 7})
    stale = client.ask("PATCH", path, json={"stock": 8}, headers={"If-Match": etag})
    assert (stale.status_code, stale.headers["content-type"]) == (412, "application/problem+json")
    assert stale.json()["type"] == "urn:strata:error:stale"

    replaced = client.ask("PUT", path, json={"name": "Torch"}, headers={"If-Match": changed.headers["etag"]})
    assert (replaced.status_code, replaced.json()) == (200, {"id": key, "name": "Torch", **NOTHING})
    assert client.ask("DELETE", path, headers={"If-Match": replaced.headers["etag"]}).status_code == 204
    assert client.ask("GET", path).status_code == 404


def test_a_list_is_filtered_sorted_and_read_in_pages(client: Client) -> None:
    records = [
        {"id": f"t{number:02}", "name": f"Thing {number % 3}", **NOTHING, "price": number / 4, "brandId": "nord"}
        for number in range(50)
    ]
    assert client.ask("POST", "/Brand", json={"id": "nord", "name": "Nord & Söhne"}).status_code == 201
    assert client.ask("POST", "/Thing", json=records).json() == records

    whole = client.ask("GET", "/Thing?sort=id")
    assert whole.headers["content-encoding"] in ("gzip", "br", "zstd") and whole.json() == records, (
        "the library has asked for a coding, and undone it"
    )
    found = client.ask("GET", "/Thing?price=gt=11.5&sort=-price&select=id,brand{name}")
    assert found.json() == [{"id": f"t{number}", "brand": {"name": "Nord & Söhne"}} for number in (49, 48, 47)]
    assert client.ask("GET", f"/Brand?name=={quote('Nord & Söhne', safe='')}").json() == [
        {"id": "nord", "name": "Nord & Söhne"}
    ]
    assert client.ask("GET", "/Thing", params={"brandId": "nord", "limit": 2, "select": "price"}).json() == [
        {"price": 0},
        {"price": 0.25},
    ]

    page = client.ask("GET", "/Thing?name==Thing%200&sort=-id&limit=7&select=id")
    pages = [page.json()]
    while "next" in page.links:
        page = client.ask("GET", page.links["next"]["url"])
        pages.append(page.json())
    assert [len(page) for page in pages] == [7, 7, 3]
    assert [record["id"] for page in pages for record in page] == [f"t{number:02}" for number in range(48, -1, -3)]


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """The events of a stream, as its standard has them read: fields of one line each, and a blank line; without data
    there is none."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield {name: fields[name] for name in ("event", "id", "data")}
            fields = {}


@pytest.mark.parametrize("followed", ["/Thing", "/Thing/a%2Fb"])
def test_changes_come_as_they_are_made_and_again_after_an_event(client: Client, followed: str) -> None:
    with client.lines(f"{followed}?stream=sse", {}) as lines:
        feed = events(lines)
        assert client.ask("PUT", "/Thing/a%2Fb", json={"name": "Lámp"}).status_code == 201
        first = next(feed)
        assert client.ask("PATCH", "/Thing/a%2Fb", json={"stock": 3}).status_code == 200
        assert client.ask("DELETE", "/Thing/a%2Fb").status_code == 204
        seen = [first, next(feed), next(feed)]
    record = {"id": "a/b", "name": "Lámp", **NOTHING}
    assert [(event["event"], json.loads(event["data"])) for event in seen] == [
        ("put", record),
        ("put", record | {"stock": 3}),
        ("delete", {"id": "a/b"}),
    ]
    with client.lines(f"{followed}?stream=sse", {"Last-Event-ID": first["id"]}) as lines:
        feed = events(lines)
        assert [next(feed), next(feed)] == seen[1:]


@pytest.mark.parametrize("key", IDS)
def test_a_blob_is_written_read_in_part_replaced_and_deleted(client: Client, key: str) -> None:
    path = client.ask("POST", "/Photo", json={"id": key}).headers["location"] + "/picture"
    written = client.ask("PUT", path, PICTURE, headers={"Content-Type": "image/png"})
    etag = written.headers["etag"]
    assert (written.status_code, written.headers["location"]) == (201, path)
    assert client.ask("GET", f"/Photo/{quote(key, safe='')}").json() == {"id": key, "title": None, "picture": path}

    read = client.ask("GET", path)
    assert (read.status_code, read.headers["content-type"], read.headers["etag"]) == (200, "image/png", etag)
    assert read.content == PICTURE and "content-encoding" not in read.headers
    part = client.ask("GET", path, headers={"Range": "bytes=250-259", "If-Range": etag})
    assert (part.status_code, part.headers["content-range"], part.content) == (
        206,
        "bytes 250-259/256000",
        PICTURE[250:260],
    )
    assert client.ask("GET", path, headers={"Range": "bytes=256000-"}).status_code == 416
    assert client.ask("GET", path, headers={"If-None-Match": etag}).status_code == 304

    pieces = (PICTURE[at : at + 1000] for at in range(0, len(PICTURE), 1000))
    replaced = client.ask("PUT", path, pieces, headers={"Content-Type": "image/webp", "If-Match": etag})
    assert (replaced.status_code, client.ask("GET", path).content) == (204, PICTURE), "sent in pieces, without a length"
    assert client.ask("DELETE", path, headers={"If-Match": etag}).status_code == 412
    assert client.ask("DELETE", path).status_code == 204
    assert client.ask("GET", path).status_code == 404


UNKNOWN = re.compile(
    r"Unsupported content.type (application/(cbor|msgpack|x-ndjson|openmetrics-text)|text/plain|\*/\*)"
)
"""The complaint about what the generator has no code for: some media types, and bytes of any. It leaves out only an
operation whose body has no other type."""


WARNING = r"^WARNING parsing (.+) within .+?\.( Endpoint will not be generated\.)?\n\n(.+)$"
"""A warning of the generator: the operation, whether it is left out, and why."""


class Generated:
    """A package that openapi-python-client makes of a server's document with its own settings, but for a formatter that
    it would call."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder, self._url = folder / f"made_{folder.name}", url
        (folder / "settings.json").write_text(json.dumps({"post_hooks": []}), encoding="utf-8")
        options = ["--meta", "none", "--config", f"{folder}/settings.json", "--output-path", str(self.folder)]
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{url}/_openapi.json", *options]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        self.warnings: list[tuple[str, str, str]] = re.findall(WARNING, done.stdout, re.MULTILINE)
        assert len(self.warnings) == done.stdout.count("WARNING"), done.stdout

    def module(self, name: str) -> ModuleType:
        """A module of the package, of which no other server's is known by that name."""
        return importlib.import_module(f"{self.folder.name}.{name}")

    def call(self, tag: str, operation: str, *arguments: Any, **options: Any) -> Any:
        """An operation's response: `status_code`, `headers`, `content`, and the body as it was described, `parsed`."""
        client = self.module("client").Client(self._url, timeout=WAIT_S, raise_on_unexpected_status=True)
        return self.module(f"api.{tag}.{operation}").sync_detailed(*arguments, client=client, **options)


@pytest.fixture
def generated(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generated:
    monkeypatch.syspath_prepend(tmp_path)
    return Generated(server, tmp_path)


def test_a_generated_client_leaves_out_what_its_generator_does_not_know_and_nothing_else(generated: Generated) -> None:
    assert {operation for operation, left_out, _ in generated.warnings if left_out} == {
        f"POST /{table}/query" for table in ("Thing", "Brand", "Photo")
    }
    assert [warning for warning in generated.warnings if not UNKNOWN.search(warning[2])] == []
    made = {path.stem for path in generated.folder.glob("api/*/*.py")}
    of_records = {
        f"{verb}_{table}"
        for verb in ("create", "read", "list", "replace", "merge", "delete")
        for table in ("thing", "brand", "photo")
    }
    assert made >= of_records | {f"{verb}_blob_photo_picture" for verb in ("read", "write", "delete")}


@pytest.mark.parametrize("key", IDS)
def test_a_generated_client_does_what_it_is_named_for(generated: Generated, key: str) -> None:
    models, call = generated.module("models"), generated.call
    created = call("thing", "create_thing", body=models.ThingNew(name="Lámp", id=key, price=2.5))
    assert (created.status_code, created.parsed.to_dict()) == (
        201,
        {"id": key, "name": "Lámp", **NOTHING, "price": 2.5},
    )
    replaced = call(
        "thing",
        "replace_thing",
        key,
        body=models.ThingWhole(name="Torch", tags=["ü"]),
        if_match=created.headers["etag"],
    )
    assert (replaced.status_code, replaced.parsed.to_dict()) == (
        200,
        {"id": key, "name": "Torch", **NOTHING, "tags": ["ü"]},
    )
    changed = call(
        "thing",
        "merge_thing",
        key,
        body=models.ThingPatch(stock=7),
        if_match=f'"0000000000000000", {replaced.headers["etag"]}',
    )
    assert (changed.status_code, changed.parsed.stock, changed.parsed.tags) == (200, 7, ["ü"])
    stale = call("thing", "merge_thing", key, body=models.ThingPatch(stock=8), if_match=created.headers["etag"])
    assert (stale.status_code, stale.parsed.type_) == (412, "urn:strata:error:stale")
    listed = call("thing", "list_thing", tags="ü", limit=1)
    assert [(record.id, record.stock) for record in listed.parsed] == [(key, 7)]
    assert call("thing", "delete_thing", key, if_match="*").status_code == 204
    assert call("thing", "read_thing", key).status_code == 404

    photo = call("photo", "create_photo", body=models.PhotoNew(id=key)).parsed
    picture = generated.module("types").File(BytesIO(PICTURE))
    written = call("photo", "write_blob_photo_picture", photo.id, body=picture)
    read = call("photo", "read_blob_photo_picture", key)
    assert (written.status_code, read.status_code, read.parsed.payload.read()) == (201, 200, PICTURE)
    assert call("photo", "delete_blob_photo_picture", key, if_match=read.headers["etag"]).status_code == 204
    assert call("photo", "delete_photo", key).status_code == 204
