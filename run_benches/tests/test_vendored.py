"""What others have built is committed as they published it: the hashes that its README names are those of the files."""

import hashlib
import re

from run_benches.places import ROOT

FOLDER = ROOT / "src" / "console" / "vendor"


def test_every_file_is_the_one_that_was_published() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", text, re.MULTILINE))
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FOLDER.iterdir()
        if path.suffix in (".js", ".css")
    }
    assert there and named == there


def test_the_licences_of_all_packages_are_there() -> None:
    text = (FOLDER / "LICENSES.txt").read_text(encoding="utf-8")
    for words in (
        "graphiql",
        "react-dom",
        "codemirror",
        "graphql",
        "Permission is hereby granted",
        "Fira Code",
        "SIL OPEN FONT LICENSE",
        "Roboto",
    ):
        assert words in text, words
