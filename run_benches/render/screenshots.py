"""Pictures of pages as a browser shows them, for the documents: which there are, and whether a stored one is of the
page as it is now.

A picture is sealed as a drawn one is (pictures.py), in a text of the PNG file: by a hash of what it shows and one of
its content. So that it is of the present page is checked without a browser; `document --screenshots` takes those anew
that are not.
"""

import hashlib
import json
import struct
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from run_benches import places
from run_benches.analysis.load_findings import LoadFindings
from run_benches.render import load_pictures, load_report

FOLDER = places.ROOT / "docs" / "pictures"

SCENARIO = "rest-crud"
"""The scenario whose page is shown."""

SHOP = """
type Brand @table @export { id: ID! @primaryKey  name: String! @indexed  country: String }
type Product @table(durability: "strong") @export {
  id: ID! @primaryKey  name: String! @indexed  category: String @indexed  price: Float @indexed  stock: Int
  tags: [String] @indexed  sku: String @unique  details: Any  released: Date  brandId: ID @indexed
  createdAt: Date @createdTime  brand: Brand @relationship(from: "brandId")
}
type Visit @table(expiration: 3600) @export { id: ID! @primaryKey  page: String }
"""
"""The tables that the console shows."""

QUERY = "category==light&price=gt=100&lt=400&sort=-price&limit=8&select=name,price,stock,brand{name,country}"

_BRANDS = (("acme", "Acme", "US"), ("lumen", "Lumen", "FR"), ("nord", "Nord", "SE"), ("viewtech", "ViewTech", "JP"))

_KEY = b"strata-seal\0"
_END = struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))


@dataclass(frozen=True)
class Screenshot:
    """A picture of a page: its file, the size of the window, and all that decides what it shows."""

    file: str
    width: int
    height: int
    shows: str

    def fault(self, folder: Path = FOLDER) -> str | None:
        """Tells what is wrong with the stored picture, in words; nothing if it is of the page as it is now."""
        try:
            stored = (folder / self.file).read_bytes()
        except OSError:
            return "is missing or cannot be read"
        content = stored.rpartition(_text_head(len(self._seal(b""))))[0]
        return None if stored == self.sealed(content + _END) else "is of another page, or was edited"

    def sealed(self, png: bytes) -> bytes:
        """A picture with its seal."""
        content = png.removesuffix(_END)
        seal = self._seal(content)
        return content + _text_head(len(seal)) + seal + struct.pack(">I", zlib.crc32(b"tEXt" + _KEY + seal)) + _END

    def _seal(self, content: bytes) -> bytes:
        words = f"{self.width} {self.height} {self.shows}"
        return f"of sha256:{hashlib.sha256(words.encode()).hexdigest()}, content sha256:{hashlib.sha256(content).hexdigest()}".encode()


def _text_head(length: int) -> bytes:
    """Returns the beginning of the chunk of a text."""
    return struct.pack(">I", len(_KEY) + length) + b"tEXt" + _KEY


def records() -> dict[str, list[dict[str, Any]]]:
    """The records of the shop by table; their values follow from their numbers."""
    return {
        "Brand": [{"id": id, "name": name, "country": country} for id, name, country in _BRANDS],
        "Product": [_product(number) for number in range(240)],
    }


def _product(number: int) -> dict[str, Any]:
    name = ("Steel", "Glass", "Brass", "Pine", "Paper")[number % 5] + " " + ("Lamp", "Spot", "Torch")[number // 5 % 3]
    brand = (None, *(id for id, _, _ in _BRANDS))[number % 7 % 5]
    price = number * 7919 % 40000 / 100
    return {
        "id": f"p{number:03}",
        "name": name,
        "category": "light" if number % 3 else "outdoor",
        "price": price,
        "stock": number * 31 % 13,
        "sku": f"S{number:05}",
        "brandId": brand,
    }


def console() -> Screenshot:
    """The console over a small shop."""
    sources = [Path(__file__), places.ROOT / "src" / "console.rs", *sorted((places.ROOT / "src" / "console").glob("*"))]
    return Screenshot(
        "console.png", 1280, 920, "".join(path.read_text(encoding="utf-8") for path in sources if path.is_file())
    )


def of_load_page(tested: LoadFindings) -> Screenshot:
    """The page of a load test."""
    drawn = load_pictures.pictures(tested)
    values = json.dumps([picture.values for picture in drawn], default=asdict, sort_keys=True)
    sources = [
        Path(__file__).with_name(name) for name in ("load_pictures.py", "pictures.py", "report.py", "report.html")
    ]
    return Screenshot(
        "load-page.png",
        1280,
        1900,
        load_report.page(tested, drawn) + values + "".join(path.read_text(encoding="utf-8") for path in sources),
    )
