"""The house: which package may import which, so that a newcomer can read the runner from the lowest package to the
highest."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from run_benches.places import ROOT

PACKAGES = ("setup", "stats", "store", "analysis", "measure", "lake", "compare", "calibrate", "render", "cli")
"""The lowest first. The modules beside them lie below all packages."""

HERE = ROOT / "run_benches"


def modules() -> dict[str, Path]:
    """Every module of the runner by its name below `run_benches`, its tests left out."""
    found = {path.relative_to(HERE).with_suffix("").as_posix().replace("/", "."): path for path in HERE.rglob("*.py")}
    return {
        name: path for name, path in found.items() if not name.startswith("tests") and not name.endswith("__init__")
    }


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the runner that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "run_benches":
            below = node.module.partition(".")[2]
            found |= {below} if below in known else {f"{below}.{alias.name}".lstrip(".") for alias in node.names}
    assert found <= set(known), f"{path} imports what is not there: {found - set(known)}"
    return found


def rank(module: str) -> int:
    package, inside, _ = module.partition(".")
    return PACKAGES.index(package) if inside else -1


def test_a_module_imports_only_from_its_own_package_and_lower_ones() -> None:
    known = modules()
    upwards = [
        f"{name} imports {other}"
        for name, path in known.items()
        for other in imported(path, known)
        if rank(other) > rank(name)
    ]
    assert len(known) > 60 and not upwards


def test_modules_import_each_other_in_no_circle() -> None:
    known = modules()
    assert list(TopologicalSorter({name: imported(path, known) for name, path in known.items()}).static_order())


def test_a_public_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert len(homes) > 150 and not {name: found for name, found in homes.items() if len(found) > 1}


def test_a_run_is_read_once() -> None:
    """Everything that is told of it is made of `Findings`; only commands that store a run, or hold two side by side,
    have one."""
    readers = {"analysis.findings", "cli.commands", "cli.renew", "cli.stored"}
    found = set()
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "run_benches.store.runs":
                found |= {name for alias in node.names if alias.name == "Run"}
    assert {name for name in found if name.partition(".")[0] in ("analysis", "render", "cli")} == readers


def test_processes_are_started_in_one_place() -> None:
    """It ends them with all that they started, when a command is stopped."""
    names = re.compile(r"\b(subprocess|multiprocessing|Popen|os\.(fork|system|popen|spawn\w*|posix_spawn\w*))\b")
    assert [name for name, path in modules().items() if names.search(path.read_text(encoding="utf-8"))] == ["processes"]


def test_what_was_typed_is_read_by_the_standard_library_alone() -> None:
    bare = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from run_benches.cli import command_line",
    ]
    assert subprocess.run(bare, capture_output=True, check=False).returncode == 0


def test_every_package_says_what_it_is_for_and_stands_in_the_map() -> None:
    folders = {path.parent.name for path in HERE.glob("*/__init__.py")} - {"tests"}
    assert folders == set(PACKAGES)
    text = (ROOT / "docs/measuring.md").read_text(encoding="utf-8")
    places = [text.index(f"| `{package}` |", text.index("## The map of the runner")) for package in PACKAGES]
    assert places == sorted(places), "lowest first, as here"
    for package in PACKAGES:
        assert ast.get_docstring(ast.parse((HERE / package / "__init__.py").read_text(encoding="utf-8")))
