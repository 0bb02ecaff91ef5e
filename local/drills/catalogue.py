"""All drills, in the order in which they are run: the cheap ones first, the whole disk last."""

from __future__ import annotations

from local.drills import bucket, consumer, records, services
from local.drills.drill import Drill
from local.errors import Problem

DRILLS: dict[str, Drill] = {
    drill.name: drill for drill in (*records.DRILLS, *consumer.DRILLS, *services.DRILLS, *bucket.DRILLS)
}


def chosen(text: str) -> list[Drill]:
    """The drills of a list of names with commas; all of them for an empty one.

    Raises Problem naming what is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in DRILLS]
    if unknown:
        raise Problem(f"DRILL={text}: no drill {', '.join(unknown)}; there are {', '.join(DRILLS)}")
    return [DRILLS[name] for name in names] if names else list(DRILLS.values())
