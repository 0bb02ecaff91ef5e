"""The Trigger forms of a stream's DAGs."""

from __future__ import annotations

from airflow.sdk import Param

from sluice.model.spec.stream import SourceType, StreamSpec


def load(spec: StreamSpec) -> dict[str, Param]:
    """What a load sends, by kind of source, and its limits."""
    if spec.source is SourceType.FEED:
        source = _feed()
    elif spec.generator:
        source = {
            name: Param(schema["default"], **{key: schema[key] for key in schema if key != "default"})
            for name, schema in spec.generator.schemas.items()
        }
    else:
        source = _csv(spec.name)
    return source | {
        "max_quarantined_percent": Param(
            5,
            type="number",
            minimum=0,
            maximum=100,
            title="Quarantine limit (%)",
            description="The load fails if more than this share of its records is in quarantine",
        ),
        "publish_timeout_minutes": Param(
            30,
            type="integer",
            minimum=1,
            maximum=180,
            title="Time to land (minutes)",
            description="How long to wait, after producing, until everything is published",
        ),
    }


def _csv(name: str) -> dict[str, Param]:
    return {
        "source_prefix": Param(
            f"{name}/",
            type="string",
            title="Source prefix",
            description="Every .csv and .csv.gz object of the source bucket under this prefix is loaded",
            pattern="^[^/].*$",
        ),
        "objects": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "pattern": "^[^/].*\\.csv(\\.gz)?$"},
            title="Objects",
            description="Keys in the source bucket, one per line; default: the prefix above",
        ),
    }


def _feed() -> dict[str, Param]:
    return {
        "events": Param(
            10_000,
            type="integer",
            minimum=1,
            maximum=10_000_000,
            title="Events",
            description="Number of events to wait for, unless the time below is up before",
        ),
        "minutes": Param(
            5,
            type="integer",
            minimum=1,
            maximum=720,
            title="Time to wait (minutes)",
            description="How long the events are waited for at most; the load fails if none came",
        ),
    }


def compact() -> dict[str, Param]:
    return {
        "compact_before": Param(
            None,
            type=["string", "null"],
            format="date",
            title="Before",
            description="Files of earlier dates than this are rewritten; default: yesterday (UTC)",
        )
    }
