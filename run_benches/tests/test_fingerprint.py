"""Figures are stale when the sources that they speak of have changed, and not before."""

import json
import shutil
import subprocess

import pytest

from run_benches.analysis.findings import Findings
from run_benches.measure.layers import layer_names
from run_benches.render import page
from run_benches.store import fingerprint, reach, rust
from run_benches.tests.test_document import a_calibration, a_run
from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]

MEASURED = ("storage", "query", "ladder", "one", "two")
"""The layers and scenarios of `house`."""

ASK = "import json; from run_benches.store import fingerprint, reach"


@pytest.fixture
def house(workspace: Workspace) -> Workspace:
    """A layer `query` on `storage`, and `ladder`, which crosses the layers, and makes its stores with `prepared`."""
    for path, text in {
        "src/lib.rs": "pub mod error;\npub mod query;\npub mod storage;\npub mod server;\n",
        "src/error.rs": "pub fn fail() {}\n",
        "src/storage.rs": "use crate::error;\nconst SIZE: u32 = 1;\n#[cfg(test)]\nmod tests;\n",
        "src/storage/tests.rs": "fn t() { assert!(true) }\n",
        "src/query.rs": "use crate::{\n    storage::{self, scan},\n};\nconst MOST: u32 = 7; // of them\n#[cfg(test)]\nmod tests { fn t() {} }\n",
        "src/server.rs": '#[serde(with = "crate::query::text")]\nstruct S;\n',
        "src/server/page.html": "a page",
        "benches/storage.rs": "mod prepared;\nfn main() {}\n",
        "benches/query.rs": "use strata::query::Query;\nfn main() { rusqlite(); }\n",
        "benches/ladder.rs": 'mod prepared;\n#[path = "ladder/query.rs"]\nmod query;\nfn main() {}\n',
        "benches/ladder/query.rs": "fn q() {}\n",
        "benches/prepared.rs": "use strata::server;\nfn f() {}\n",
        "load/src/lib.rs": "pub fn ask() {}\n",
        "load/scenarios/one.toml": 'name = "one" # the first\n',
        "load/scenarios/two.toml": 'name = "two"\nbeside = { table = "strata.two" }\n',
        "lake/src/main.rs": "fn main() {}\n",
        "requirements-full.txt": "pyiceberg==1\n",
    }.items():
        workspace.write(path, text)
    workspace.commit()
    return workspace


LAYERS = ("storage", "query", "ladder")


def known(house: Workspace) -> dict[str, fingerprint.Parts]:
    """Returns what the figures of each layer and scenario depend on now."""
    code = "sources = reach.of_checkout()"
    told = f"print(json.dumps({{name: fingerprint.of_layer(sources, name) for name in {LAYERS!r}}} | {{name: fingerprint.of_scenarios(sources, [name]) for name in ('one', 'two')}}))"
    found: dict[str, fingerprint.Parts] = json.loads(house.python(ASK, code, told))
    return found


def stale(house: Workspace, then: dict[str, fingerprint.Parts]) -> dict[str, list[str]]:
    """Returns what has changed since, by what it makes stale."""
    now = known(house)
    return {name: changed for name in then if (changed := fingerprint.changed(then[name], now[name]))}


def test_a_commit_and_the_tree_that_it_holds_are_one(house: Workspace) -> None:
    commit, then = house.commit(), known(house)
    of_commit = f"print(json.dumps(fingerprint.of_layer(reach.of_commit({commit!r}), 'query')))"
    assert json.loads(house.python(ASK, of_commit)) == then["query"]


def test_tokens_are_those_of_the_grammar() -> None:
    text = """fn a<'a>(x: &'a str) -> char { /* one /* in another */ " */ let s = r#"x " // "#; '"' } // "
        #[cfg(test)] const T: [u8; 2] = { [1, 2] }; #[cfg(test)] mod tests { fn x() { "}" } } #[cfg(test)] use a::{b, c}; fn z() {}"""
    found = rust.tokens(text)
    assert "".join(found) == """fna<'a>(x:&'astr)->char{lets=r#"x " // "#;'"'}fnz(){}"""
    assert rust.tokens("a /* never ends") == ["a"] and rust.test_modules("#[cfg(test)]") == []
    assert rust.paths(
        rust.tokens('use crate::{a::{b, c}, d, e as f,}; crate::g::h(); #[serde(with = "crate::i")]'), "crate"
    ) == {"a", "d", "e", "g", "i"}


