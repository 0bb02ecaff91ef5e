"""Keys of the ledger under ``<ledger>/<stream>/``, for other components' history ``<stream>.<component>/``.
A backfill's run has several loads; its documents are under ``<run_id>#<number>`` instead of its run id.

::

    sources/<source_id>/planned.json        the source, and its start offsets
    sources/<source_id>/produced.json       the offset ranges of its rows
    verified/<incarnation>/<source_id>-<end>.json  the load that verified it, and the topic's ends then;
                                            of a version with the content of another source: …-<that>.json
    topic/<incarnation>/began.json          of a topic of others: where the stream begins in it
    topic/<incarnation>/verified/<countdown>.json  a load that was verified, and its end offsets; the newest
                                            sorts first
    topic/<incarnation>/times/<time>.json   the first offsets at or after it: a bound of intervals
    topic/<incarnation>/heads/<countdown>-<moment>.json  the tables' newest snapshots when a load was planned
    objects/<incarnation>/<object>/<countdown>.json  the contents that loads planned of a key; newest first
    tables/<name>/<uuid>.json               a table that was seen with published contents
    rewrites/<rewrite_id>.json              a rewrite of a table's files was verified
    rewrites/<rewrite_id>-and-before.json   and so were all before it
    portions/<digest>/<digest>.json         offsets of files that a verification of many read
    changes/<change_id>.json                the run of a change that was planned
    runs/<run_id, quoted>/plan.json         the run's sources, pinned by its first attempt
    runs/<run_id, quoted>/produced.json     the offset ranges of all of them
    runs/<run_id, quoted>/baseline.json     the tables' newest snapshots before the load
    runs/<run_id, quoted>/proof.json        the result of `validate`, if it passed; repeated: proof-<snapshot>
    runs/<run_id, quoted>/audit.json        objects and versions of the load, if its audit passed
    runs/<run_id, quoted>/reconciliation.json   its results in the sinks, if they are right; of a later proof
                                            this and audit have its number too
    runs/<run_id, quoted>/change.json       the plan of a change, pinned by its first attempt
    runs/<run_id, quoted>/change-approval.json  a person's answer about a change; later: change-approval-<n>
    runs/<run_id, quoted>/change-proof.json the result of `verify_change`, if it passed
    runs/<run_id, quoted>/notified-<dag>-<event>-<start>.json  what a person was told of a run
    runs/<run_id, quoted>/findings-<task>.json  what a run of reconciliation found that later ones do not;
                                            cleared: findings-<task>-<n>
    runs/<run_id, quoted>/compaction.json   date and snapshots, pinned by the first attempt of a compaction
    history/metadata/<countdown>-<moment>-tables.json   the metadata file of each table at this time
    history/proof/<countdown>-<moment>-load.json  a load that was verified, and up to which offsets
    history/not_verified/<countdown>-<moment>-load.json  a load that was not, and why
    history/maintenance/<countdown>-<moment>-complete.json  a complete run of maintenance
    history/reconciled_<what>/<countdown>-<moment>-run.json  what a step of reconciliation found: offsets,
                                                        table, files
    history/passed_<what>/<countdown>-<moment>-run.json  what a step of reconciliation saw that passed,
                                                    and its notes; nothing while it runs, or if it failed
    history/exported/<countdown>-<moment>-run.json  the connections of the sinks are in their Secret
    history/notified/<countdown>-<moment>-run.json  what a person was told of an outage
    history/undelivered/<countdown>-<moment>-run.json   what a person was not told of a run: its notifier
                                                    failed; told later: delivered
    history/<kind>/<countdown>-<moment>-<suffix>.json   the stream's events; the newest sorts first

Beside the streams, ``_registries`` has the schemas of registries (``clients.registry.objects``).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

# ``who`` of a restart that the runtime made by itself.
RUNTIME = "runtime"
# The kinds of these records. They are no events of a component, and no other reader lists them.
METADATA, MAINTENANCE = "metadata", "maintenance"
# Kinds of the records of a load that was verified, and up to which offsets; that was not, and why.
PROOF, NOT_VERIFIED = "proof", "not_verified"
# What a reconciliation verified or saw: states of a stream's tables, offsets of the systems, stored files.
VERIFIED_TABLE, OBSERVED, CHECKED = "reconciled_table", "reconciled_offsets", "reconciled_files"
# The kinds of events, of any component.
EVENTS = (
    "health",
    "restart",
    "start",
    "stop",
    "suspend",
    "resume",
    "recovered",
    "deadline_missed",
)
# Kinds of the records of notifications: of a component's or a scheduled DAG's outage; of a run what was not
# delivered, and under the same moment that nothing is left to deliver of it.
NOTIFIED, UNDELIVERED, DELIVERED = "notified", "undelivered", "delivered"
# Kind of the records that supervision has exported the connections of a stream's sinks, on a cluster.
EXPORTED = "exported"
# Above any sum of offsets.
_LAST_TOTAL = 10**21 - 1
# UTC, to the microsecond, of one width: texts sort by time.
_MOMENT = "%Y%m%dT%H%M%S.%fZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Microseconds; in the year 2286.
_LATEST = 10**16 - 1
_LAST_NUMBER = 10**9 - 1


def history_name(stream: str, component: str) -> str:
    return stream if component == "consumer" else f"{stream}.{component}"


def stream_prefix(prefix: str, stream: str) -> str:
    """The prefix of a stream's keys in the bucket. ``prefix``: the ledger's, or "" if that is a whole
    bucket."""
    return f"{prefix}/{stream}" if prefix else stream


def planned_key(source_id: str) -> str:
    return f"sources/{source_id}/planned.json"


def produced_key(source_id: str) -> str:
    return f"sources/{source_id}/produced.json"


def verified_prefix(incarnation: str, source_id: str = "") -> str:
    """Return the prefix of a table's verified documents, or of one source's."""
    return f"verified/{incarnation}/{source_id and f'{source_id}-'}"


def verified_key(incarnation: str, source_id: str, end: int, same_as: str = "") -> str:
    """``end``: sum of the topic's end offsets when the source had been sent; ``same_as``: the id of the
    source as which the version's content is in the table, if that is another one."""
    return f"{verified_prefix(incarnation, source_id)}{end:019d}{same_as and f'-{same_as}'}.json"


