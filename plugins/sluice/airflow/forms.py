"""The forms (params) of a stream's DAGs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from sluice.airflow.params import Param
from sluice.config.reading.names import KEY_CHARACTER
from sluice.config.stream import SourceType, StreamSpec
from sluice.config.stream_columns import has_closed_dates
from sluice.core.changes.plan import Action
from sluice.core.csv.form import SUFFIXES
from sluice.core.offsets.topic_ranges import EXAMPLE
from sluice.supervision.lifecycle import ALL
from sluice.supervision.lifecycle import Action as Request

# More rows than this are never changed without a person.
ASK_ABOVE_MAXIMUM = 10_000_000
# The longest waits, which take no worker; the timeouts of runs follow from them.
MAX_PUBLISH_MINUTES = 180
MAX_FEED_MINUTES = 720
# Ends of keys, in any case; a browser's patterns have no flags.
_ENDS = (
    "("
    + "|".join(
        "".join(f"[{char}{char.upper()}]" if char.isalpha() else rf"\{char}" for char in suffix)
        for suffix in SUFFIXES
    )
    + ")"
)


def load(spec: StreamSpec) -> dict[str, Param]:
    """The source's params, and the limits of a load."""
    return _source(spec) | limits()


def limits() -> dict[str, Param]:
    """The limits of a load; of a backfill's run the whole form, as its interval chooses the records."""
    return {
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
            maximum=MAX_PUBLISH_MINUTES,
            title="Publish timeout (minutes)",
            description="Maximum wait, after producing, until all records are published",
        ),
    }


def defaults(spec: StreamSpec) -> dict[str, Any]:
    """The params that choose a load's records, with their defaults."""
    return {name: param.value for name, param in _source(spec).items()}


def _source(spec: StreamSpec) -> dict[str, Param]:
    match spec.source:
        case SourceType.FEED:
            return _feed()
        case SourceType.GENERATOR:
            schemas = spec.generator.schemas if spec.generator else {}
            return {
                name: Param(schema["default"], **{key: schema[key] for key in schema if key != "default"})
                for name, schema in schemas.items()
            } | _verify_again()
        case SourceType.CSV:
            return _csv(spec.source_prefix) | _verify_again()
        case SourceType.TOPIC:
            return {
                "until_time": _optional(
                    "Until",
                    "The load ends before the first record of this time or a later one; default: at the "
                    "topic's end now. It begins where the last verified one ended",
                    format="date-time",
                )
            }
        case other:
            assert_never(other)


def _csv(prefix: str) -> dict[str, Param]:
    under = f"under {prefix}" if prefix else "in the source bucket"
    return {
        "source_prefix": Param(
            prefix,
            type="string",
            title="Source prefix",
            description="Every .csv, .csv.gz and .csv.zst object of the source bucket under this prefix is "
            "loaded: "
            f"{prefix or 'everything'}, or a longer one",
            pattern=_key_pattern(prefix),
        ),
        "objects": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "pattern": _key_pattern(prefix, _ENDS)},
            title="Objects",
            description=f"Keys {under}, one per line; default: the prefix above",
        ),
        "withhold": Param(
            False,
            type="boolean",
            title="Withhold",
            description="For corrected files: keep their records in quarantine, until action replace of the "
            "change DAG publishes them in place of those of the older version",
        ),
        "load_changed_objects": Param(
            False,
            type="boolean",
            title="Load changed objects",
            description="Load objects of which other content was loaded before under the same key; without "
            "it, and without withhold, the load is refused. The rows of both contents are in the table then. "
            "An object whose content a change took out is loaded again, too",
        ),
    }


def _key_pattern(prefix: str, end: str = "") -> str:
    """Return a regular expression, for Python and for a browser, of keys within the stream's prefix."""
    # A dot is the only character of a prefix that has a meaning in it.
    begin = prefix.replace(".", r"\.")
    return rf"^(?!/)(?!(.*/)?\.\.?(/|$)){begin}{KEY_CHARACTER}*{end}$"