def test_where_the_modules_stand_and_which_names_the_root_has_is_no_other_program() -> None:
    def left(text: str) -> str:
        return " ".join(rust.without_modules(rust.tokens(text)))

    plant = '#[cfg(any(test, feature = "plant"))]\n'
    flat = f"{plant}mod plant;\npub mod error;\npub mod server;\n"
    layers = f'#[path = ""]\n#[cfg_attr(x, allow(y))]\nmod layers {{\n    {plant}    pub(crate) mod plant;\n    pub mod error;\n}}\n'
    names = "pub use error::{Error, Place};\n#[cfg(x)]\nuse layers::*;\n"
    assert left(f"{names}{layers}#[cfg(x)]\nmod more {{ pub mod server; }}\n") == left(flat) != ""
    for code in (
        "#![allow(x)]",
        "fn f() -> impl X + use<'a> { use a; mod b; }",
        "mod code { fn f() {} }",
        "mod private;",
        "#[x] pub static X: u8 = 1;",
    ):
        assert left(f"{code}\n#[x]\npub mod a;\nuse b;") == left(code) == " ".join(rust.tokens(code)), code
    assert [left(text) for text in ("", "mod", "pub", "use", "mod x {")] == ["", "mod", "pub", "", ""], (
        "what does not compile ends, too"
    )


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (
            "src/query.rs",
            "7",
            "8",
            {"query": ["src/query"], "ladder": ["src/query"], "one": ["src/query"], "two": ["src/query"]},
        ),
        ("src/query.rs", "// of them", "// of all of them\n\n/* and more /* of it */ */", {}),
        ("src/query.rs", "fn t() {}", "fn t() { panic!() }", {}),
        ("src/storage/tests.rs", "true", "false", {}),
        ("src/lib.rs", "pub mod server", "pub mod new;\npub mod server", {}),
        (
            "src/lib.rs",
            "pub mod server",
            "pub use query::{Most, self};\n#[cfg(x)]\nuse storage::*;\npub mod server",
            {},
        ),
        (
            "src/lib.rs",
            "pub mod storage;\n",
            '#[path = ""]\n#[allow(x)]\nmod layers {\n    pub mod storage;\n}\n#[cfg(x)]\npub use layers::*;\n',
            {},
        ),
        (
            "src/lib.rs",
            "pub mod server",
            "#![feature(x)]\npub mod server",
            {name: ["src/lib"] for name in MEASURED},
        ),
        (
            "src/server/page.html",
            "a page",
            "another page",
            {"ladder": ["src/server"], "one": ["src/server"], "two": ["src/server"]},
        ),
        ("src/error.rs", "fail", "failed", {name: ["src/error"] for name in MEASURED}),
        ("benches/query.rs", "main", "start", {"query": ["benches/query"]}),
        ("benches/ladder/query.rs", "q()", "r()", {"ladder": ["benches/ladder"]}),
        ("benches/prepared.rs", "f()", "g()", {"storage": ["benches/prepared"], "ladder": ["benches/prepared"]}),
        ("load/src/lib.rs", "ask", "asked", {"one": ["load/src"], "two": ["load/src"]}),
        ("load/scenarios/one.toml", "# the first", "# the only one", {}),
        ("load/scenarios/one.toml", '"one"', '"uno"', {"one": ["load/scenarios/one.toml"]}),
        ("lake/src/main.rs", "main", "start", {"two": ["lake/src"]}),
        ("requirements-full.txt", "==1", "==2", {"two": ["requirements-full.txt"]}),
    ],
)
def test_what_has_changed_makes_stale_what_reaches_it(
    house: Workspace, path: str, old: str, new: str, expected: dict[str, list[str]]
) -> None:
    then, text = known(house), (house.root / path).read_text()
    assert old in text
    house.write(path, text.replace(old, new))
    assert stale(house, then) == expected


