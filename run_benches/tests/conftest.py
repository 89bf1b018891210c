"""Fixtures that several files of tests use."""

from run_benches.tests.checkout import checkout, measured
from run_benches.tests.workspace import stub

__all__ = ["checkout", "measured", "stub"]