def _verify_again() -> dict[str, Param]:
    return {
        "verify_again": Param(
            False,
            type="boolean",
            title="Verify again",
            description="Also verify the sources that an earlier load verified: read each again, and compare",
        )
    }


def _feed() -> dict[str, Param]:
    return {
        "events": Param(
            10_000,
            type="integer",
            minimum=1,
            maximum=10_000_000,
            title="Events",
            description="Number of events to wait for, unless the timeout is over before. By offsets: of a "
            "second's events each partition has one more",
        ),
        "minutes": Param(
            5,
            type="integer",
            minimum=1,
            maximum=MAX_FEED_MINUTES,
            title="Timeout (minutes)",
            description="Maximum wait for the events; the load fails if none arrived",
        ),
    }


def maintenance(spec: StreamSpec) -> dict[str, Param]:
    """None for a table without closed dates, all of whose small files are rewritten."""
    if not has_closed_dates(spec):
        return {}
    return {
        "compact_before": _optional(
            "Before", "Files of dates before this one are rewritten; default: yesterday (UTC)", format="date"
        )
    }


def change() -> dict[str, Param]:
    """What to change: which of the others an action needs is said with each."""
    return {
        "action": Param(
            Action.REPLAY.value,
            type="string",
            enum=[action.value for action in Action],
            title="Action",
            description="replay: read the records of ranges or of a time span again. retry_quarantine: load "
            "what was rejected and is good now. revert: take a load's rows out. redo: bring them back. "
            "replace: take the rows of an object's earlier versions out, and publish those of its newest "
            "one, which a load with withhold has sent. remove: take single records out of the table and the "
            "quarantine. fill_columns: put what the column of further fields kept into the columns that the "
            "table has got since, without the topic",
        ),
        "ranges": _optional(
            "Ranges",
            "For replay, remove, and redo of what remove took out: offsets as in messages and proofs, "
            f"{EXAMPLE}. For fill_columns: rows there only; default: all",
        ),
        "from_time": _optional(
            "From", "For replay, instead of ranges: the first timestamp in Kafka", format="date-time"
        ),
        "until_time": _optional("Until", "For replay: the timestamp behind the last one", format="date-time"),
        "load": _optional(
            "Load", "For revert and redo: the run id of the load. For retry_quarantine: its records only"
        ),
        "object": _optional("Object", "For replace: the key in the source bucket"),
        "reason": _optional("Reason", "For retry_quarantine: records whose reason contains this"),
        "partial": Param(
            False,
            type="boolean",
            title="Partial",
            description="Leave records as they are that retention has deleted, and that are not in "
            "quarantine; by default they are an error",
        ),
        "ask_above": Param(
            1_000_000,
            type="integer",
            minimum=0,
            maximum=ASK_ABOVE_MAXIMUM,
            title="Ask above",
            description="A person approves a change of more rows, each revert, remove and replace",
        ),
    }


def reconciliation() -> dict[str, Param]:
    return {
        "full": Param(
            False,
            type="boolean",
            title="Full",
            description="Verify the whole table and every file again, not only what is new",
        )
    }


def supervision(components: Sequence[str]) -> dict[str, Param]:
    return {
        "action": Param(
            Request.CHECK.value,
            type="string",
            enum=[action.value for action in Request],
            title="Action",
            description="check: check its health and act on it. stop: stop, and keep it stopped. "
            "start: resume and start. restart: resume and restart",
        ),
        "component": Param(
            ALL,
            type="string",
            enum=[ALL, *components],
            title="Component",
            description="The component that the action is for; the others are only checked",
        ),
        "reason": _optional(
            "Reason", "Recorded in the component's history, and shown while it is stopped", maxLength=500
        ),
    }


def _optional(title: str, description: str, **schema: Any) -> Param:
    """A text that may be left out."""
    return Param(None, type=["string", "null"], title=title, description=description, **schema)
