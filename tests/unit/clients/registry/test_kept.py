"""Schemas that are kept: in a process, and where the next one finds them."""

from __future__ import annotations

import json
import logging
import multiprocessing
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.clients.registry import budget, kept, schemas
from sluice.clients.registry.budget import MAX_UNKNOWN
from sluice.clients.registry.client import RegistryClient
from sluice.clients.registry.kept import (
    CONFIRMED_SECONDS,
    FAILED_SECONDS,
    WARNING_SECONDS,
    KeptSchemas,
    RegistryChanged,
)
from sluice.clients.registry.objects import SchemaObjects
from sluice.clients.registry.schemas import RegistrySchemas
from sluice.config.platform_sections.registry import Registry
from sluice.config.platform_sections.s3 import S3
from sluice.core.errors import Refused
from sluice.core.registry.errors import (
    Forbidden,
    NotLookedUp,
    RefusedSchema,
    RegistryRefused,
    RegistryUnreachable,
    UnknownSchema,
)
from sluice.core.registry.schemas import AVRO, Bundle, Definition, Reference
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.registry_server import AVRO_TEXT, Answer, serving

LEDGER = "s3://warehouse/ledger"
TEXT = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "X"}]}'
OTHER = '{"type": "enum", "name": "X", "symbols": ["A"]}'
BUNDLE = Bundle(7, Definition(AVRO, TEXT, (Reference("X", "x", 1),)), {("x", 1): Definition(AVRO, OTHER)})


class Source:
    """A registry. ``error``: instead of any answer."""

    name = "tests"

    def __init__(self, *bundles: Bundle) -> None:
        self.bundles = {one.id: one for one in bundles}
        self.error: Exception | None = None
        self.asked: list[int] = []
        self.versions = frozenset[str]()

    def subjects(self, schema_id: int) -> frozenset[str]:
        self.asked.append(schema_id)
        if self.error:
            raise self.error
        return self.versions

    def bundle(self, schema_id: int) -> Bundle:
        self.asked.append(schema_id)
        if self.error:
            raise self.error
        if schema_id not in self.bundles:
            raise UnknownSchema(f"schema id {schema_id} is unknown")
        return self.bundles[schema_id]


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def s3() -> MemoryS3:
    return MemoryS3()


def store(s3: MemoryS3, name: str = "tests") -> SchemaObjects:
    return SchemaObjects(s3.as_client(), LEDGER, name)


def text(schema_id: int) -> Definition:
    return Definition(AVRO, json.dumps({"type": "record", "name": f"R{schema_id}", "fields": []}))


def test_a_schema_is_asked_for_once_whatever_process_wants_it(s3: MemoryS3) -> None:
    source = Source(BUNDLE)
    first = KeptSchemas(source, store(s3))
    found = first.get(7)
    assert first.get(7) is found
    assert json.loads(found.text)["fields"][0]["type"]["symbols"] == ["A"]
    source.error = RegistryUnreachable("gone")
    assert KeptSchemas(source, store(s3)).get(7) == found, "the kept one has its references"
    assert source.asked == [7, 7]
    assert s3.requests["PUT"] == 1


def test_an_id_may_become_a_version_of_another_subject(s3: MemoryS3) -> None:
    source, clock = Source(BUNDLE), Clock()
    found = KeptSchemas(source, store(s3), clock)
    own = frozenset({"orders-value", "orders-shop.Order"})
    assert found.subjects(7, own) == found.subjects(7, own) == frozenset()
    source.versions = frozenset({"orders-value"})
    clock.seconds += FAILED_SECONDS
    assert found.subjects(7, own) == {"orders-value"}
    assert source.asked == [7, 7], "not for each piece of records"
    # It may have become one since another stream was told.
    source.versions = frozenset({"orders-value", "payments-value"})
    assert found.subjects(7, frozenset({"payments-value"})) == {"payments-value"}
    source.error, clock.seconds = RegistryUnreachable("gone"), clock.seconds + FAILED_SECONDS
    with raising(RegistryUnreachable, "gone"):
        found.subjects(7, own)


