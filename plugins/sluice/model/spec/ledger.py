"""Where the ledger keeps what, under ``<ledger>/<stream>/``. No libraries: everything may import it.

The history of a stream's other components lies under ``<ledger>/<stream>.<part>/`` (:func:`history_name`).

::

    sources/<source_id>/planned.json      an object's version, and where the topic ended when it was planned
    sources/<source_id>/produced.json   the offsets between which all its rows were sent
    runs/<run_id, quoted>/plan.json     the objects' versions that a run means, pinned at its first attempt
    runs/<run_id, quoted>/baseline.json   what lay in the bucket before the load
    runs/<run_id, quoted>/proof.json    the validation's result, once it is exact
    runs/<run_id, quoted>/compaction.json    the table before a run of the compaction
    history/<kind>/<moment>-<suffix>.json            what happened to the stream, in the order of the keys
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

Document = dict[str, Any]

# ``who`` of a restart that the runtime made by itself.
RUNTIME = "runtime"
# UTC, to the microsecond, of one width: the order of the texts is the order of the moments.
_MOMENT = "%Y%m%dT%H%M%S.%fZ"


def history_name(stream: str, component: str) -> str:
    """Under which name a stream's part has its history: the consumer under the stream's own."""
    return stream if component == "consumer" else f"{stream}.{component}"


def planned_key(source_id: str) -> str:
    return f"sources/{source_id}/planned.json"


def produced_key(source_id: str) -> str:
    return f"sources/{source_id}/produced.json"


def run_key(run_id: str, name: str) -> str:
    """``name``: plan, baseline, reconciliation, proof or compaction. A run id holds colons and plus signs, so
    it is quoted."""
    return f"runs/{quote(run_id, safe='')}/{name}.json"


def history_prefix(kind: str) -> str:
    """Under which the events of one kind lie."""
    return f"history/{kind}/"


def history_key(kind: str, at: datetime, suffix: str) -> str:
    """``at`` is aware; ``suffix``, without a slash, tells events of one moment apart."""
    return f"{history_prefix(kind)}{moment(at)}-{suffix}.json"


def moment(at: datetime) -> str:
    """A moment as history's keys have it: what sorts between two keys, lies between them in time."""
    return at.astimezone(UTC).strftime(_MOMENT)


def moment_of(key: str) -> datetime | None:
    """When the event of a history's key was; None for a key that is none."""
    found = re.search(r"history/[^/]+/([^/-]+)-[^/]+\.json$", key)
    try:
        return datetime.strptime(found[1], _MOMENT).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
