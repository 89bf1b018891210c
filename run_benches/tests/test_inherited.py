"""The settings that a shell and cargo's configurations have for a build: refused where it would compile RocksDB again,
and only there."""

import os
from pathlib import Path

import pytest

from run_benches.errors import UserError
from run_benches.setup import inherited, rocksdb_build, toolchain
from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]

HOST = "x86_64-unknown-linux-gnu"
HERE = (HOST, "cfg(unix)")
"""The tables under [target] that are for this machine."""


def check(folder: Path) -> None:
    inherited.check_settings(folder, HOST, lambda name: name in HERE)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing but ours above it, and a shell that says nothing."""
    for name in [name for name in os.environ if inherited._refused(name, "1", HOST)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "home"))
    return tmp_path / "above" / "checkout"


CHANGES = (
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
    "CARGO_PROFILE_RELEASE_LTO",
    "CARGO_PROFILE_BENCH_DEBUG",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_BUILD_DIR",
    "CARGO_INCREMENTAL",
    "RUSTC",
    "CARGO_BUILD_RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "CFLAGS",
    "CXXFLAGS",
    "HOST_CXXFLAGS",
    "ARFLAGS",
    "CXXFLAGS_x86_64-unknown-linux-gnu",
    "CFLAGS_x86_64_unknown_linux_gnu",
    "CXXSTDLIB",
    "CRATE_CC_NO_DEFAULTS",
    "BINDGEN_EXTRA_CLANG_ARGS_x86_64_unknown_linux_gnu",
    "ROCKSDB_COMPILE",
    "ROCKSDB_LIB_DIR",
    "SNAPPY_STATIC",
    "ZSTD_SYS_USE_PKG_CONFIG",
)
CHANGES_NOTHING = (
    "CARGO_TARGET_DIR",
    "CARGO_HOME",
    "CARGO_BUILD_JOBS",
    "CARGO_NET_OFFLINE",
    "CARGO_PROFILE_DEV_DEBUG",
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
    "RUSTUP_TOOLCHAIN",
    "RUSTC_WRAPPER",
    "TARGET_CFLAGS",
    "CXXFLAGS_aarch64_unknown_linux_gnu",
    "LDFLAGS",
    "ROCKSDB_HOME",
    "CC",
    "CXX",
    "PKG_CONFIG_PATH",
)


@pytest.mark.parametrize("name", CHANGES)
def test_flags_in_the_shell_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, checkout: Path, name: str) -> None:
    check(checkout)
    monkeypatch.setenv(name, "1")
    with pytest.raises(UserError, match=f"unset {name} "):
        check(checkout)


@pytest.mark.parametrize("name", CHANGES_NOTHING)
def test_what_changes_no_build_is_let_through(monkeypatch: pytest.MonkeyPatch, checkout: Path, name: str) -> None:
    monkeypatch.setenv(name, str(checkout.parent))
    check(checkout)
    monkeypatch.setenv("CARGO_INCREMENTAL", "0")
    check(checkout)


REFUSED = {
    "target.x86_64-unknown-linux-gnu.rustflags": '[target.x86_64-unknown-linux-gnu]\nrustflags = ["-g"]',
    "target.cfg(unix).rustflags": "[target.'cfg(unix)']\nrustflags = '-g'",
    "target.x86_64-unknown-linux-gnu.linker": '[target.x86_64-unknown-linux-gnu]\nlinker = "clang"',
    "build.rustflags": '[build]\njobs = 1\nrustflags = ["-g"]',
    "build.target": '[build]\ntarget = "x86_64-unknown-linux-musl"',
    "build.build-dir": '[build]\nbuild-dir = "/elsewhere"',
    "build.incremental": "build.incremental = true",
    "build.rustc": '[build]\nrustc = "/elsewhere"',
    "profile.release.lto": "[profile.release]\nlto = true",
    "profile.bench.package.strata.opt-level": "[profile.bench.package.strata]\nopt-level = 1",
    "env.CXXFLAGS": '[env]\nCXXFLAGS = "-O3"',
    "env.CFLAGS.value": '[env]\nCFLAGS = { value = "-O3", force = true }',
    "patch.crates-io.rust-rocksdb.path": '[patch.crates-io]\nrust-rocksdb = { path = "/elsewhere" }',
    "paths": 'paths = ["/elsewhere"]',
}


@pytest.mark.parametrize(
    "place", ["above/.cargo/config.toml", ".cargo/config", "home/config.toml", "above/.cargo/included.toml"]
)
@pytest.mark.parametrize("key", REFUSED)
def test_configurations_above_are_refused_by_name(checkout: Path, key: str, place: str) -> None:
    file = checkout.parent.parent / place
    file.parent.mkdir(parents=True)
    file.write_text(REFUSED[key])
    if file.name == "included.toml":
        file.with_name("config.toml").write_text(
            'include = ["included.toml", { path = "nowhere.toml", optional = true }]'
        )
    with pytest.raises(UserError) as refused:
        check(checkout)
    assert f"{file} sets {key}, " in str(refused.value)


def test_configurations_that_change_no_build_are_let_through(checkout: Path) -> None:
    file = checkout.parent / ".cargo/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("""
        [build]
        jobs = 2
        target-dir = "/elsewhere"
        rustc-wrapper = "sccache"
        incremental = false
        [env]
        DATABASE_URL = "x"
        [net]
        git-fetch-with-cli = true
        [registries.mine]
        index = "https://mine.example"
        [profile.dev]
        debug = 0
        [target.aarch64-unknown-linux-gnu]
        linker = "aarch64-linux-gnu-gcc"
        rustflags = ["-g"]
        [target.'cfg(windows)']
        rustflags = ["-g"]
        """)
    check(checkout)
    for broken in ("target = 'x'", "[build", "env = 1"):
        file.write_text(broken)
        check(checkout)  # cargo complains itself


def test_the_compiler_is_the_one_that_the_build_calls(monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    (checkout.parent / ".cargo").mkdir(parents=True)
    monkeypatch.delenv("CXX", raising=False)
    assert inherited.compiler(checkout, HOST) == ["c++"]
    (checkout.parent / ".cargo/config.toml").write_text('[env]\nCXX = "clang++"\n')
    assert inherited.compiler(checkout, HOST) == ["clang++"]
    monkeypatch.setenv("CXX", "ccache g++ -m64")
    assert inherited.compiler(checkout, HOST) == ["ccache", "g++", "-m64"], "the shell's comes first"
    (checkout.parent / ".cargo/config.toml").write_text(
        '[env]\nCXX = { value = "bin/c++", force = true, relative = true }\n'
    )
    assert inherited.compiler(checkout, HOST) == [str(checkout.parent / "bin/c++")]
    monkeypatch.setenv("CXX_x86_64_unknown_linux_gnu", "g++-12")
    assert inherited.compiler(checkout, HOST) == ["g++-12"]


SYS = """fn main() {
    for name in ["CXX", "CXXFLAGS", "PKG_CONFIG_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
}
"""


@pytest.fixture
def built(workspace: Workspace) -> Workspace:
    """A repository with what passes for RocksDB, below another crate as bindgen is, and a launcher of compilers."""
    for name, needs in (("lower", ""), ("x-librocksdb-sys", '[build-dependencies]\nlower = { path = "../lower" }\n')):
        workspace.write(
            f"../{name}/Cargo.toml", f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2024"\n{needs}'
        )
        workspace.write(f"../{name}/src/lib.rs", "")
        workspace.write(f"../{name}/build.rs", SYS if name != "lower" else SYS.replace("CXX", "AR"))
    workspace.write(
        "Cargo.toml",
        (workspace.root / "Cargo.toml").read_text()
        + '[dependencies]\nx-librocksdb-sys = { path = "../x-librocksdb-sys" }\n',
    )
    workspace.write("bin/launcher", '#!/bin/sh\nexec "$@"\n')
    (workspace.root / "bin/launcher").chmod(0o755)
    return workspace


def build(workspace: Workspace, **variables: str) -> str:
    """Builds the program; returns why not, or which crates were compiled."""
    lines = [
        "from run_benches.errors import UserError",
        "from run_benches.measure import build",
        "try:",
        "    build.programs('answer')",
        "except UserError as complaint:",
        "    print(complaint)",
    ]
    cleared = {"CXX", "AR", "PKG_CONFIG_PATH"} & os.environ.keys()
    assert not cleared, f"unset {cleared}"
    said = workspace.python(*lines, PATH=f"{workspace.root / 'bin'}:{os.environ['PATH']}", **variables)
    return said or (workspace.root / "runs/build.log").read_text()


def test_a_first_build_takes_what_the_shell_has_and_a_later_one_only_that(built: Workspace) -> None:
    assert "Compiling x-librocksdb-sys" in build(built, CXX="launcher c++", AR="/ar")
    assert "Compiling" not in build(built, CXX="launcher c++", AR="/ar")
    assert "CXX is unset and was 'launcher c++'" in build(built, AR="/ar")
    assert "AR is unset and was '/ar'" in build(built, CXX="launcher c++")
    assert "PKG_CONFIG_PATH is '/p' and was unset" in build(built, CXX="launcher c++", AR="/ar", PKG_CONFIG_PATH="/p")
    built.write("../.cargo/config.toml", '[env]\nCXX = "c++"\nAR = "/ar"\n')
    assert "CXX is 'c++' and was" in build(built)
    assert "Compiling" not in build(built, CXX="launcher c++"), "the shell's comes first"


def test_a_compiler_or_a_launcher_that_is_not_there_is_named(built: Workspace) -> None:
    for compiler in ("nowhere", "launcher nowhere", "nowhere c++"):
        said = build(built, CXX=compiler)
        assert f"no C++ compiler ({compiler})" in said and "no nowhere" in said


def test_a_launcher_of_rustc_compiles_nothing_again_and_is_kept_away(built: Workspace) -> None:
    assert "Compiling" in build(built)
    built.write("../.cargo/config.toml", '[build]\nrustc-wrapper = "/nowhere/sccache"\n')
    assert "Compiling" not in build(built) and "Compiling" not in build(
        built, RUSTC_WRAPPER=str(built.root / "bin/launcher")
    )
    built.number(2)
    assert "Compiling answer" in build(built)


def test_cargo_says_where_it_builds(built: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    built.write("../.cargo/config.toml", '[build]\ntarget-dir = "big"\n')
    lines = [
        "from run_benches.measure import build, criterion_output",
        "print(build.programs('answer')['answer'], criterion_output.home())",
    ]
    del (environment := built.environment())["CARGO_TARGET_DIR"]
    monkeypatch.setattr(Workspace, "environment", lambda _: environment)
    big = built.root.parent / "big"
    assert built.python(*lines) == f"{big}/release/answer {big}/criterion"
    assert (
        "Compiling" not in built.call("cargo", "build", "--release", "--message-format=short")
        and not (built.root / "target").exists()
    )


def test_what_the_checkout_forces_is_its_own_affair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inherited, "CARGO_CONFIG", tmp_path / "config.toml")
    monkeypatch.setattr(rocksdb_build, "variables", lambda target: {"LIBCLANG_PATH": "/a", "CXXFLAGS": "-O3"})
    monkeypatch.delenv("LIBCLANG_PATH", raising=False)
    with pytest.raises(UserError, match="LIBCLANG_PATH is unset and was '/a'"):
        inherited.check_variables(tmp_path, tmp_path, HOST)
    (tmp_path / "config.toml").write_text('[env]\nLIBCLANG_PATH = { value = "/b", force = true }\n')
    inherited.check_variables(tmp_path, tmp_path, HOST)


def test_the_machine_of_this_test_is_known() -> None:
    assert toolchain._host() in toolchain._said("rustc", "-vV") and toolchain._host()
