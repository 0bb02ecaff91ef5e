"""A stream's declaration: ``spark_jobs/<name>/stream.toml``, typed and validated."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sluice.model.config import ConfigError, build

# plugins/sluice/model/stream.py -> the repository, and in an image the same layout.
STREAMS = Path(__file__).resolve().parents[3] / "spark_jobs"


@dataclass(frozen=True)
class Topic:
    """A topic as it must be: ``config`` holds only what is declared, the broker's defaults stay alone."""

    name: str
    partitions: int
    replication_factor: int = 1
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Consumer:
    """How the stream reads: seconds between micro-batches, and records in one at most."""

    trigger_seconds: int = 5
    max_offsets_per_trigger: int = 3_000_000


@dataclass(frozen=True)
class Budget:
    """What one micro-batch may cost in the bucket.

    A load's audit enforces versions and delete markers; calls are counted by the S3 server alone, so a test
    over MinIO's own metrics enforces those.
    """

    s3_calls_per_batch: int
    versions_per_batch: int
    delete_markers: int = 0


@dataclass(frozen=True)
class Supervision:
    """When a stream counts as well, and what is done where it is not; all in seconds but ``most_restarts``.

    It is looked at every ``interval_seconds``. It is stalled when nothing of a backlog was published for
    ``stall_seconds`` (and for three times its longest batch), or when a started process did not take over
    within ``start_seconds``; falling behind when the backlog grew for ``behind_seconds``; at risk when
    retention deletes unread records within ``risk_seconds``. After ``most_restarts`` within
    ``restart_window_seconds`` a person is asked. A stop has ``stop_seconds`` for the batch in flight.
    """

    interval_seconds: int = 120
    stall_seconds: int = 60
    start_seconds: int = 90
    behind_seconds: int = 300
    risk_seconds: int = 21_600
    most_restarts: int = 3
    restart_window_seconds: int = 1_800
    stop_seconds: int = 20


@dataclass(frozen=True)
class StreamSpec:
    """One stream: a topic, its schema, its producer and consumer, and its tables."""

    name: str
    schema: str
    table: str
    topic: Topic
    consumer: Consumer
    budget: Budget
    supervision: Supervision = field(default_factory=Supervision)

    @property
    def folder(self) -> Path:
        return STREAMS / self.name

    @property
    def schema_file(self) -> Path:
        return self.folder / self.schema

    @property
    def producer_script(self) -> Path:
        return self.folder / "producer.py"

    @property
    def consumer_script(self) -> Path:
        return self.folder / "consumer.py"

    @property
    def quarantine_table(self) -> str:
        return f"{self.table}_quarantine"

    @property
    def program(self) -> str:
        """The name under which the runtime knows the consumer."""
        return f"stream-{self.name}"


def parse(text: str, where: str) -> StreamSpec:
    """Parse a stream.toml. Raises ConfigError naming ``where``, the key, the value and the mend."""
    try:
        spec = build(StreamSpec, tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from error
    if not re.fullmatch(r"[a-z][a-z0-9_]*", spec.name):
        raise ConfigError(f"{where}: name {spec.name!r}: use lower-case letters, digits and _")
    if not re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", spec.table):
        raise ConfigError(f"{where}: table {spec.table!r}: write it as namespace.table, in lower case")
    for name, value in (
        ("topic partitions", spec.topic.partitions),
        ("topic replication_factor", spec.topic.replication_factor),
        ("consumer trigger_seconds", spec.consumer.trigger_seconds),
        ("consumer max_offsets_per_trigger", spec.consumer.max_offsets_per_trigger),
        *((f"supervision {name}", value) for name, value in asdict(spec.supervision).items()),
    ):
        if value < 1:
            raise ConfigError(f"{where}: {name} is {value}; it must be at least 1")
    return spec


def names() -> list[str]:
    """The streams there are: the folders of spark_jobs/ with a stream.toml, sorted."""
    return sorted(path.parent.name for path in STREAMS.glob("*/stream.toml"))


def load(name: str) -> StreamSpec:
    """Read the declaration of stream ``name``. Raises ConfigError when there is none or it is wrong."""
    path = STREAMS / name / "stream.toml"
    if not path.is_file():
        raise ConfigError(f"stream {name!r} is unknown; streams are {', '.join(names()) or '(none)'}")
    spec = parse(path.read_text(), str(path.relative_to(STREAMS.parent)))
    if spec.name != name:
        raise ConfigError(f"{path}: name is {spec.name!r}; it must be the folder's, {name!r}")
    return spec