def verified_of(key: str) -> tuple[str, int, str] | None:
    """(source id, end, same as) of a verified document by its key; None for another key."""
    found = re.search(r"verified/[^/]+/([^/-]+)-(\d+)(?:-([^/-]+))?\.json$", key)
    return (found[1], int(found[2]), found[3] or "") if found else None


def began_key(incarnation: str) -> str:
    return f"topic/{incarnation}/began.json"


def verified_until_prefix(incarnation: str) -> str:
    return f"topic/{incarnation}/verified/"


def verified_until_key(incarnation: str, total: int) -> str:
    """``total``: sum of the load's end offsets; the highest sorts first."""
    return f"{verified_until_prefix(incarnation)}{_LAST_TOTAL - total:021d}.json"


def time_key(incarnation: str, at: datetime) -> str:
    return f"topic/{incarnation}/times/{moment(at)}.json"


def heads_prefix(incarnation: str) -> str:
    return f"topic/{incarnation}/heads/"


def heads_key(incarnation: str, at: datetime) -> str:
    return f"{heads_prefix(incarnation)}{countdown(at)}-{moment(at)}.json"


def contents_prefix(incarnation: str, object_id: str) -> str:
    """Return the prefix of the documents with the contents that loads into a table planned of an object."""
    return f"objects/{incarnation}/{object_id}/"


def contents_key(incarnation: str, object_id: str, number: int) -> str:
    """``number``: from 1 on; the newest sorts first."""
    return f"{contents_prefix(incarnation, object_id)}{_LAST_NUMBER - number:09d}.json"


def contents_number(key: str) -> int:
    """The number of a :func:`contents_key`."""
    return _LAST_NUMBER - int(key.rsplit("/", 1)[1].removesuffix(".json"))


# Prefix of the documents of every table of the stream.
TABLES = "tables/"


