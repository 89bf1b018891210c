"""Profiles: stacks out of what perf and callgrind really write, whose code a function is, and a real program under both
tools."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from run_benches.cli import profile
from run_benches.cli.profile import LOOP, FunctionShare
from run_benches.render.flame import Frame, Stack
from run_benches.store.runs import Facts

GOLDEN = Path(__file__).parent / "golden" / "profile"
EXECUTABLE, LIBC = "/target/release/deps/transaction-0", "/usr/lib/x86_64-linux-gnu/libc.so.6"
PROGRAM = """
#include <cstdlib>
volatile long sum;
namespace strata::storage { __attribute__((noinline)) void get(long times) { for (long i = 0; i < times; i++) sum = sum + i; } }
namespace strata_harness::live { __attribute__((noinline)) void drive(long count) { while (count--) strata::storage::get(2000); sum = 0; } }
__attribute__((noinline)) void set_up() { for (long i = 0; i < 3000000; i++) sum = sum + i; sum = 0; }
int main() { set_up(); strata_harness::live::drive(atol(getenv("STRATA_COUNT"))); sum = 1; }
"""


def test_samples_of_perf_begin_under_the_loop() -> None:
    stacks = profile.sampled((GOLDEN / "perf-script.txt").read_text(), LOOP, "transaction")
    assert stacks.total() == 6, "eight samples, and two of them outside of the timed part"
    assert {stack[0] for stack in stacks} == {Frame("transaction::verbs::read::{{closure}}", "bench")}
    leaves = {stack[-1] for stack in stacks}
    assert {
        Frame("_raw_spin_lock", "kernel"),
        Frame("_int_malloc", "C library"),
        Frame("twox_hash::xxhash3_64::impl_241_plus_bytes::do_avx2", "encoding"),
    } <= leaves


def test_the_graph_of_callgrind_becomes_stacks_of_the_same_cost() -> None:
    stacks = profile.counted((GOLDEN / "callgrind.out").read_text(), LOOP, "transaction")
    assert stacks.total() == pytest.approx(267_263_547, abs=len(stacks))
    get = [
        cost
        for stack, cost in stacks.items()
        if any(frame.function == "strata::storage::Store::get" for frame in stack)
    ]
    assert sum(get) / stacks.total() == pytest.approx(0.847, abs=0.001)
    assert all(len(set(stack)) == len(stack) for stack in stacks), (
        "a function that calls itself is not followed round and round"
    )


def test_a_shared_function_costs_its_callers_in_proportion() -> None:
    graph = """positions: line
