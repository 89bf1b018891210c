"""Fixtures that several files of tests use."""

from run_benches.tests.checkout import checkout

__all__ = ["checkout"]
