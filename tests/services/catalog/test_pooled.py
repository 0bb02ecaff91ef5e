"""The connections that a process has to PostgreSQL for many streams."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from multiprocessing import get_context
from typing import Any, cast

import pytest
import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog

from sluice.clients.databases.engines import MOST
from sluice.clients.lake.catalog import Lake
from sluice.config.platform import Platform
from tests.support.services import Services

STREAMS = 40


@pytest.fixture
def platform(services: Services) -> Platform:
    return services.stack.platform("observer")


@pytest.fixture
def count(services: Services) -> Callable[[], int]:
    """Connections of the observer's login, by the server."""
    opened = services.postgres

    def counted() -> int:
        with closing(opened()) as connection, connection.cursor() as cursor:
            cursor.execute("select count(*) from pg_stat_activity where usename = 'lake_observer'")
            return int(cursor.fetchone()[0])

    return counted


def asked(lake: Lake, seconds: float = 0.0) -> None:
    with cast("SqlCatalog", lake.catalog).engine.connect() as connection:
        connection.execute(sa.text(f"select pg_sleep({seconds})"))


def _in_a_child(lake: Lake, platform: Platform, answer: Any) -> None:
    with closing(Lake.open(platform)) as own:
        asked(own)
        answer.put((os.getpid(), own.catalog.engine is lake.catalog.engine))  # type: ignore[attr-defined]


def test_many_catalogs_have_one_connection_while_no_one_asks(
    platform: Platform, count: Callable[[], int]
) -> None:
    assert count() == 0
    with ExitStack() as opened:
        lakes = [opened.enter_context(closing(Lake.open(platform))) for _ in range(STREAMS)]
        for lake in lakes:
            asked(lake)
        assert count() == 1
        lakes[0].close()
        lakes[0].close()
        asked(lakes[1])
        assert count() == 1, "the others keep it"
    assert count() == 0


def test_one_that_is_not_closed_gives_its_connection_back(
    platform: Platform, count: Callable[[], int]
) -> None:
    lake = Lake.open(platform)
    asked(lake)
    assert count() == 1
    del lake
    gc.collect()
    assert count() == 0


def test_many_threads_share_a_bounded_number(platform: Platform, count: Callable[[], int]) -> None:
    with ExitStack() as opened, ThreadPoolExecutor(STREAMS) as threads:
        lakes = [opened.enter_context(closing(Lake.open(platform))) for _ in range(STREAMS)]
        running = [threads.submit(asked, lake, 0.3) for lake in lakes]
        most = 0
        while not all(one.done() for one in running):
            most = max(most, count())
        for one in running:
            one.result()
        assert 1 < most <= MOST


def test_a_process_that_is_forked_has_its_own(platform: Platform) -> None:
    with closing(Lake.open(platform)) as lake:
        asked(lake)
        context = get_context("fork")
        answer: Any = context.SimpleQueue()
        child = context.Process(target=_in_a_child, args=(lake, platform, answer))
        child.start()
        pid, is_same = answer.get()
        child.join()
        assert (pid, is_same, child.exitcode) == (child.pid, False, 0)
        asked(lake)
