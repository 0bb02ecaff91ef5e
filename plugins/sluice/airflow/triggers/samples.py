"""The samples of earlier checks, in the memory of the triggerer's process: for one that finds no observer.

Not in XCom: there, with ``include_prior_dates``, a run without a logical date (the command line's default)
is the newest for ever. Another triggerer, or one that is restarted, begins without them: detection then only
takes longer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from sluice.supervision.rules.sample import Sample, downsample

# Kept of one component, at most: further apart than the rules count a gap, they would show no pace.
MAX_SAMPLES = 22
# Components. Beyond them those that were not checked for longest begin again.
MAX_COMPONENTS = 500
_kept: OrderedDict[tuple[str, str], list[Sample]] = OrderedDict()


def earlier(stream: str, component: str) -> list[Sample]:
    """What the checks before kept, oldest first."""
    return list(_kept.get((stream, component), ()))


def keep(stream: str, component: str, samples: Sequence[Sample], seconds: float) -> None:
    """Keep at most MAX_SAMPLES of them for the next check, evenly over the ``seconds`` before the last."""
    _kept[stream, component] = downsample(samples, seconds, MAX_SAMPLES)
    _kept.move_to_end((stream, component))
    while len(_kept) > MAX_COMPONENTS:
        _kept.popitem(last=False)