def test_packages_and_settings_of_the_build_count_and_words_about_them_do_not(house: Workspace) -> None:
    manifest = '[package]\nname = "strata"\n[dependencies]\na = "1"\n[dev-dependencies]\nrusqlite = "1" # a peer\nproptest = "1"\n'

    def lock(**versions: str) -> str:
        of_ours = '[[package]]\nname = "strata"\nversion = "0.1.0"\ndependencies = ["a", "rusqlite", "proptest"]\n'
        deeper = {"a": 'dependencies = ["b"]\n'}
        return of_ours + "".join(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\n{deeper.get(name, "")}'
            for name, version in versions.items()
        )

    usual = {"a": "1.0.0", "b": "1.0.0", "rusqlite": "1.0.0", "proptest": "1.0.0"}
    house.write("Cargo.toml", manifest)
    house.write("Cargo.lock", lock(**usual))
    then = known(house)
    for changed, expected in (
        ({"b": "1.0.1"}, {*then}),
        ({"rusqlite": "1.0.1"}, {"query"}),
        ({"proptest": "1.0.1"}, set()),
    ):
        house.write("Cargo.lock", lock(**usual | changed))
        assert set(stale(house, then)) == expected, changed
    house.write("Cargo.lock", lock(**usual))
    house.write("Cargo.toml", manifest.replace("# a peer", "# another one") + "[package.metadata.x]\ny = 1\n")
    assert not stale(house, then)
    house.write("Cargo.toml", manifest + '[profile.release]\nlto = "fat"\n')
    assert stale(house, then) == {name: [fingerprint.BUILD] for name in then}
    house.write("Cargo.toml", manifest.replace('name = "strata"', 'name = "strata"\nedition = "2027"'))
    assert stale(house, then) == {name: [fingerprint.BUILD] for name in then}


def test_features_that_another_package_asks_for_count_since_all_are_built_together(house: Workspace) -> None:
    house.write("Cargo.toml", '[workspace]\nmembers = ["load"]\n[package]\nname = "strata"\n[dependencies]\na = "1"\n')
    house.write("load/Cargo.toml", '[package]\nname = "load"\n[dependencies]\na = "1"\nmore = "1"\n')
    then = known(house)
    house.write(
        "load/Cargo.toml",
        '[package]\nname = "load"\n[dependencies]\na = { version = "1", features = ["another"] }\nmore = "2"\n',
    )
    assert all(fingerprint.BUILD in changed for changed in stale(house, then).values()) and set(
        stale(house, then)
    ) == set(then)


def test_every_layer_of_this_checkout_reaches_its_own_module_and_the_harness() -> None:
    sources = reach.of_checkout()
    for layer in layer_names():
        parts = sources.of_bench(layer)
        assert {f"benches/{layer}", reach.HARNESS} <= parts and (
            f"src/{layer}" in parts or any(part.startswith("src/") for part in parts)
        ), layer
    assert "src/query" in sources.of_bench("graphql") and "src/query" not in sources.of_bench("storage")


def test_without_git_nothing_is_known_of_files(workspace: Workspace) -> None:
    ask = "print(fingerprint.of_files(fingerprint.PAIRING))"
    shutil.rmtree(workspace.root / ".git")
    assert workspace.python(ASK, ask) == "None"
    subprocess.run(["git", "init", "-q", workspace.root.parent], check=True)
    assert workspace.python(ASK, ask) == "None", "a repository above is not this checkout's"


def test_the_pages_say_what_is_stale_and_what_is_not_known() -> None:
    words = {
        False: ": unchanged since",
        True: "**the code has changed since",
        None: "**whether the code has changed since is not known",
    }
    for stale, said in words.items():
        texts = page.render(
            Findings.of(a_run()),
            {},
            a_calibration(),
            stale=dict.fromkeys(a_run().layers, stale) | {"calibration": stale},
        )
        for name, text in texts.items():
            told = [other for other, line in words.items() if line in text.partition("END measured")[0]]
            assert told == ([stale] if name not in ("performance/load.md", "performance/lake.md") else []), name
        method = texts["performance/method.md"]
        assert ("Stale: the code that measures and judges" in method) == (stale is True)
        assert ("Whether the code that measures and judges has changed since is not known" in method) == (
            stale is None
        ), said


def test_every_path_is_there() -> None:
    for path in (*fingerprint.JUDGING, *reach.READ[:8]):
        assert fingerprint.of_files([path]), path
