"""Assets of a stream, to schedule other DAGs by its data. Light: DAG files import it.

- ``schedule=[loaded("nyc_taxi")]``: after each verified load, with its proof.
- ``schedule=PartitionedAssetTimetable(assets=loaded_interval("nyc_taxi"))``: by intervals.
- ``schedule=[published("nyc_taxi")]``: while the stream publishes, from any producer.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher

from sluice.airflow.triggers.asset_event import PublishedEventTrigger
from sluice.config import streams

EVERY_SECONDS = 60


def loaded(stream: str) -> Asset:
    """Has an event after each verified load; its extra names the proof. Raises ConfigError."""
    return Asset(name=stream, uri=_address(stream))


def loaded_interval(stream: str) -> Asset:
    """Has an event after each verified load of an interval (a backfill, generated records): its partition key
    is the interval's begin in UTC, ``2026-06-01T00:00:00``. Raises ConfigError.

    Not the asset of :func:`loaded`: an event with a partition key starts DAGs with a partitioned timetable
    only, and one without it none of those.
    """
    return Asset(name=f"{stream}.intervals", uri=f"{_address(stream)}/intervals")


def published(stream: str, every_seconds: int = EVERY_SECONDS) -> Asset:
    """Has an event when the stream has published, at most one in ``every_seconds``; its extra's ``payload``
    has offset ranges and counts since the one before. Raises ConfigError.

    Only this function makes it: an asset of the same name without its watcher would remove the watcher.
    Another rate is another asset, so that DAGs with different ones do not end each other's.
    """
    if every_seconds < 1:
        raise ValueError(f"published({stream!r}): every_seconds is {every_seconds}. Fix: at least 1")
    suffix = "" if every_seconds == EVERY_SECONDS else f".{every_seconds}s"
    trigger = PublishedEventTrigger(stream=stream, every=float(every_seconds))
    return Asset(
        name=f"{stream}.published{suffix}",
        uri=f"{_address(stream)}/published{suffix}",
        watchers=[AssetWatcher(name=f"{stream}.published{suffix}", trigger=trigger)],
    )


def _address(stream: str) -> str:
    return f"sluice://lake/{streams.load(stream).table.replace('.', '/')}"
