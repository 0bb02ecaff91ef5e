"""Keys of the ledger under ``<ledger>/<stream>/``, for other components' history ``<stream>.<component>/``.

::

    sources/<source_id>/planned.json        the source, and its start offsets
    sources/<source_id>/produced.json       the offset ranges of its rows
    runs/<run_id, quoted>/plan.json         the run's sources, pinned by its first attempt
    runs/<run_id, quoted>/baseline.json     the bucket's inventory before the load
    runs/<run_id, quoted>/proof.json        the result of `validate`, if it passed
    runs/<run_id, quoted>/compaction.json   date and snapshot, pinned by the first attempt of a compaction
    history/<kind>/<moment>-<suffix>.json   the stream's events; keys sort by time
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

Document = dict[str, Any]

# ``who`` of a restart that the runtime made by itself.
RUNTIME = "runtime"
# UTC, to the microsecond, of one width: texts sort by time.
_MOMENT = "%Y%m%dT%H%M%S.%fZ"


def history_name(stream: str, component: str) -> str:
    return stream if component == "consumer" else f"{stream}.{component}"


def planned_key(source_id: str) -> str:
    return f"sources/{source_id}/planned.json"


def produced_key(source_id: str) -> str:
    return f"sources/{source_id}/produced.json"


def run_key(run_id: str, name: str) -> str:
    """``name``: plan, baseline, reconciliation, proof or compaction. Run ids contain ``:`` and ``+``."""
    return f"runs/{quote(run_id, safe='')}/{name}.json"


def history_prefix(kind: str) -> str:
    return f"history/{kind}/"


def history_key(kind: str, at: datetime, suffix: str) -> str:
    """``suffix``: without a slash, distinguishes events of one time."""
    return f"{history_prefix(kind)}{moment(at)}-{suffix}.json"


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_MOMENT)


def moment_of(key: str) -> datetime | None:
    """Time of an event by its key; None for another key."""
    found = re.search(r"history/[^/]+/([^/-]+)-[^/]+\.json$", key)
    try:
        return datetime.strptime(found[1], _MOMENT).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
