"""The table of orders, row for row against what a plain consumer reads of the topic. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local.demo.checks import Check, DemoResult, Figure, gaps_and_duplicates
from local.demo.orders.plain_consumer import Place, Record
from local.demo.orders.shop import Kind

Row = Mapping[str, Any]
KAFKA = ("_kafka_partition", "_kafka_offset")
_PLAIN = "two plain consumers, with and without aborted records"


@dataclass(frozen=True)
class Lake:
    """What Sluice has of the topic.

    rows: of the table, with all columns.
    quarantined: pairs of a record's offset and the reason.
    control: offsets that the consumer's batches name as markers of transactions.
    aborted: those that they name as records of aborted transactions.
    absent: those that they name as missing from the log; the demo's topic has none.
    """

    rows: Sequence[Row]
    quarantined: Sequence[tuple[Place, str]]
    control: Collection[Place] = frozenset()
    aborted: Collection[Place] = frozenset()
    absent: Collection[Place] = frozenset()


@dataclass(frozen=True)
class Plain:
    """What Kafka and its own clients have of it.

    offsets: all of the topic, from its begin to its end.
    delivered: those with a record, also of an aborted transaction.
    committed: the records of the others, as a plain consumer reads them.
    versions: the number of versions of the schema in the registry.
    """

    offsets: Collection[Place]
    delivered: Collection[Place]
    committed: Mapping[Place, Record]
    versions: int

    @property
    def control(self) -> set[Place]:
        return set(self.offsets) - set(self.delivered)

    @property
    def aborted(self) -> set[Place]:
        return set(self.delivered) - self.committed.keys()

    @property
    def unreadable(self) -> set[Place]:
        return {place for place, record in self.committed.items() if record.error}


def place_of(row: Row) -> Place:
    return row[KAFKA[0]], row[KAFKA[1]]


def expected_row(record: Record, columns: Sequence[str]) -> dict[str, Any]:
    """The row that a readable record must become. `columns`: of the schema."""
    value = record.value or {}
    further = {name: field for name, field in value.items() if name not in columns}
    return {
        **{name: value.get(name) for name in columns},
        "key": record.key,
        "headers": [{"key": name, "value": text} for name, text in record.headers],
        "_unknown_fields": further or None,
    }


def same(row: Row, expected: Row) -> bool:
    """Whether a row of the table is that row."""
    further = row["_unknown_fields"]
    found = {**row, "_unknown_fields": None if further is None else json.loads(further)}
    return all(found[name] == value for name, value in expected.items())


def different_rows(lake: Lake, plain: Plain, columns: Sequence[str]) -> list[Place]:
    """Offsets whose row differs from the plain consumer's record; in one of both alone; or more than once."""
    readable = {place: record for place, record in plain.committed.items() if not record.error}
    found = {place_of(row): row for row in lake.rows}
    wrong = {
        place
        for place, record in readable.items()
        if place not in found or not same(found[place], expected_row(record, columns))
    }
    return sorted(wrong | (found.keys() - readable.keys()))


def astray(sent: Mapping[Place, Kind], lake: Lake) -> list[Place]:
    """Records of the shop that are not where their kind belongs."""
    rows = {place_of(row): row for row in lake.rows}
    quarantined = {place for place, _ in lake.quarantined}

    def is_right(place: Place, kind: Kind) -> bool:
        if kind is Kind.ABORTED:
            return place in lake.aborted
        if kind is Kind.ORDER:
            return place in rows and rows[place]["order_id"] is not None
        if kind is Kind.CANCELLED:
            return place in rows and rows[place]["order_id"] is None
        return place in quarantined

    return sorted(place for place, kind in sent.items() if not is_right(place, kind))


def reasons(lake: Lake) -> Counter[str]:
    """Reasons of quarantined records, the most frequent first."""
    return Counter(dict(Counter(reason for _, reason in lake.quarantined).most_common()))


def result(
    sent: Mapping[Place, Kind], lake: Lake, plain: Plain, columns: Sequence[str], changed: Sequence[str]
) -> DemoResult:
    """`sent`: by this run, the other figures are of all that ever came. `changed`: settings of the topic that
    differ from before."""
    rows = Counter(map(place_of, lake.rows))
    quarantined = {place for place, _ in lake.quarantined}
    named = set(lake.control) | set(lake.aborted) | set(lake.absent)
    gaps = set(plain.offsets) - rows.keys() - quarantined - named
    # A row is in one of both tables, and an offset without a record in none.
    duplicates = rows.total() - len(rows) + len(rows.keys() & quarantined)
    different, lost = different_rows(lake, plain, columns), astray(sent, lake)
    cancelled = sum(row["order_id"] is None for row in lake.rows)
    further = sum(row["_unknown_fields"] is not None for row in lake.rows)
    schemas = {record.schema_id for record in plain.committed.values() if record.schema_id is not None}
    return DemoResult(
        [
            Figure("sent", len(sent), "the shop: acknowledged by Kafka, in this run"),
            Figure("topic offsets", len(plain.offsets), "Kafka's begin and end offsets"),
            Figure("lake rows", rows.total(), "the table's branch main, by DuckDB"),
            Figure("tombstones", cancelled, "these rows: a key, and no value"),
            Figure("unknown fields", further, "these rows: fields that the table has no column for"),
            Figure("quarantined", len(quarantined), "the quarantine table, by DuckDB"),
            Figure("control", len(lake.control), "the batches' account: markers of transactions"),
            Figure("aborted", len(lake.aborted), "the batches' account: records of aborted transactions"),
            Figure("gaps", len(gaps), "topic offsets against all of the above"),
            Figure("duplicates", duplicates, "record offsets in the lake and in quarantine"),
            Figure("different", len(different), "rows against Confluent's deserializer"),
            Figure("schema versions", len(schemas), "schema ids in the records, by a plain consumer"),
            Figure("settings changed", len(changed), "the topic's configuration, partitions and rights"),
        ],
        [
            Check(bool(sent), "the shop sent nothing"),
            *gaps_and_duplicates(len(gaps), duplicates),
            *_equal("markers of transactions", set(lake.control), plain.control, _PLAIN),
            *_equal("records of aborted transactions", set(lake.aborted), plain.aborted, _PLAIN),
            *_equal("absent offsets", set(lake.absent), set(), "the log"),
            *_equal("quarantined records", quarantined, plain.unreadable, "Confluent's deserializer"),
            Check(
                not different,
                f"{len(different)} rows differ from what a plain consumer reads, first: {_shown(different)}",
            ),
            Check(not lost, f"{len(lost)} records of the shop are not where they belong: {_shown(lost)}"),
            Check(
                len(schemas) == plain.versions,
                f"the records name {len(schemas)} schemas, and the registry has {plain.versions} versions",
            ),
            Check(not changed, f"settings of the topic changed: {', '.join(changed)}"),
        ],
        {"reasons": dict(reasons(lake))},
    )


def _equal(what: str, found: set[Place], expected: set[Place], by: str) -> list[Check]:
    differ = sorted(found ^ expected)
    message = f"{len(found)} {what}, and {len(expected)} by {by}; in one of both: {_shown(differ)}"
    return [Check(not differ, message)]


def _shown(places: Iterable[Place]) -> str:
    return ", ".join(f"{partition}:{offset}" for partition, offset in list(places)[:5])
