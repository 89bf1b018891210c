"""The pictures of a run, by name: all that the page shows, and all that is drawn beside it.

Why one list: what the page refers to, what is drawn and what is checked are the same pictures, or one of them dangles.
"""

from run_benches import pictures as drawn_from
from run_benches.pictures import Picture
from run_benches.runs import Run

_PICTURES = (drawn_from.crud, drawn_from.floors, drawn_from.ladder)


def pictures(run: Run) -> dict[str, Picture]:
    """Those for which the run has figures."""
    return {picture.name: picture for of in _PICTURES if (picture := of(run)) is not None}
