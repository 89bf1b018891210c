"""The pictures of a run, by name: all that the page shows, and all that is drawn beside it.

Why one list: what the page refers to, what is drawn and what is checked are the same pictures, or one of them dangles.
"""

from run_benches.render import layer_pictures, macro, scaling
from run_benches.render import pictures as stack
from run_benches.render.pictures import Picture
from run_benches.store.runs import Run


def pictures(run: Run) -> dict[str, Picture]:
    """Those for which the run has figures."""
    found = [
        stack.crud(run),
        stack.floors(run),
        stack.ladder(run),
        *layer_pictures.drawn(run),
        *scaling.drawn(run),
        macro.drawn(run),
    ]
    return {picture.name: picture for picture in found if picture is not None}
