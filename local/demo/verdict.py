"""What must be true at the end of a demo. Pure: figures in, complaints out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from local.demo.demo import Line


@dataclass(frozen=True)
class Figures:
    """The end of the taxi demo in numbers, as read from the systems.

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

    def lines(self) -> list[Line]:
        return [
            ("source rows", self.source_rows, "the source object"),
            ("topic records", self.topic_records, "Kafka's begin and end offsets"),
            ("lake rows", self.lake_rows, "the table's branch main, by PyIceberg"),
            ("quarantined", self.quarantined, "the quarantine table, by PyIceberg"),
            ("gaps", self.gaps, "topic offsets against coordinates in the lake"),
            ("duplicates", self.duplicates, "coordinates and source rows in the lake"),
            *_bucket(self),
        ]

    def complaints(self) -> list[str]:
        """Everything that is not as it must be, each with its numbers; empty when the demo is green."""
        return complaints(self)


@dataclass(frozen=True)
class FeedFigures:
    """The end of a feed's demo in numbers, as read from the systems.

    `replayed`: events of the demo's own burst; of those `missing` are not in the table. `topic_records`,
    `lake_rows`, `quarantined`, `event_ids` (distinct ones): of all that came onto the topic meanwhile, live
    events too. `duplicates`: coordinates and event ids that are there more than once. `uncounted`: records of
    the table that a query has not counted.
    `top`: the busiest editors of the newest window, most edits first, and `page`: where more of it is.
    """

    state: str
    replayed: int
    missing: int
    topic_records: int
    lake_rows: int
    quarantined: int
    event_ids: int
    gaps: int
    duplicates: int
    uncounted: int
    files: int
    objects: int
    versions: int
    delete_markers: int
    s3_calls: int | None
    page: str
    window: str = ""
    top: list[dict[str, object]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Exactly the keys of the demo's file."""
        return asdict(self)

    def lines(self) -> list[Line]:
        return [
            ("events replayed", self.replayed, "the replay server"),
            ("of them missing", self.missing, "their ids against those in the lake"),
            ("topic records meanwhile", self.topic_records, "Kafka's offsets, before and after"),
            ("lake rows of them", self.lake_rows, "the table's branch main, by PyIceberg"),
            ("quarantined of them", self.quarantined, "the quarantine table, by PyIceberg"),
            ("distinct event ids", self.event_ids, "the rows in the lake"),
            ("gaps", self.gaps, "topic offsets against coordinates in the lake"),
            ("duplicates", self.duplicates, "coordinates and event ids in the lake"),
            ("records not counted", self.uncounted, "the queries' table against the lake's"),
            ("data files", self.files, "the table's newest snapshot"),
            *_bucket(self),
        ]

    def complaints(self) -> list[str]:
        """Everything that is not as it must be, each with its numbers; empty when the demo is green."""
        found: list[str] = []
        if self.replayed == 0:
            found.append("no events were replayed: nothing was shown")
        if self.missing:
            found.append(f"{self.missing} of {self.replayed} replayed events are not in the lake")
        accounted = self.lake_rows + self.quarantined
        if accounted != self.topic_records and not self.gaps:
            found.append(
                f"{self.topic_records} records came onto the topic, but {self.lake_rows} are in the lake "
                f"and {self.quarantined} in quarantine"
            )
        if self.uncounted:
            found.append(f"the queries have not counted {self.uncounted} records")
        if not self.top:
            found.append("no window has an editor")
        return [*found, *_always(self)]


@dataclass(frozen=True)
class Counts:
    """One query: how many results, and what the hits in them come to in the lake and in each of its sinks.
    `late` hits are in none of them; `different` results are not the same in a sink as in the lake."""

    query: str
    results: int
    lake: int
    late: int
    sinks: dict[str, int]
    different: int


@dataclass(frozen=True)
class HitsFigures:
    """The end of the ISP stream's demo in numbers, as read from the systems.

    `sent`: by this load; the others count everything that ever came. `page`: where the queries are drawn.
    """

    state: str
    sent: int
    topic_records: int
    lake_rows: int
    quarantined: int
    gaps: int
    duplicates: int
    counts: list[Counts]
    objects: int
    versions: int
    delete_markers: int
    s3_calls: int | None
    page: str
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Exactly the keys of the demo's file."""
        return asdict(self)

    def lines(self) -> list[Line]:
        return [
            ("hits sent by this load", self.sent, "the load's form"),
            ("topic records", self.topic_records, "Kafka's begin and end offsets"),
            ("lake rows", self.lake_rows, "the table's branch main, by PyIceberg"),
            ("quarantined", self.quarantined, "the quarantine table, by PyIceberg"),
            ("gaps", self.gaps, "topic offsets against coordinates in the lake"),
            ("duplicates", self.duplicates, "coordinates in the lake"),
            *_bucket(self),
        ]

    def complaints(self) -> list[str]:
        """Everything that is not as it must be, each with its numbers; empty when the demo is green."""
        found: list[str] = []
        if self.topic_records < self.sent:
            found.append(f"{self.sent} hits were sent, and the topic has {self.topic_records}")
        if self.lake_rows + self.quarantined != self.topic_records:
            found.append(
                f"{self.topic_records} records came onto the topic, but {self.lake_rows} are in the lake "
                f"and {self.quarantined} in quarantine"
            )
        if not self.counts:
            found.append("no query has results: nothing was shown")
        for counts in self.counts:
            if not counts.results:
                found.append(f"query {counts.query} has no results")
            if counts.different:
                found.append(f"{counts.different} results of query {counts.query} are not as in the lake")
        return [*found, *_always(self)]


def _bucket(figures: Figures | FeedFigures | HitsFigures) -> list[Line]:
    return [
        ("objects", figures.objects, "the bucket, under the lake's prefix"),
        ("versions", figures.versions, "the bucket, under the lake's prefix"),
        ("delete markers", figures.delete_markers, "the bucket, under the lake's prefix"),
        ("S3 calls of this load, by all", figures.s3_calls, "MinIO's own metrics"),
    ]


def complaints(figures: Figures) -> list[str]:
    """Everything that is not as it must be at the end of the taxi demo."""
    found: list[str] = []
    if figures.source_rows == 0:
        found.append("the source has no rows: nothing was shown")
    accounted = figures.of_source_rows + figures.of_source_quarantined
    if accounted != figures.source_rows:
        found.append(
            f"{figures.source_rows} rows in the source, but {figures.of_source_rows} in the lake "
            f"and {figures.of_source_quarantined} in quarantine"
        )
    return [*found, *_always(figures)]


def _always(figures: Figures | FeedFigures | HitsFigures) -> list[str]:
    found: list[str] = []
    if figures.state != "success":
        found.append(f"the run ended as {figures.state!r} and must be 'success'")
    if figures.gaps:
        found.append(f"{figures.gaps} offsets of the topic are neither in the lake nor in quarantine")
    if figures.duplicates:
        found.append(f"{figures.duplicates} records are in the lake more than once")
    if figures.delete_markers:
        found.append(f"{figures.delete_markers} delete markers under the lake, and nobody may delete there")
    return found
