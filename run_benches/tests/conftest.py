"""Fixtures that several files of tests use."""

import signal
from collections.abc import Iterator

import pytest

from run_benches.interrupts import SIGNALS
from run_benches.tests.checkout import checkout, measured
from run_benches.tests.workspace import stub

__all__ = ["checkout", "measured", "stub"]

# A shell that has started the tests in the background (and nohup) has some ignored, and all that they start would
# inherit that.
for ignored in (number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN):
    signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def heeded_by_pytest() -> Iterator[None]:
    """A command that is carried out in this very process leaves the signals to who had them."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
