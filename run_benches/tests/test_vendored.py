"""Files that others have built are committed as they published them: the hashes that their README names are those of
the files. Those that nobody wrote by hand are marked as such."""

import hashlib
import re
import subprocess

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


def test_a_large_file_is_marked_as_generated_vendored_or_binary() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    large = [file for file in listed.split("\0") if file and (ROOT / file).stat().st_size > 500_000]
    asked = ["git", "check-attr", "linguist-generated", "linguist-vendored", "binary", "--", *large]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    marked = {file for file, _, state in (line.rsplit(": ", 2) for line in told) if state == "set"}
    assert large and not set(large) - marked
