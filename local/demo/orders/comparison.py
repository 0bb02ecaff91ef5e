"""What was sent, what a plain consumer reads of the topic, and what the table has, side by side. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from local.demo.checks import Check, DemoResult, Figure, gaps_and_duplicates
from local.demo.orders.plain_consumer import Place, Record
from local.demo.orders.shop import UNREADABLE_KINDS, VERSIONS, Kind, Step
from sluice.core.tables.without_record import NAMES, WithoutRecord

# Columns of the key, of the headers, of fields that the table does not have, and of a record's place.
KEY, HEADERS, UNKNOWN = "key", "headers", "_unknown_fields"
PLACE = ("_kafka_partition", "_kafka_offset")
ADDED = (KEY, HEADERS, UNKNOWN, *PLACE)
# What the quarantine says of each kind that cannot be read.
REASONS: Mapping[Kind, str] = {
    Kind.NOT_FRAMED: "not Confluent's wire format",
    Kind.UNKNOWN_SCHEMA: "is unknown to the schema registry",
    Kind.TRUNCATED: "not an Avro body",
}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Topic:
    """The topic as plain clients have it. `ends`: partition → begin and end offset; `committed`: what a
    consumer of committed records reads; `delivered`: where one of all records finds any."""

    ends: dict[int, tuple[int, int]]
    committed: Mapping[Place, Record]
    delivered: Set[Place]

    @property
    def places(self) -> set[Place]:
        return {(part, offset) for part, ends in self.ends.items() for offset in range(*ends)}

    @property
    def unreadable(self) -> set[Place]:
        return {place for place, record in self.committed.items() if record.error}

    def without_record(self) -> dict[str, set[Place]]:
        """Offsets that have no record for a consumer of committed ones, by their reason."""
        return {
            **{name: set[Place]() for name in NAMES},
            "control": self.places - self.delivered,
            "aborted": set(self.delivered) - self.committed.keys(),
        }


@dataclass(frozen=True)
class Table:
    """What the stream made of it. `rows`: of the table, with ADDED; `quarantined`: reasons; `without`: the
    batches' account of offsets without a record."""

    rows: Sequence[Row]
    quarantined: Mapping[Place, str]
    without: WithoutRecord

    def by_place(self) -> dict[Place, list[Row]]:
        found: dict[Place, list[Row]] = defaultdict(list)
        for row in self.rows:
            found[row[PLACE[0]], row[PLACE[1]]].append(row)
        return dict(found)

    def accounted(self, name: str) -> set[Place]:
        """The offsets without a record for one of the reasons."""
        ranges = getattr(self.without, name).partitions
        return {(part, offset) for part, pairs in ranges.items() for pair in pairs for offset in range(*pair)}

    def rejected(self, kind: Kind) -> set[Place]:
        return {place for place, reason in self.quarantined.items() if REASONS[kind] in reason}


@dataclass(frozen=True)
class Settings:
    """All that can be set of the topic, before the load and after it."""

    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)

    def changed(self) -> list[str]:
        names = sorted(self.before.keys() | self.after.keys())
        return [name for name in names if self.before.get(name) != self.after.get(name)]


def expected_row(record: Record, columns: Sequence[str]) -> dict[str, Any]:
    """The row that a record is, from what Confluent's deserializer read; without its place."""
    value = record.value or {}
    return {
        **{name: value.get(name) for name in columns},
        KEY: record.key,
        HEADERS: record.headers or None,
        UNKNOWN: {name: value[name] for name in value if name not in columns} or None,
    }


def found_row(row: Row) -> dict[str, Any]:
    """A row of the table in the same form."""
    headers, unknown = row[HEADERS], row[UNKNOWN]
    return {
        **{name: value for name, value in row.items() if name not in ADDED},
        KEY: row[KEY],
        HEADERS: None if headers is None else [(one["key"], one["value"]) for one in headers],
        UNKNOWN: None if unknown is None else json.loads(unknown),
    }


def differences(topic: Topic, table: Table, columns: Sequence[str]) -> list[str]:
    """Each record that is not one equal row, and each row without such a record; rows that are there twice
    are counted elsewhere."""
    rows, found = table.by_place(), []
    readable = topic.committed.keys() - topic.unreadable
    for part, offset in sorted(readable):
        expected = expected_row(topic.committed[part, offset], columns)
        actual = [found_row(row) for row in rows.get((part, offset), ())]
        if not actual or any(one != expected for one in actual):
            found.append(f"{part}:{offset} is {expected}, and in the table {actual or 'missing'}")
    found += [f"{part}:{offset} has a row, and no record" for part, offset in sorted(rows.keys() - readable)]
    return found


