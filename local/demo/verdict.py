"""What must be true at the end of the demo. Pure: figures in, complaints out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figures:
    """The end of a demo in numbers, as read from the systems.

    `of_source_*`: only of the demo's own object; the others count everything in the table.
    `duplicates`: coordinates and source rows that are there more than once.
    `s3_calls`: None with an S3 that does not count them.
    """

    state: str
    source_rows: int
    topic_records: int
    lake_rows: int
    quarantined: int
    of_source_rows: int
    of_source_quarantined: int
    gaps: int
    duplicates: int
    objects: int
    versions: int
    delete_markers: int
    s3_calls: int | None
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Exactly the keys of build/demo.json."""
        keys = (
            *("state", "source_rows", "topic_records", "lake_rows", "quarantined", "gaps", "duplicates"),
            *("objects", "versions", "delete_markers", "s3_calls", "seconds"),
        )
        return {key: getattr(self, key) for key in keys}


def complaints(figures: Figures) -> list[str]:
    """Everything that is not as it must be, each with its numbers; empty when the demo is green."""
    found: list[str] = []
    if figures.state != "success":
        found.append(f"the run ended as {figures.state!r} and must be 'success'")
    if figures.source_rows == 0:
        found.append("the source has no rows: nothing was shown")
    if figures.gaps:
        found.append(f"{figures.gaps} offsets of the topic are neither in the lake nor in quarantine")
    if figures.duplicates:
        found.append(f"{figures.duplicates} records are in the lake more than once")
    accounted = figures.of_source_rows + figures.of_source_quarantined
    if accounted != figures.source_rows:
        found.append(
            f"{figures.source_rows} rows in the source, but {figures.of_source_rows} in the lake "
            f"and {figures.of_source_quarantined} in quarantine"
        )
    if figures.delete_markers:
        found.append(f"{figures.delete_markers} delete markers under the lake, and nobody may delete there")
    return found
