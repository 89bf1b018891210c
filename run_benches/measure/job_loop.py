"""Carrying out jobs: one after the other, the outcome of each stored before the next begins.

Why so often: a run is stopped by hand, by a full disk or by a crash of what it measures, and none of these may cost
more than the job under way. So a job that was interrupted leaves no trace, one that is done is never done again, and
what stands on disk is whole at every moment.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from run_benches import interrupts
from run_benches.measure.plan import Costs
from run_benches.progress import ProgressLine, duration
from run_benches.store.runs import Job

Failures = Mapping[str, str]
"""The failures, by row."""


def invalid(id: str, failure: str) -> str:
    """The words for a failure."""
    return f"{id} is invalid: {failure}"


@dataclass(frozen=True)
class Task:
    """One job as the loop sees it. `do` carries it out within a deadline in seconds, and keeps what it found. `cost` is
    what its seconds beyond those that are expected are remembered by, and how many parts share them."""

    name: str
    words: str
    expected_s: Callable[[], float]
    do: Callable[[float], Failures]
    cost: tuple[str, int] | None = None
    said: Callable[[str, str], str] = invalid


class JobLoop:
    """Jobs under way. Used in a `with`, at whose end the costs are kept for the next estimate."""

    def __init__(
        self,
        order: list[Job],
        store: Callable[[float], None],
        timeout_s: float,
        earlier_s: float = 0.0,
        so_far: Callable[[], str] = str,
    ) -> None:
        """`order` has the jobs that are done, and grows; `store` is told the seconds in all, of which `earlier_s` were
        spent before an interruption; `so_far` is told behind what is under way."""
        self.line, self.costs = ProgressLine(), Costs()
        self._order, self.done = order, {job.name for job in order}
        self._keep, self._timeout_s, self._so_far = store, timeout_s, so_far
        self._earlier_s, self._began = earlier_s, time.monotonic()
        self._under_way = ("", 0.0)

    def __enter__(self) -> Self:
        self.store()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.line.__exit__(kind, error, trace)
        self.costs.store()

    @property
    def spent_s(self) -> float:
        """The seconds spent in all."""
        return self._earlier_s + time.monotonic() - self._began

    def left(self, tasks: Sequence[Task]) -> list[Task]:
        """Those that are not done yet."""
        return [task for task in tasks if task.name not in self.done]

    def carry_out(self, tasks: Sequence[Task], later_s: Callable[[], float] = float) -> None:
        """Does those that are not done yet; `later_s` is what is expected behind them."""
        todo = self.left(tasks)
        while todo:
            task = todo.pop(0)
            began, expected_s = time.monotonic(), task.expected_s()
            self._under_way = (task.words, began + expected_s + sum(one.expected_s() for one in todo) + later_s())
            self.tick()
            failures = task.do(10 * expected_s + 2 * self._timeout_s)
            seconds = time.monotonic() - began
            if task.cost and not failures:
                subject, parts = task.cost
                self.costs.learn(subject, self.costs.extra_s(subject) + (seconds - expected_s) / parts)
            self._order.append(Job(task.name, round(seconds, 3), dict(failures)))
            self.done.add(task.name)
            self.store()
            for id, failure in failures.items():
                self.line.say(task.said(id, failure))

    def tick(self) -> None:
        """Shows what is under way, and how long all will still take; ends the job if the command is to be stopped."""
        interrupts.raise_if_requested()
        words, end = self._under_way
        left_s = end - time.monotonic()
        self.line.show(f"{f'{duration(left_s)} left: ' if left_s > 0 else ''}{words}{self._so_far()}")

    def store(self) -> None:
        """Stores what was found so far."""
        self._keep(round(self.spent_s, 1))
