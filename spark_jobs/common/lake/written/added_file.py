"""A data file as its manifest describes it: what verification and deduplication need, without reading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.core.offsets.deduplication import Run
from sluice.core.offsets.verify import FileStats

BOUNDED = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_base_offset")


@dataclass(frozen=True)
class AddedFile:
    """A data file with its ``stats`` and the inclusive bounds (None: no bound) of its column `_source_id`,
    ``source_lower`` and ``source_upper``, and of `_source_base_offset`, ``base_offset_lower`` and
    ``base_offset_upper``. ``external``: number of records without a source."""

    stats: FileStats
    source_lower: str | None
    source_upper: str | None
    base_offset_lower: int | None
    base_offset_upper: int | None
    external: int

    def run(self) -> Run | None:
        """Return the file's run if the bounds show that it is the only one: one source and base offset."""
        stats = self.stats
        if (
            self.external
            or self.source_lower is None
            or self.source_lower != self.source_upper
            or self.base_offset_lower is None
            or self.base_offset_lower != self.base_offset_upper
            or stats.partition_lower is None
            or stats.offset_lower is None
            or not stats.is_conclusive
        ):
            return None
        start = stats.offset_lower - self.base_offset_lower
        return Run(self.source_lower, stats.partition_lower, start, start + stats.records, stats.records)

    @property
    def is_external(self) -> bool:
        """Whether no record has a source, so the file has no loaded rows."""
        return self.external == self.stats.records


def read(file: Any, columns: Mapping[str, Any], value_of: Callable[[Any, Any], Any]) -> AddedFile:
    """From Iceberg's ``DataFile``. ``columns``: its schema's fields by name, those of BOUNDED; ``value_of``:
    ``Conversions.fromByteBuffer``, of a type and a bound."""
    lower, upper = file.lowerBounds(), file.upperBounds()

    def bound(bounds: Any, name: str) -> Any:
        raw = None if bounds is None else bounds.get(columns[name].fieldId())
        return None if raw is None else value_of(columns[name].type(), raw)

    def text(bounds: Any) -> str | None:
        value = bound(bounds, "_source_id")
        return None if value is None else str(value if isinstance(value, str) else value.toString())

    nulls = file.nullValueCounts()

    def null_count(name: str) -> int:
        return int((nulls or {}).get(columns[name].fieldId()) or 0)

    # Rows that the producer rejected have no offset: the bounds say nothing of them.
    within = (None, None) if null_count("_kafka_offset") else (lower, upper)
    records = int(file.recordCount())
    return AddedFile(
        FileStats(
            str(file.location()),
            bound(lower, "_kafka_partition"),
            bound(upper, "_kafka_partition"),
            bound(within[0], "_kafka_offset"),
            bound(within[1], "_kafka_offset"),
            records,
        ),
        text(lower),
        text(upper),
        bound(lower, "_source_base_offset"),
        bound(upper, "_source_base_offset"),
        null_count("_source_id"),
    )