def result(
    steps: Sequence[Step],
    sent: Mapping[Place, Kind],
    topic: Topic,
    table: Table,
    columns: Sequence[str],
    versions: int,
    settings: Settings,
) -> DemoResult:
    """`steps`, `sent`: of this demo; all else also of earlier ones. `columns`: of the table's schema;
    `versions`: of it in the registry."""
    rows = table.by_place()
    accounted = {name: table.accounted(name) for name in NAMES}
    gaps = topic.places - rows.keys() - table.quarantined.keys() - set[Place]().union(*accounted.values())
    duplicates = len(table.rows) - len(rows) + len(rows.keys() & table.quarantined.keys())
    different, changed = differences(topic, table, columns), settings.changed()
    tombstones = sum(all(row[name] is None for name in columns) for row in table.rows)
    unknown = sum(row[UNKNOWN] is not None for row in table.rows)
    return DemoResult(
        [
            Figure("sent", len(sent), "Kafka's acknowledgements to the shop"),
            Figure("topic offsets", len(topic.places), "Kafka's begin and end offsets"),
            Figure("lake rows", len(table.rows), "the table's branch main, by DuckDB"),
            Figure("tombstones", tombstones, "these rows: with a key alone"),
            Figure("unknown fields", unknown, f"these rows: with a text in {UNKNOWN}"),
            Figure("different rows", len(different), "each row against a record of Confluent's consumer"),
            Figure("quarantined", len(table.quarantined), "the quarantine table, by DuckDB"),
            *(Figure(kind, len(table.rejected(kind)), "their reasons") for kind in UNREADABLE_KINDS),
            Figure("control", len(accounted["control"]), "the batches' accounts: markers of transactions"),
            Figure("aborted", len(accounted["aborted"]), "the batches' accounts: of aborted transactions"),
            Figure("gaps", len(gaps), "topic offsets against rows, quarantine and accounts"),
            Figure("duplicates", duplicates, "record offsets in table and quarantine"),
            Figure("schema versions", versions, "the registry"),
            Figure("changed settings", len(changed), "the topic's configuration, partitions and rights"),
        ],
        [
            *_sent(steps, sent, topic, table),
            *gaps_and_duplicates(len(gaps), duplicates),
            Check(
                not different,
                f"{len(different)} rows differ from a plain consumer's records: {''.join(different[:1])}",
            ),
            *(
                Check(
                    accounted[name] == places,
                    f"{len(accounted[name])} offsets are accounted for as {name}, and plain consumers find "
                    f"{len(places)}",
                )
                for name, places in topic.without_record().items()
            ),
            Check(
                table.quarantined.keys() == topic.unreadable,
                f"a plain consumer cannot read {len(topic.unreadable)} records, and "
                f"{len(table.quarantined)} are in quarantine",
            ),
            Check(unknown > 0, f"no row has a text in {UNKNOWN}"),
            Check(
                versions == len(VERSIONS), f"the registry has {versions} versions, and not {len(VERSIONS)}"
            ),
            Check(not changed, f"of the topic {', '.join(changed)} changed"),
        ],
    )


def _sent(steps: Sequence[Step], sent: Mapping[Place, Kind], topic: Topic, table: Table) -> list[Check]:
    """Whether all is sent, and each record is where one of its kind belongs."""
    planned: Counter[Kind] = Counter()
    for step in steps:
        planned[step.kind] += step.count
    acknowledged = Counter(sent.values())
    readable = topic.committed.keys() - topic.unreadable
    orders = {place for place in readable if topic.committed[place].value is not None}
    belong: dict[Kind, Set[Place]] = {
        Kind.ORDER: orders,
        Kind.CANCELLED: readable - orders,
        Kind.ABORTED: table.accounted("aborted"),
        **{kind: table.rejected(kind) for kind in UNREADABLE_KINDS},
    }
    checks = [
        Check(
            acknowledged[kind] == count,
            f"{count} records of kind {kind} were to be sent, and {acknowledged[kind]} were",
        )
        for kind, count in planned.items()
    ]
    for kind, places in belong.items():
        lost = {place for place, one in sent.items() if one is kind} - places
        checks.append(
            Check(not lost, f"{len(lost)} records sent as {kind} are not found as such: {sorted(lost)[:3]}")
        )
    return checks