def tables_prefix(name: str) -> str:
    """Return the prefix of the documents of every table of this name."""
    return f"{TABLES}{name}/"


def table_key(name: str, uuid: str) -> str:
    return f"{tables_prefix(name)}{uuid}.json"


def table_of(key: str) -> tuple[str, str] | None:
    """Name and UUID of a table's document by its key; None for another key."""
    found = re.search(r"tables/([^/]+)/([^/]+)\.json$", key)
    return (found[1], found[2]) if found else None


def rewrite_key(rewrite: str, *, up_to: bool = False) -> str:
    """``up_to``: of the document that all rewrites of its table up to this one are verified."""
    return f"rewrites/{rewrite}{'-and-before' if up_to else ''}.json"


# Prefix of the portions of all verifications of the stream.
PORTIONS = "portions/"


def portion_prefix(of: str) -> str:
    return f"{PORTIONS}{of}/"


def portion_key(of: str, files: str) -> str:
    """``of``: digest of what is verified; ``files``: of the files that were read, and their content."""
    return f"{portion_prefix(of)}{files}.json"


def change_key(change: str) -> str:
    """``change``: of :func:`~sluice.core.changes.plan.change_id`."""
    return f"changes/{change}.json"


def run_key(run_id: str, name: str) -> str:
    """``name``: plan, produced, baseline, proof, proof-<snapshot>, reconciliation, audit, change,
    change-approval, change-proof, notified-<dag>-<event>-<start>, findings-<task>,
    compaction."""
    # Run ids contain ":" and "+".
    return f"runs/{quote(run_id, safe='')}/{name}.json"


def beside_proof(key: str, name: str) -> str:
    """The key of what another check (``name``: audit, reconciliation) found of the load that the proof with
    this key is of. Each proof has its own: after it the stream may have published the records again."""
    run, proof = key.rsplit("/", 1)
    return f"{run}/{name}{proof.removeprefix('proof')}"


def load_ids_prefix(run_id: str) -> str:
    """Return the prefix of the documents of all loads of a backfill's run."""
    return f"runs/{quote(f'{run_id}#', safe='')}"


def load_of(key: str) -> str | None:
    """The load id of a key under :func:`load_ids_prefix`; None for another key."""
    found = re.match(r"runs/([^/]+%23\d+)/", key)
    return unquote(found[1]) if found else None


def load_id_of(run_id: str, newest: str | None) -> str:
    """The load id after ``newest``, or the first: ids of a run sort as they follow each other."""
    number = int(newest.rsplit("#", 1)[1]) + 1 if newest else 1
    return f"{run_id}#{number:06d}"


def history_prefix(kind: str) -> str:
    return f"history/{kind}/"


def history_key(kind: str, at: datetime, suffix: str) -> str:
    """``suffix``: without a slash, distinguishes events of one time."""
    # S3 lists keys in ascending order only: a number that falls with time makes the newest the first.
    return f"{history_prefix(kind)}{countdown(at)}-{moment(at)}-{suffix}.json"


def countdown(at: datetime) -> str:
    """A number of 17 digits that falls with time: of keys that begin with it, the newest is the first."""
    micros = (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    return f"{_LATEST - micros:017d}"


def counted_down(text: str) -> datetime:
    """The time of a :func:`countdown`."""
    return _EPOCH + timedelta(microseconds=_LATEST - int(text))


def now() -> str:
    """The time in a document: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_MOMENT)


def moment_of(key: str) -> datetime | None:
    """Time of an event by its key; None for another key."""
    found = re.search(r"history/[^/]+/\d{17}-([^/-]+)-[^/]+\.json$", key)
    try:
        return datetime.strptime(found[1], _MOMENT).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def passed_kind(step: str) -> str:
    """Kind of the records of what a step of reconciliation saw that passed; ``step``: as ``table``."""
    return f"passed_{step}"


# Kinds of the records of checks, of which readers need the newest and those of the last days.
OF_CHECKS = (MAINTENANCE, VERIFIED_TABLE, OBSERVED, CHECKED, passed_kind("table"), passed_kind("files"))