events: Ir
fn=(1) strata_harness::live::drive
0 0
cfn=(2) strata::storage::get
calls=1 0
0 300
cfn=(3) strata::storage::put
calls=1 0
0 700
fn=(2)
0 100
cfn=(4) memcpy
calls=9 0
0 200
fn=(3)
+5 100
cfn=(4)
calls=27 0
* 600
fn=(4)
-2 800
"""
    stacks = profile.counted(graph, LOOP, "x")
    assert {tuple(frame.function for frame in stack): cost for stack, cost in stacks.items()} == {
        ("strata::storage::get",): 100,
        ("strata::storage::get", "memcpy"): 200,
        ("strata::storage::put",): 100,
        ("strata::storage::put", "memcpy"): 600,
    }


@pytest.mark.parametrize(
    ("function", "place", "name", "layer"),
    [
        ("strata::indexes::hash::insert::h0123456789abcdef", EXECUTABLE, "strata::indexes::hash::insert", "indexes"),
        (
            "<strata[8f3a2b1c9d4e5f60]::storage::Store as core::ops::drop::Drop>::drop",
            EXECUTABLE,
            "<strata::storage::Store as core::ops::drop::Drop>::drop",
            "storage",
        ),
        (
            "strata::layers::query::run::{{closure}}::h0123456789abcdef",
            EXECUTABLE,
            "strata::query::run::{{closure}}",
            "query",
        ),
        (
            "<strata[8f3a2b1c9d4e5f60]::server_layers::ingress::Limits as core::clone::Clone>::clone",
            EXECUTABLE,
            "<strata::ingress::Limits as core::clone::Clone>::clone",
            "ingress",
        ),
        (
            "rocksdb::(anonymous namespace)::A::Compare(rocksdb::Slice const&) const",
            EXECUTABLE,
            "rocksdb::(anonymous namespace)::A::Compare",
            "RocksDB",
        ),
        ("rocksdb::DecodeEntry::operator()", EXECUTABLE, "rocksdb::DecodeEntry::operator()", "RocksDB"),
        (
            "rust_rocksdb::db::DBCommon<T,D>::get_pinned_cf_opt",
            EXECUTABLE,
            "rust_rocksdb::db::DBCommon<T,D>::get_pinned_cf_opt",
            "RocksDB",
        ),
        ("transaction::verbs::read::{{closure}}", EXECUTABLE, "transaction::verbs::read::{{closure}}", "bench"),
        ("write", "[kernel.kallsyms]", "write", "kernel"),
        ("__libc_start_main@@GLIBC_2.34", LIBC, "__libc_start_main", "C library"),
        ("hyper::proto::h1::conn::poll'2", EXECUTABLE, "hyper::proto::h1::conn::poll", "other"),
    ],
)
def test_a_function_has_a_plain_name_and_a_layer(function: str, place: str, name: str, layer: str) -> None:
    assert profile.frame(function, place, "transaction") == Frame(name, layer)


def test_code_of_nobody_here_counts_for_its_caller() -> None:
    ours, crate, kernel = (
        Frame("strata::encoding::open", "encoding"),
        Frame("twox_hash::oneshot", "other"),
        Frame("fault", "kernel"),
    )
    assert profile._owned([crate, ours, crate, kernel]) == (
        crate,
        ours,
        Frame("twox_hash::oneshot", "encoding"),
        kernel,
    )


def test_of_two_revisions_the_largest_change_stands_first() -> None:
    a, b, c = Frame("a", "storage"), Frame("b", "storage"), Frame("c", "encoding")
    before: Counter[Stack] = Counter({(a,): 60, (b,): 40})
    after: Counter[Stack] = Counter({(a,): 55, (c,): 45})
    shares = profile._shares(profile.by_function(after), profile.by_function(before))
    assert shares[0] == FunctionShare("c", "encoding", 0.45, 0.0) and [one.function for one in shares] == [
        "c",
        "b",
        "a",
    ]
    assert profile.by_layer(before) == {Frame("", "storage"): 1.0}


@pytest.mark.parametrize("unit", ["samples", "instructions"])
def test_a_real_program_without_its_set_up(unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, valgrind = shutil.which("c++"), shutil.which("valgrind")
    if compiler is None or valgrind is None:
        pytest.skip("needs c++ and valgrind")
    if unit == "samples" and shutil.which("perf") is None:
        pytest.skip("needs perf")
    executable = tmp_path / "storage-0"
    subprocess.run(
        [compiler, "-O1", "-g", "-std=c++17", "-x", "c++", "-", "-o", str(executable)],
        input=PROGRAM,
        text=True,
        check=True,
    )
    monkeypatch.setattr(profile, "RUNS", tmp_path)
    monkeypatch.setattr(profile, "PROFILED_S", 0.3)
    if unit == "instructions":
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == "perf" else which(name))
    facts = Facts("reads", "records", 1.0, 1)
    seen = profile._profiled(executable, "here", "storage/get/strata/1", facts)
    if seen.unit != unit:
        pytest.skip(seen.tool)
    shares = profile.by_layer(seen.stacks)
    assert next(iter(shares)) == Frame("", "storage") and shares[Frame("", "storage")] > 0.9
    assert not any(frame.function.startswith(("set_up", "main")) for stack in seen.stacks for frame in stack)
    path = profile._draw("storage/get/strata/1", facts, seen, seen)
    assert path == tmp_path / "profiles" / "storage-get-strata-1-here-against-here.svg" and path.read_text().startswith(
        "<svg"
    )
    assert sorted(os.listdir(tmp_path)) == ["profiles", "storage-0"], "nothing else is left behind"
