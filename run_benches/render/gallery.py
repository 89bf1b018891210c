"""The pictures of a run, by name: all that the page shows, and all that is drawn beside it.

Why one list: what the page refers to, what is drawn and what is checked are the same pictures, or one of them dangles.
"""

from run_benches.analysis.findings import Findings
from run_benches.render import layer_pictures, macro, scaling
from run_benches.render import pictures as stack
from run_benches.render.pictures import Picture


def pictures(found: Findings) -> dict[str, Picture]:
    """Those for which the run has figures."""
    drawn = [
        stack.crud(found),
        stack.floors(found),
        stack.ladder(found),
        *layer_pictures.drawn(found),
        *scaling.drawn(found),
        macro.drawn(found),
    ]
    return {picture.name: picture for picture in drawn if picture is not None}
