"""The programs that the scenario `cold-storage` names: `strata-lake` and the checks, for each kind of catalogue.

Why wrappers: the scenario says what is copied and asked, and not into which catalogue; so the load tool stays one that
knows HTTP alone.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from run_benches.lake import copying, readers, seaweedfs
from run_benches.lake.readers import Lakehouse, Rest, Sql
from run_benches.measure.load_run import RunnableScenario
from run_benches.places import ROOT
from run_benches.setup import packages

COPY = """#!{python} -I
import os, sys
os.execve({program!r}, [{program!r}, *sys.argv[1:], *{options!r}], os.environ | {variables!r})
"""

CHECK = """#!{python} -I
import sys
sys.path.insert(0, {root!r})
from run_benches.lake import check, readers
sys.exit(check.main(readers.read({lakehouse!r}), sys.argv[1:]))
"""


@contextmanager
def of(scenarios: Sequence[RunnableScenario]) -> Iterator[dict[str, Path]]:
    """The programs that scenarios name, each lakehouse new, until the block ends; none where none is named. What is
    installed and built already takes seconds."""
    if not any(scenario.needs_programs for scenario in scenarios):
        yield {}
        return
    packages.add_full()
    copying.build()
    with tempfile.TemporaryDirectory() as name, seaweedfs.running(Path(name) / "seaweedfs") as store:
        folder = Path(name)
        kinds: dict[str, Lakehouse] = {
            "sql": Sql(folder / "lake.db", folder / "warehouse"),
            "rest": Rest(store.catalog_uri, seaweedfs.WAREHOUSE, store.s3_endpoint, store.credential),
        }
        found = {}
        for kind, lakehouse in kinds.items():
            texts = {
                f"lake-{kind}": COPY.format(
                    python=sys.executable,
                    program=str(copying.program()),
                    options=lakehouse.options(),
                    variables=lakehouse.variables(),
                ),
                f"lake-check-{kind}": CHECK.format(
                    python=sys.executable, root=str(ROOT), lakehouse=readers.written(lakehouse)
                ),
            }
            for program, text in texts.items():
                found[program] = folder / program
                found[program].touch(0o700)
                found[program].write_text(text, encoding="utf-8")
        yield found
