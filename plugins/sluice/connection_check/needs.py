"""What the streams' declarations need of the systems: topics, groups, prefixes, databases. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.config.sections.sink import SinkKind
from sluice.connection_check.rights.kafka import Rule, kafka_rules

if TYPE_CHECKING:
    from sluice.config.sections.sink import Sink
    from sluice.config.stream import StreamSpec


def topics(specs: Iterable[StreamSpec]) -> tuple[list[str], dict[str, str]]:
    """The streams' own topics, and those of others -> the group at whose position a stream begins, or ""."""
    found = list(specs)
    own = [spec.topic.name for spec in found if spec.topic.managed]
    others = [spec.topic for spec in found if not spec.topic.managed]
    groups = {topic.name: topic.start_group for topic in others if topic.start_group}
    return own, dict.fromkeys((topic.name for topic in others), "") | groups


def _sinks(specs: Iterable[StreamSpec]) -> list[Sink]:
    return [sink for spec in specs for query in spec.queries.values() for sink in query.sinks]


def results(specs: Iterable[StreamSpec]) -> list[str]:
    """The topics to which queries send their results."""
    return [sink.topic for sink in _sinks(specs) if sink.topic]


@dataclass(frozen=True)
class Needs:
    """What all streams declare, as far as a check of connections asks for it."""

    rules: Sequence[Rule]
    """All roles' rights on Kafka."""
    prefixes: Sequence[str] = ()
    """Those of sinks `files`, in the lake's bucket, without a slash at their end."""
    tables: Mapping[str, Sequence[str]] | None = None
    """Airflow connection of a database -> the tables that queries have there; None: not asked."""
    registers: bool = False
    """Whether loads register schemas."""
    adds_columns: bool = False
    """Whether a table follows files, so that their schemas are kept in the ledger."""


def needs(specs: Iterable[StreamSpec]) -> Needs:
    """What these valid streams need."""
    found = list(specs)
    own, others = topics(found)
    sinks, tables = _sinks(found), defaultdict[str, list[str]](list)
    for sink in sinks:
        if sink.kind == SinkKind.JDBC:
            tables[sink.connection].append(sink.table)
    prefixes = [sink.prefix.strip("/") for sink in sinks if sink.kind == SinkKind.FILES]
    return Needs(
        kafka_rules(own, results(found), others),
        list(dict.fromkeys(prefixes)),
        {name: list(dict.fromkeys(there)) for name, there in tables.items()},
        registers=any(spec.topic.registry for spec in found),
        adds_columns=any(spec.csv is not None and spec.csv.adds_columns for spec in found),
    )
