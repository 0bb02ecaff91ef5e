"""A load's plan: pinned once, by the first attempt; settled once, by any."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluice.clients.s3.objects import ObjectVersion
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import generator
from sluice.config.sections.generator import Generator
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused
from sluice.core.json_record import Document
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import produced
from sluice.loads.sources import read, read_all
from sluice.loads.sources.csv_object import select_objects
from sluice.loads.sources.generator import GeneratorSource
from tests.support import steps
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.clients.s3.objects import Bucket


class Source:
    def __init__(self, *versions: str) -> None:
        self.objects = [ObjectVersion("source", f"{v}.csv", v, "e", 9) for v in versions]
        self.headless: set[str] = set()

    def resolve(self, prefix: str, keys: Any) -> list[ObjectVersion]:
        return self.objects

    def check_head(self, source: ObjectVersion) -> None:
        if source.key in self.headless:
            raise Refused(f"s3://source/{source.key}: no header line")


class Kafka:
    def __init__(self, **ends: int) -> None:
        self.now = {int(partition[1:]): end for partition, end in ends.items()}

    def ends(self, topic: str) -> dict[int, int]:
        return dict(self.now)


@pytest.fixture
def memory() -> MemoryS3:
    return MemoryS3()


@pytest.fixture
def ledger(memory: MemoryS3) -> Ledger:
    return steps.ledger("s", memory)


FORM = {"source_prefix": "s/", "objects": []}
LIMITS: dict[str, Any] = {"max_quarantined_percent": 5, "publish_timeout_minutes": 30}


def pin(
    ledger: Ledger, source: Source, kafka: Kafka, run: str = "r1", topic: str = "t", **params: Any
) -> Document:
    planner = LoadPlanner(ledger, cast("KafkaAdmin", kafka), topic, FORM)
    return planner.pin(run, params, partial(select_objects, ledger, cast("Bucket", source)))


def test_a_retry_means_the_same_versions_and_offsets(ledger: Ledger, memory: MemoryS3) -> None:
    first = pin(ledger, Source("v1"), Kafka(p0=5, p1=0))
    assert first["sources"][0]["start_offsets"] == {"0": 5, "1": 0}
    assert first["sources"][0]["partition_count"] == 2
    written = dict(memory.objects)
    assert pin(ledger, Source("v2"), Kafka(p0=99, p1=99, p2=0)) == first
    assert memory.objects == written


def test_a_second_run_over_the_same_version_begins_where_the_first_did(ledger: Ledger) -> None:
    pin(ledger, Source("v1"), Kafka(p0=5))
    second = pin(ledger, Source("v1", "v2"), Kafka(p0=9), run="r2")
    assert [source["start_offsets"] for source in second["sources"]] == [{"0": 5}, {"0": 9}]


@pytest.mark.parametrize(
    ("first", "second", "data"),
    [
        ({"objects": ["a.csv"]}, {"objects": ["b.csv"]}, ("objects", "['a.csv']", "['b.csv']")),
        ({"objects": ["a.csv"]}, {"objects": ["a.csv", "b.csv"]}, ("['a.csv']", "['a.csv', 'b.csv']")),
        ({"source_prefix": "x/"}, {}, ("source_prefix", "'x/'", "'s/'")),
        ({}, {"objects": ["a.csv"]}, ("objects", "[]", "['a.csv']")),
    ],
)
def test_a_run_id_that_is_used_again_with_other_params_loads_nothing_and_says_so(
    ledger: Ledger, memory: MemoryS3, first: Any, second: Any, data: tuple[str, ...]
) -> None:
    """A deleted run is triggered again under its name: its plan is for other rows."""
    pin(ledger, Source("a"), Kafka(p0=5), **first)
    written = dict(memory.objects)
    with raising(Refused, "'r1'", "runs/r1/plan.json", "another run id", *data) as failure:
        pin(ledger, Source("b"), Kafka(p0=9), **second)
    assert failure.value.code is ErrorCode.RUN_ID_REUSED
    assert memory.objects == written
    assert pin(ledger, Source("b"), Kafka(p0=9), "r2", **second)["sources"][0]["key"] == "b.csv"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"objects": ["a.csv", "b.csv"]}, {"objects": ["b.csv", "a.csv", "a.csv"]}),
        ({"objects": None}, {"objects": []}),
        ({}, {"source_prefix": "s/", "objects": None}),
        ({"objects": ["a.csv"]}, {"objects": ["a.csv"], "source_prefix": "unused/"}),
        (LIMITS, {**LIMITS, "max_quarantined_percent": 50, "publish_timeout_minutes": 1}),
    ],
)
def test_params_that_choose_the_same_rows_are_the_same(ledger: Ledger, first: Any, second: Any) -> None:
    """Limits choose no rows: each attempt applies its own."""
    plan = pin(ledger, Source("a"), Kafka(p0=5), **first)
    assert pin(ledger, Source("b"), Kafka(p0=9), **second) == plan


def recorded(ledger: Ledger, **params: Any) -> Document:
    """A plan of a form that had fewer params."""
    plan = {"run_id": "r1", "stream": "s", "topic": "t", "sources": [], "at": "2026-11-21T12:00:00+00:00"}
    return ledger.put(run_key("r1", "plan"), {**plan, **params})


def test_a_param_that_the_form_got_later_counts_as_its_default(ledger: Ledger) -> None:
    plan = recorded(ledger, params={"rows": 10})
    assert generate(ledger, Kafka(p0=9), users=5) == plan
    with raising(Refused, "users", "5", "6"):
        generate(ledger, Kafka(p0=9), users=6)


def test_of_two_first_attempts_with_other_params_the_second_is_refused(ledger: Ledger) -> None:
    class Overtaken(Source):
        def resolve(self, prefix: str, keys: Any) -> list[ObjectVersion]:
            pin(ledger, Source("a"), Kafka(p0=5), objects=["a.csv"])
            return super().resolve(prefix, keys)

    with raising(Refused, "['a.csv']", "['b.csv']"):
        pin(ledger, Overtaken("b"), Kafka(p0=5), objects=["b.csv"])


def test_what_was_sent_is_not_pending_and_the_first_settlement_counts(ledger: Ledger) -> None:
    plan = pin(ledger, Source("v1", "v2"), Kafka(p0=5))
    one, two = plan["sources"]
    assert list(produced.pending(ledger, plan)) == read_all([one, two])
    produced.complete_source(ledger, read(one), {0: 8}, "r1")
    assert produced.complete_source(ledger, read(one), {0: 50}, "r2")["ranges"] == {"0": [5, 8]}
    assert list(produced.pending(ledger, plan)) == [read(two)]
    with raising(Missing, "r1", "produce task"):
        produced.of_run(ledger, "r1")
    produced.complete(ledger, plan, {0: 20, 1: 4})
    assert str(produced.offsets_of_all(produced.of_run(ledger, "r1"))) == "0=[5,20)"
    assert produced.end_offsets(produced.complete(ledger, plan, {0: 99})) == {0: 20, 1: 4}
    assert pin(ledger, Source("v1"), Kafka(p0=50), run="r2")["sources"][0]["produced"]


def test_a_recreated_topic_is_named(ledger: Ledger) -> None:
    (source,) = read_all(pin(ledger, Source("v1"), Kafka(p0=5))["sources"])
    with raising(Refused, "'t'", "partition 0", "at 3", "offset 5", "v1.csv"):
        produced.complete_source(ledger, source, {0: 3}, "r1")


def test_another_topic_is_named(ledger: Ledger) -> None:
    pin(ledger, Source("v1"), Kafka(p0=5))
    with raising(Refused, "v1.csv", "'t'", "'u'"):
        pin(ledger, Source("v1"), Kafka(p0=5), run="r2", topic="u")


def test_an_object_without_a_header_pins_nothing(ledger: Ledger, memory: MemoryS3) -> None:
    source = Source("v1", "v2")
    source.headless = {"v2.csv"}
    with raising(Refused, "s3://source/v2.csv"):
        pin(ledger, source, Kafka(p0=5))
    assert memory.objects == {}


GENERATOR = Generator("generator:rows", params={"users": {"type": "integer", "default": 5}})
NOON = datetime(2026, 11, 21, 12, 34, tzinfo=UTC)


def generate(ledger: Ledger, kafka: Kafka, run: str = "r1", moment: datetime = NOON, **params: Any) -> Any:
    params = {"rows": 10, **params}
    defaults = {name: schema["default"] for name, schema in GENERATOR.schemas.items()}
    planner = LoadPlanner(ledger, cast("KafkaAdmin", kafka), "t", defaults)

    def select(params: Document) -> list[Document]:
        return [GeneratorSource.from_params(GENERATOR, run, params, moment).document]

    return planner.pin(run, params, select)


def test_what_a_form_leaves_empty_is_pinned(ledger: Ledger) -> None:
    first = generate(
        ledger, Kafka(p0=5, p1=0), start_time=None, seed=None, users=3, publish_timeout_minutes=30
    )
    (source,) = first["sources"]
    assert source["parameters"]["start_time"] == "2026-11-21T11:00:00Z"
    assert source["parameters"]["users"] == 3
    assert (source["start_offsets"], source["partition_count"], source["kind"]) == (
        {"0": 5, "1": 0},
        2,
        "generated",
    )
    assert source["source_id"] == generator.parse(GENERATOR, source["parameters"], "x").source_id
    later = generate(ledger, Kafka(p0=99), moment=NOON + timedelta(days=1), users=3)
    assert later == first
    with raising(Refused, "'r1'", "start_time", "2026-11-21T12:00:00Z", "None"):
        generate(ledger, Kafka(p0=99), users=3, start_time="2026-11-21T12:00:00Z")
    other = generate(ledger, Kafka(p0=5), run="r2", users=3)["sources"][0]
    assert other["parameters"]["seed"] != source["parameters"]["seed"]


def test_generated_events_end_with_the_last_full_hour_so_that_none_is_dated_ahead(ledger: Ledger) -> None:
    (source,) = generate(ledger, Kafka(p0=5), duration_hours=30)["sources"]
    assert generator.parse(GENERATOR, source["parameters"], "x").ends == NOON.replace(minute=0)
    (other,) = generate(ledger, Kafka(p0=5), run="r2", start_time="2026-11-21T12:00:00Z")["sources"]
    assert other["parameters"]["start_time"] == "2026-11-21T12:00:00Z"


def test_the_same_values_are_the_same_source_and_are_sent_once(ledger: Ledger) -> None:
    plan = generate(ledger, Kafka(p0=5), seed=7)
    (source,) = produced.pending(ledger, plan)
    produced.complete_source(ledger, source, {0: 15}, "r1")
    again = generate(ledger, Kafka(p0=15), run="r2", seed=7)
    assert again["sources"] == [{**source.document, "produced": True}]
    assert list(produced.pending(ledger, again)) == []
    assert str(produced.offsets_of_all(produced.complete(ledger, again, {0: 15}))) == "0=[5,15)"


def test_a_recreated_topic_is_named_of_a_generator_too(ledger: Ledger) -> None:
    (source,) = read_all(generate(ledger, Kafka(p0=5), seed=7)["sources"])
    with raising(Refused, "seed 7", "at 3", "offset 5", "another seed"):
        produced.complete_source(ledger, source, {0: 3}, "r1")


@pytest.mark.parametrize(
    ("params", "data"),
    [
        ({"rows": 0}, ("'r1'", "rows is 0")),
        ({"duration_hours": "x"}, ("'r1'", "duration_hours is 'x'")),
        ({"start_time": "2999-01-01T00:00:00Z"}, ("'r1'", "1 hours", "2999-01-01T00:00:00Z")),
    ],
)
def test_wrong_values_pin_nothing(
    ledger: Ledger, memory: MemoryS3, params: dict[str, Any], data: tuple[str, ...]
) -> None:
    with raising(ConfigError, *data):
        generate(ledger, Kafka(p0=5), **params)
    assert memory.objects == {}


def test_without_a_plan_the_produce_task_is_named(ledger: Ledger) -> None:
    with raising(Missing, "r9", "produce task"):
        produced.of_run(ledger, "r9")
