"""A stack whose producers read the public feeds, or the replay server in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from local import health
from local.services import replay
from local.services.context import Context
from local.stack import Stack


@pytest.fixture
def stack(context: Context) -> Callable[[str], Stack]:
    """Of a context; nothing of it runs."""

    def make(feed: str) -> Stack:
        made = Stack(context.home.root)
        made.__dict__.update(
            context=replace(context, feed=feed), ports=context.ports, secrets=context.secrets
        )
        return made

    return make


def test_the_port_is_needed_only_where_the_server_is(stack: Callable[[str], Stack]) -> None:
    assert replay.NAME in stack("replay")._served()
    assert replay.NAME not in stack("public")._served()
    assert {"postgres", "kafka", "airflow"} <= set(stack("public")._served())


def test_the_platform_files_follow(stack: Callable[[str], Stack]) -> None:
    made = stack("replay").platform_documents()
    port = stack("replay").ports[replay.NAME]
    assert made["producer"]["feeds"]["wiki_changes"] == f"http://127.0.0.1:{port}/v2/stream/recentchange"
    assert "feeds" not in stack("public").platform_documents()["producer"]


def test_the_server_is_a_program_either_way(
    stack: Callable[[str], Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("postgres", "minio"):
        monkeypatch.setattr(f"local.stack.{module}.program", lambda context: replay.program(context))
    for feed in ("public", "replay"):
        assert replay.NAME in [program.name for program in stack(feed)._programs()]


class Daemon:
    """supervisord, as far as it is told something."""

    def __init__(self, **states: str) -> None:
        self.known = {name.replace("_of_", "-"): {"statename": state} for name, state in states.items()}
        self.restarted: list[str] = []

    def states(self) -> dict[str, Any]:
        return self.known

    def restart(self, name: str) -> None:
        self.restarted.append(name)


@pytest.mark.parametrize(("state", "restarted"), [("RUNNING", 1), ("STOPPED", 0), ("EXITED", 0)])
def test_a_producer_that_runs_learns_of_another_feed(
    stack: Callable[[str], Stack], state: str, restarted: int
) -> None:
    said: list[str] = []
    daemon = Daemon()
    daemon.known["stream-wiki_changes-producer"] = {"statename": state}
    made = stack("replay")
    made.__dict__["daemon"] = daemon
    made._renew_producers(type("Board", (), {"say": lambda _, text: said.append(text)})())  # type: ignore[arg-type]
    assert daemon.restarted == ["stream-wiki_changes-producer"] * restarted
    assert len(said) == restarted


def test_status_says_where_the_server_is_not_wanted(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object, **__: object) -> None:
        raise httpx.ConnectError("nobody there")

    monkeypatch.setattr(replay.httpx, "get", nobody)
    states = {replay.NAME: {"statename": "STOPPED"}}
    [row] = health.rows(context, states)
    assert (row.fine, row.health) == (None, "not wanted: the feeds are the public ones")
    [row] = health.rows(replace(context, feed="replay"), states)
    assert (row.fine, row.address) == (False, "http://127.0.0.1:18081")
    [row] = health.rows(context, {replay.NAME: {"statename": "RUNNING"}})
    assert row.fine is False, "it should not run, and does not answer either"
