"""The stored schema of a run: what this version writes and reads, and what the baselines are."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from run_benches import files, serialization
from run_benches.store import run_schema, runs
from run_benches.tests.test_document import a_run


def stored() -> Any:
    return json.loads(run_schema.FILE.read_text(encoding="utf-8"))


def errors(run: Any) -> list[str]:
    return [
        f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(stored()).iter_errors(run)
    ]


def test_the_stored_schema_is_that_of_the_types() -> None:
    wanted = serialization.text(run_schema.schema())
    if os.environ.get("UPDATE_GOLDEN"):
        files.replace(run_schema.FILE, wanted)
    found = run_schema.FILE.read_text(encoding="utf-8")
    assert found == wanted, (
        "the format of a run has changed: raise runs.SCHEMA if older versions cannot read it, then UPDATE_GOLDEN=1 pytest this file"
    )
    jsonschema.Draft202012Validator.check_schema(stored())


FILES = [
    file for path in runs.stored_baselines() for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])
]


@pytest.mark.parametrize("baseline", FILES, ids=lambda path: path.stem)
def test_every_baseline_fits(baseline: Path) -> None:
    assert errors(json.loads(baseline.read_text(encoding="utf-8"))) == []


def test_a_run_just_measured_fits(measured: str) -> None:
    assert errors(json.loads(measured)) == []


def test_what_is_no_run_does_not_fit() -> None:
    run = json.loads(serialization.text(a_run()))
    assert errors(run) == []
    row = next(iter(run["benches"]))
    run["benches"][row]["state"] = "skiped"
    run["benches"][row]["facts"]["threads"] = "8"
    del run["design"]["seed"]
    found = " ".join(errors(run))
    assert (
        "'skiped' is not one of" in found
        and "'8' is not of type 'integer'" in found
        and "'seed' is a required property" in found
    )