@pytest.mark.parametrize("is_new_process", [True, False])
def test_an_id_that_the_registry_gave_to_another_schema_decodes_nothing(
    s3: MemoryS3, is_new_process: bool
) -> None:
    source, clock = Source(Bundle(7, text(1), {})), Clock()
    found = KeptSchemas(source, store(s3), clock)
    found.get(7)
    # It was put back to yesterday, and its next schema gets the id again.
    source.bundles[7] = Bundle(7, text(2), {})
    if is_new_process:
        found = KeptSchemas(source, store(s3), clock)
    else:
        clock.seconds += CONFIRMED_SECONDS - 0.1
        found.get(7)
        clock.seconds += 0.1
    with raising(RegistryChanged, "schema id 7", "'tests'", "earlier state", "Fix:"):
        found.get(7)


@pytest.mark.parametrize(
    "error",
    [
        UnknownSchema("deleted"),
        RefusedSchema("what it refers to is deleted"),
        Forbidden("no right"),
        RegistryRefused("a wrong login"),
        RegistryUnreachable("away"),
    ],
)
def test_a_kept_schema_is_used_whatever_became_of_it(s3: MemoryS3, error: Exception) -> None:
    source, clock = Source(BUNDLE), Clock()
    KeptSchemas(source, store(s3), clock).get(7)
    source.error = error
    found = KeptSchemas(source, store(s3), clock)
    for _ in range(3):
        assert found.get(7).id == 7
        clock.seconds += WARNING_SECONDS - 1
    # A registry that does not answer is asked again soon.
    assert len(source.asked) == (
        3
        if isinstance(error, RegistryRefused | RegistryUnreachable) and not isinstance(error, Forbidden)
        else 2
    )


def test_a_registry_that_is_away_is_not_asked_for_each_kept_schema(s3: MemoryS3) -> None:
    bundles = [Bundle(n, text(n), {}) for n in range(5)]
    source, clock = Source(*bundles), Clock()
    for one in bundles:
        KeptSchemas(source, store(s3), clock).get(one.id)
    source.asked.clear()
    source.error = RegistryUnreachable("away")
    found = KeptSchemas(source, store(s3), clock)
    assert [found.get(n).id for n in range(5)] == [*range(5)]
    assert source.asked == [0]


def test_no_two_registries_mix(s3: MemoryS3) -> None:
    mine, other = Bundle(7, text(1), {}), Bundle(7, text(2), {})
    assert KeptSchemas(Source(mine), store(s3, "mine")).get(7).text == mine.definition.text
    assert KeptSchemas(Source(other), store(s3, "other")).get(7).text == other.definition.text
    keys = sorted(key for _, key in s3.objects)
    assert len(keys) == 2
    assert all(key.startswith("ledger/_registries/") and key.endswith("/schemas/7.json") for key in keys)


def test_two_processes_write_the_same_bytes_and_another_schema_is_not_read(s3: MemoryS3) -> None:
    class Empty(SchemaObjects):
        """The view of a process that looked before the other one wrote."""

        def get(self, schema_id: int) -> None:
            return None

    late = Empty(s3.as_client(), LEDGER, "tests")
    KeptSchemas(Source(BUNDLE), store(s3)).get(7)
    before = dict(s3.objects)
    KeptSchemas(Source(BUNDLE), late).get(7)
    with raising(RegistryChanged, "schema id 7", "'tests'", "Fix:"):
        KeptSchemas(Source(Bundle(7, text(1), {})), late).get(7)
    assert s3.objects == before


def test_an_unknown_id_is_asked_for_again_soon_and_kept_nowhere(s3: MemoryS3) -> None:
    source, clock = Source(), Clock()
    found = KeptSchemas(source, store(s3), clock)
    for _ in range(3):
        with raising(UnknownSchema, "schema id 7 is unknown"):
            found.get(7)
    assert source.asked == [7]
    source.bundles[7] = BUNDLE
    clock.seconds += FAILED_SECONDS - 0.1
    with raising(UnknownSchema):
        found.get(7)
    clock.seconds += 0.1
    assert found.get(7).id == 7
    assert len(s3.objects) == 1


def test_a_schema_that_cannot_be_used_is_not_kept(s3: MemoryS3) -> None:
    source = Source(Bundle(7, Definition(AVRO, "{"), {}))
    found = KeptSchemas(source, store(s3), Clock())
    for _ in range(2):
        with raising(RefusedSchema, "schema id 7 is not JSON"):
            found.get(7)
    assert source.asked == [7]
    assert not s3.objects


