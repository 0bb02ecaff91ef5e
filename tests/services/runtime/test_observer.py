"""The observer's process over HTTP: what its readers get, and what they get without it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from sluice.config import streams
from sluice.config.platform_sections.metrics import ObserverAccess
from sluice.config.stream import StreamSpec
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.supervision.observer.client import FRESH_SECONDS, SECONDS, ObserverClient
from sluice.supervision.observer.documents import dump
from sluice.supervision.observer.live import OBSERVER, Live
from sluice.supervision.observer.server import Server
from sluice.supervision.rules.sample import Sample
from sluice.web.data.cache import TtlCache
from sluice.web.data.observed import Observed
from tests.support import observed
from tests.support.raising import raising

TOKEN = "t" * 32
NOW = 1_800_000_000.0
SPEC = streams.load("nyc_taxi")


class World:
    """An observer of one stream. ``age``: of its newest sample."""

    def __init__(self) -> None:
        self.known = {name: live for (_, name), live in observed.streams([SPEC], NOW).lives.items()}
        self.age = 3.0
        self.works = True
        self.declared = SPEC

    def lives(self, name: str) -> Mapping[str, Live]:
        return self.known if name == SPEC.name else {}

    def all_lives(self) -> Mapping[str, Mapping[str, Live]]:
        return {SPEC.name: self.known}

    def is_working(self) -> bool:
        return self.works

    def samples(self, name: str, component: str) -> tuple[StreamSpec, list[Sample]] | None:
        is_known = (name, component) == (SPEC.name, "consumer")
        return (self.declared, self.sampled()) if is_known else None

    def sampled(self) -> list[Sample]:
        newest = self.known["consumer"].sample
        assert newest is not None
        return [Sample.from_json(newest.to_json() | {"at": NOW - self.age - ago}) for ago in (20, 10, 0)]


@contextmanager
def serving(world: World) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), TOKEN, cast("Any", world), lambda: NOW)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def client(url: str, token: str = TOKEN, ahead: float = 0.0) -> ObserverClient:
    return ObserverClient(ObserverAccess(url, token), lambda: NOW + ahead)


def test_pages_and_supervision_get_what_is_known() -> None:
    world = World()
    with serving(world) as url:
        found = client(url).stream(SPEC.name)
        assert {name: dump(live) for name, live in found.items()} == {
            name: dump(live) for name, live in world.known.items()
        }
        assert client(url).samples(SPEC, "consumer") == world.sampled()


def test_old_samples_are_no_answer() -> None:
    world = World()
    with serving(world) as url:
        world.age = FRESH_SECONDS
        client(url).samples(SPEC, "consumer")
        world.age = FRESH_SECONDS + 1
        with raising(Unreachable, "newest sample of the consumer of nyc_taxi is 46 s old"):
            client(url).samples(SPEC, "consumer")


@pytest.mark.parametrize(
    "path", ["", "/metrics", "/streams//consumer", "/streams/other", "/streams/nyc_taxi/queries"]
)
def test_what_it_does_not_know_is_not_found(path: str) -> None:
    with serving(World()) as url:
        answer = httpx.get(url + path, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)
        assert answer.status_code == 404
        with raising(Missing, "does not know other"):
            client(url).stream("other")


def test_nothing_is_told_without_the_token() -> None:
    with serving(World()) as url:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            answer = httpx.get(f"{url}/streams/nyc_taxi", headers=headers, trust_env=False)
            assert (answer.status_code, answer.content) == (401, b"")
        assert httpx.get(f"{url}/health", trust_env=False).text == "ok\n"
        with raising(Refused, "answered 401", "another token"):
            client(url, "x" * 32).stream(SPEC.name)


def test_a_page_keeps_what_it_was_told_last_and_says_why() -> None:
    world = World()
    with serving(world) as url:
        pages = Observed(lambda: client(url))
        assert dump(pages.live(SPEC.name, "consumer")) == dump(world.known["consumer"])
    pages._caches.clear()
    live = pages.live(SPEC.name, "consumer")
    assert (live.at, live.report) == (world.known["consumer"].at, world.known["consumer"].report)
    assert list(live.errors) == [OBSERVER]
    assert "does not answer" in live.errors[OBSERVER]
    unknown = Observed(lambda: client(url)).live(SPEC.name, "consumer")
    assert (unknown.at, list(unknown.errors)) == (None, [OBSERVER])


def test_a_page_of_all_streams_is_one_request_and_does_not_grow_with_the_hours() -> None:
    world = World()
    with serving(world) as url:
        pages = Observed(lambda: client(url))
        known, live = world.known["consumer"], pages.all()(SPEC.name, "consumer")
        assert len(known.points) > 1 < len(known.batches)
        assert [*live.points, *live.batches] == [known.points[-1], known.batches[0]]
        assert (live.at, live.lag, live.behind, live.report) == (
            known.at, known.lag, known.behind, known.report
        )  # fmt: skip
        unknown = pages.all()("other", "consumer")
        assert (unknown.at, unknown.errors) == (None, {OBSERVER: "the observer does not know other (yet)"})
    pages._all = TtlCache(pages._read_all, 0.0)
    again = pages.all()(SPEC.name, "consumer")
    assert (again.at, list(again.errors)) == (known.at, [OBSERVER])
    assert "does not answer" in again.errors[OBSERVER]


def test_samples_of_another_topic_or_table_are_refused() -> None:
    """An observer of an older image, or of another installation, under the same stream's name."""
    world = World()
    with serving(world) as url:
        world.declared = replace(SPEC, table="raw.other")
        with raising(Refused, "observes other systems as the consumer of nyc_taxi", "raw.other"):
            client(url).samples(SPEC, "consumer")


@pytest.mark.parametrize("ahead", [-60.0, 60.0])
def test_a_clock_that_is_not_ours_is_no_answer(ahead: float) -> None:
    with serving(World()) as url, raising(Unreachable, "clock is"):
        client(url, ahead=ahead).samples(SPEC, "consumer")


def test_an_observer_that_observes_nothing_is_not_healthy() -> None:
    world = World()
    with serving(world) as url:
        world.works = False
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 503


def test_a_page_of_many_streams_waits_once_for_an_observer_that_hangs() -> None:
    """It accepts connections and never answers, as one that is stopped (SIGSTOP)."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pages = Observed(lambda: client(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        began = time.monotonic()
        lives = [pages.live(f"stream_{number}", "consumer") for number in range(20)]
        assert time.monotonic() - began < 2 * SECONDS
        assert all("does not answer" in live.errors[OBSERVER] for live in lives)
        pages._failure = 0.0, ""
        pages._caches.clear()
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: pages.live(SPEC.name, "consumer"), range(4)))
        assert all(live.errors for live in found)
