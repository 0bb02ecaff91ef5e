"""The faults of the drills: one module for each part that a fault hits."""

from __future__ import annotations

from tests.drills.drill import Drill
from tests.drills.faults import catalog, consumer, load, query, record, service

# In the order in which they run: the cheap ones first, the full disk last.
DRILLS: dict[str, Drill] = {
    drill.name: drill
    for faults in (consumer, query, load, record, catalog, service)
    for drill in faults.DRILLS
}
