"""A stack whose producers read the public feeds, or the replay server in their place."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from rich.console import Console

from local.progress import ProgressDisplay
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.supervisord import Supervisor
from local.services import replay
from local.stack import health
from local.stack.stack import Stack


def test_the_port_is_needed_only_where_the_server_is(stack: Callable[[str], Stack]) -> None:
    assert replay.NAME in stack("replay").served()
    assert replay.NAME not in stack("public").served()
    assert {"postgres", "kafka", "airflow"} <= set(stack("public").served())


def test_the_platform_files_follow(stack: Callable[[str], Stack]) -> None:
    made = stack("replay").platform_documents()
    port = stack("replay").ports[replay.NAME]
    assert made["producer"]["feeds"]["wiki_changes"] == f"http://127.0.0.1:{port}/v2/stream/recentchange"
    assert "feeds" not in stack("public").platform_documents()["producer"]


def test_the_server_is_a_program_either_way(stack: Callable[[str], Stack]) -> None:
    for feed in ("public", "replay"):
        assert replay.NAME in [program.name for program in stack(feed).programs()]


class Daemon(Supervisor):
    """supervisord, as far as it is told something."""

    def __init__(self, home: StackDir, **states: str) -> None:
        super().__init__(home, 0, "")
        self.known = {name: {"statename": state} for name, state in states.items()}
        self.restarted: list[str] = []

    def states(self) -> dict[str, Any]:
        return self.known

    def restart(self, name: str) -> None:
        self.restarted.append(name)


@pytest.mark.parametrize(("state", "restarted"), [("RUNNING", 1), ("STOPPED", 0), ("EXITED", 0)])
def test_a_producer_that_runs_learns_of_another_feed(
    stack: Callable[[str], Stack], state: str, restarted: int
) -> None:
    producer = "stream-wiki_changes-producer"
    made, said = stack("replay"), io.StringIO()
    made.daemon = daemon = Daemon(made.home, **{producer: state})
    made.restart_producers(ProgressDisplay(Console(file=said, width=200)))
    assert daemon.restarted == [producer] * restarted
    assert said.getvalue().count(producer) == restarted


def test_status_says_where_the_server_is_not_wanted(context: Context) -> None:
    def unreachable(name: str, context: Context) -> str:
        raise httpx.ConnectError("no server")

    states = {replay.NAME: {"statename": "STOPPED"}}
    [row] = health.rows(context, states, unreachable)
    assert (row.is_ok, row.health) == (None, "not used: the feeds are the public ones")
    [row] = health.rows(replace(context, feed="replay"), states, unreachable)
    assert (row.is_ok, row.address) == (False, "http://127.0.0.1:18081")
    [row] = health.rows(context, {replay.NAME: {"statename": "RUNNING"}}, unreachable)
    assert row.is_ok is False, "it should not run, and does not answer either"