def test_failures_have_a_number_at_most(s3: MemoryS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_FAILED", 3)
    source = Source()
    found = KeptSchemas(source, store(s3), Clock())
    for schema_id in (1, 2, 3, 4, 4, 1):
        with raising(UnknownSchema):
            found.get(schema_id)
    assert source.asked == [1, 2, 3, 4, 1]


def test_an_outage_stops_nothing_that_is_kept_and_says_so_once_a_minute(
    s3: MemoryS3, caplog: pytest.LogCaptureFixture
) -> None:
    source, clock = Source(BUNDLE), Clock()
    found = KeptSchemas(source, store(s3), clock)
    found.get(7)
    source.error = RegistryUnreachable("registry is away")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with raising(RegistryUnreachable, "away"):
                found.get(8)
            assert found.get(7).id == 7
        assert [record.getMessage() for record in caplog.records] == [
            "schema registry does not answer; kept schemas are still used in_memory=1: registry is away"
        ]
        clock.seconds += WARNING_SECONDS
        with raising(RegistryUnreachable):
            found.get(8)
        assert len(caplog.records) == 2
    source.error = None
    source.bundles[8] = Bundle(8, text(8), {})
    assert found.get(8).id == 8, "an outage is not remembered as an answer"


def test_memory_has_bytes_at_most(s3: MemoryS3, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(text(1).text)
    monkeypatch.setattr(kept, "MAX_BYTES", 2 * size)
    found = KeptSchemas(Source(*(Bundle(n, text(n), {}) for n in (1, 2, 3))), store(s3))
    for schema_id in (1, 2, 1, 3):
        found.get(schema_id)
    s3.requests.clear()
    found.get(1)
    found.get(3)
    assert not s3.requests
    found.get(2)
    assert s3.requests["GET"] == 1, "it was not used for longest"
    monkeypatch.setattr(kept, "MAX_BYTES", 1)
    assert found.get(3).id == found.get(1).id + 2, "one stays, whatever its size"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"form": 1, "id": 8}'])
def test_a_damaged_document_is_refused_by_name(s3: MemoryS3, body: bytes) -> None:
    source = Source(BUNDLE)
    KeptSchemas(source, store(s3)).get(7)
    (place,) = s3.objects
    s3.objects[place] = body
    with raising(RegistryChanged, "schema id 7", "'tests'", "damaged", "Fix:"):
        KeptSchemas(source, store(s3)).get(7)


def test_a_right_that_is_missing_is_named(s3: MemoryS3) -> None:
    s3.refuse_gets = ["AccessDenied"]
    with raising(Refused, "schema document s3://warehouse/ledger/_registries/", "/schemas/7.json", "Fix:"):
        KeptSchemas(Source(BUNDLE), store(s3)).get(7)


def test_of_several_threads_one_asks(s3: MemoryS3) -> None:
    source = Source(BUNDLE)
    found = KeptSchemas(source, store(s3))
    with ThreadPoolExecutor(8) as threads:
        assert {schema.id for schema in threads.map(found.get, [7] * 50)} == {7}
    assert source.asked == [7]


# In each process.


@pytest.fixture
def declared(s3: MemoryS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistrySchemas]:
    monkeypatch.setattr(schemas, "connect", lambda config: s3.as_client())
    with serving() as server:
        server.answers["/schemas/ids/7"] = Answer({"schema": AVRO_TEXT})
        yield RegistrySchemas(Registry(server.url, token="token-of-tests"), S3("key", "secret"), LEDGER)
    schemas._kept.cache_clear()


@pytest.mark.usefixtures("socket_enabled")
def test_a_declaration_is_pickled_without_connections(declared: RegistrySchemas) -> None:
    assert declared.get(7).text == AVRO_TEXT
    copy = pickle.loads(pickle.dumps(declared))  # noqa: S301
    assert copy == declared
    assert copy.get(7) is declared.get(7), "a process has one memory"
    assert "token-of-tests" not in repr(declared)


def _get(declared: RegistrySchemas, found: multiprocessing.Queue[int]) -> None:
    before = schemas._kept.cache_info().misses
    declared.get(7)
    found.put(schemas._kept.cache_info().misses - before)


@pytest.mark.usefixtures("socket_enabled")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_connects_by_itself(declared: RegistrySchemas) -> None:
    declared.get(7)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_get, args=(declared, queue))
    child.start()
    assert queue.get(timeout=20) == 1
    child.join(20)
    assert child.exitcode == 0


