"""Whether a topic of others has the times that windows need: of arrival, by the brokers' clocks."""

from __future__ import annotations

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.topic import LOG_APPEND_TIME, TIMESTAMP_TYPE
from sluice.config.stream import StreamSpec
from spark_jobs.common.kafka.offsets import Topic


def check(spec: StreamSpec, topic: Topic) -> None:
    """Nothing of the topic is set. Raises ConfigError for queries with windows over a topic with the times of
    senders; what ``topic.config`` raises."""
    windowed = [name for name, query in spec.queries.items() if query.window]
    if spec.topic.managed or not windowed:
        return
    if (found := topic.config().get(TIMESTAMP_TYPE)) != LOG_APPEND_TIME:
        raise ConfigError(
            f"{spec.name}/stream.toml: queries {', '.join(windowed)} have windows, and {TIMESTAMP_TYPE} of "
            f"topic {spec.topic.name!r} is {found}: a sender whose clock is ahead would move the watermark. "
            f"Fix: ask its administrators for {LOG_APPEND_TIME}, or remove the windows"
        )