def test_a_registry_is_named_by_its_declaration() -> None:
    assert RegistryClient(Registry("https://h", name="mine")).name == "mine"


# Many ids that it does not have.


def rejected(found: KeptSchemas, ids: Iterable[int]) -> Counter[type[Exception]]:
    kinds: Counter[type[Exception]] = Counter()
    for schema_id in ids:
        with pytest.raises((UnknownSchema, RefusedSchema)) as caught:
            found.get(schema_id)
        kinds[caught.type] += 1
    return kinds


def test_a_thousand_unknown_ids_are_asked_for_in_part_and_all_that_is_known_is_read(s3: MemoryS3) -> None:
    source, clock = Source(BUNDLE, Bundle(8, text(8), {}), Bundle(9, text(9), {})), Clock()
    KeptSchemas(source, store(s3)).get(8)
    found = KeptSchemas(source, store(s3), clock)
    found.get(7)
    source.asked.clear()
    s3.requests.clear()
    assert rejected(found, range(100, 1_100)) == {
        UnknownSchema: MAX_UNKNOWN, NotLookedUp: 1_000 - MAX_UNKNOWN
    }  # fmt: skip
    assert len(source.asked) == MAX_UNKNOWN
    assert dict(s3.requests) == {"GET": MAX_UNKNOWN, "LIST": 1}
    assert found.get(7).id == 7
    assert found.get(8).id == 8, "one that another process uses"
    # That it exists is not known, and the reason says what to do.
    with raising(
        NotLookedUp, "schema id 9 was not looked up", f"none of {MAX_UNKNOWN} others", "action replay"
    ):
        found.get(9)
    clock.seconds += FAILED_SECONDS
    assert found.get(9).id == 9, "it was not remembered as an answer"
    assert rejected(found, range(100, 1_100))[UnknownSchema] == MAX_UNKNOWN


def test_a_slow_registry_is_asked_less_often_and_an_outage_rejects_nothing(
    s3: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MAX_UNKNOWN", 10)
    clock = Clock()

    class Slow(Source):
        def bundle(self, schema_id: int) -> Bundle:
            clock.seconds += 4
            return super().bundle(schema_id)

    source = Slow()
    found = KeptSchemas(source, store(s3), clock)
    began = clock.seconds
    for schema_id in range(1, 4_000):
        rejected(found, [schema_id])
        # What decoding takes.
        clock.seconds += 0.25
    assert 4 * len(source.asked) < 0.3 * (clock.seconds - began) + 10 * 4
    source.error = RegistryUnreachable("away")
    clock.seconds += 1_000
    with raising(RegistryUnreachable, "away"):
        found.get(5_000)


# Ids that the login may not read.


def test_one_id_that_is_forbidden_is_rejected_beside_one_that_is_not(s3: MemoryS3) -> None:
    class Guarded(Source):
        forbidden: frozenset[int] = frozenset({9})

        def bundle(self, schema_id: int) -> Bundle:
            if schema_id in self.forbidden:
                self.asked.append(schema_id)
                raise Forbidden(f"{schema_id}: answered 403. Fix: grant")
            return super().bundle(schema_id)

    source, clock = Guarded(BUNDLE, Bundle(8, text(8), {})), Clock()
    found = KeptSchemas(source, store(s3), clock)
    # Nothing says that the login may read anything.
    with raising(Forbidden, "answered 403"):
        found.get(9)
    found.get(7)
    source.asked.clear()
    for _ in range(2):
        with raising(RefusedSchema, "schema id 9", "answered 403", "Fix: grant"):
            found.get(9)
    assert source.asked == [9, 7]
    # Once it may read nothing, nothing is rejected.
    source.forbidden = frozenset({7, 8, 9})
    for schema_id in (8, 9):
        clock.seconds += FAILED_SECONDS
        with raising(Forbidden, "7: answered 403"):
            found.get(schema_id)
    assert found.get(7).id == 7
    source.error = RegistryUnreachable("away")
    source.forbidden = frozenset({8})
    with raising(RegistryUnreachable, "away"):
        found.get(8)
