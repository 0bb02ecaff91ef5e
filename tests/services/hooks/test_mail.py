"""Notifications as mails: Airflow's SmtpNotifier and its connection, to a real SMTP server."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow import callbacks, delivery
from sluice.airflow.channel import RunChannel
from sluice.airflow.failures import failed
from sluice.config.notifications import Event
from sluice.core.error_codes import ErrorCode
from sluice.ledger.history import History
from sluice.notify import telling
from tests.support import notifier
from tests.support.certificates import Authority
from tests.support.memory_s3 import MemoryS3
from tests.support.smtp_server import Mode, SmtpServer

CONFIG = '[[notify]]\nnotifier = "smtp"\n[notify.arguments]\nto = ["ops@example.com", "night@example.com"]\n'
NAMED = CONFIG.replace("[notify.arguments]\n", '[notify.arguments]\nsmtp_conn_id = "night_mail"\n')
RISK = failed(
    ErrorCode.HEALTH_DATA_AT_RISK, "the consumer of nyc_taxi is data at risk: <5> records, {{ 7*7 }}"
)


class World:
    def __init__(self, server: SmtpServer, patch: pytest.MonkeyPatch) -> None:
        self.server, self.patch = server, patch
        self.memory = MemoryS3()
        self.connect("SMTP_DEFAULT")

    def connect(self, name: str, port: int | None = None, **further: Any) -> None:
        """``further``: of the connection, or of its extra."""
        extra = {
            "disable_ssl": True,
            "disable_tls": True,
            "from_email": "sluice@example.com",
            "retry_limit": 0,
            **{key: value for key, value in further.items() if key not in ("host", "login", "password")},
        }
        connection = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": port or self.server.port,
            **{key: value for key, value in further.items() if key in ("host", "login", "password")},
            "extra": extra,
        }
        self.patch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))

    def history(self, name: str) -> History:
        return History(self.memory.as_client(), "s3://w/ledger", name)

    brief_history = history

    def fails(self, error: Any = RISK) -> None:
        task = SimpleNamespace(
            task_id="consumer", dag_id="nyc_taxi_stream", stream="nyc_taxi", component="consumer"
        )
        callbacks.task_failed({"task": task, "run_id": "r1", "exception": error})

    def recovers(self) -> None:
        run = ("nyc_taxi_stream", "r2")
        note = notifier.note(Event.RECOVERY, "nyc_taxi", "consumer", "healthy again", run, remedy="none")
        telling.tell(self.history("nyc_taxi"), note, "", RunChannel({}))


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    made = SmtpServer()
    yield made
    made.close()


@pytest.fixture
def world(server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    notifier.configure(tmp_path, monkeypatch, CONFIG)
    made = World(server, monkeypatch)
    monkeypatch.setattr(callbacks, "PlatformHook", lambda: made)
    return made


def text(mail: Message) -> str:
    (part,) = [part for part in mail.walk() if part.get_content_type() == "text/html"]
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()


def test_an_outage_is_one_mail_and_its_recovery_another(world: World) -> None:
    for _ in range(3):
        world.fails()
    for _ in range(3):
        world.recovers()
    first, second = world.server.mails
    assert first["Subject"].startswith("Sluice alert: nyc_taxi consumer: SLU-602 the consumer of nyc_taxi is")
    assert (first["From"], first["To"]) == ("sluice@example.com", "ops@example.com, night@example.com")
    for part in (
        "nyc_taxi consumer: SLU-602 the consumer of nyc_taxi is data at risk: &lt;5&gt; records, {{ 7*7 }}",
        "docs/operating.md#data-at-risk",
        "/dags/nyc_taxi_stream/runs/r1/tasks/consumer",
        "/sluice/streams/nyc_taxi",
    ):
        assert part in text(first)
    assert second["Subject"] == "Sluice recovery: nyc_taxi consumer: healthy again"


def test_a_connection_of_another_name(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notifier.configure(tmp_path, monkeypatch, NAMED)
    monkeypatch.delenv("AIRFLOW_CONN_SMTP_DEFAULT")
    world.connect("NIGHT_MAIL")
    world.fails()
    assert len(world.server.mails) == 1


def test_a_server_that_refuses_is_named_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.mode = Mode.REFUSING
    world.fails()
    assert world.server.mails == []
    for part in ("SLU-241", "550", "no such mailbox"):
        assert part in caplog.text
    world.server.mode = Mode.WELL
    world.fails()
    world.fails()
    assert len(world.server.mails) == 1


def test_a_server_that_is_down_is_named_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    gone = SmtpServer()
    gone.close()
    world.connect("SMTP_DEFAULT", gone.port)
    world.fails()
    for part in ("SLU-241", "ConnectionRefusedError"):
        assert part in caplog.text
    world.connect("SMTP_DEFAULT")
    world.fails()
    assert len(world.server.mails) == 1


def test_a_server_that_hangs_is_given_up(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery.deliver, "__defaults__", (1.0,))
    world.server.mode = Mode.HANGING
    before = time.monotonic()
    world.fails()
    assert time.monotonic() - before < 5
    for part in ("SLU-241", "no answer within 1 s"):
        assert part in caplog.text
    assert world.server.connections == 1
    world.server.mode = Mode.WELL
    world.fails()
    assert len(world.server.mails) == 1


def test_without_a_connection_it_says_so(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SMTP_DEFAULT")
    world.fails()
    for part in ("SLU-241", "connection"):
        assert part in caplog.text


LOGIN: dict[str, Any] = {"login": "sluice", "password": "hidden-word"}


def test_an_encrypted_server_is_verified_and_another_one_gets_no_login(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("mail"))
    server = SmtpServer(context)
    try:
        world.connect("SMTP_DEFAULT", server.port, disable_ssl=False, **LOGIN)
        world.fails()
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
        assert server.commands == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        context.load_cert_chain(*authority.issue("elsewhere", host="elsewhere.test"))
        caplog.clear()
        world.fails()
        assert "IP address mismatch" in caplog.text
        assert server.commands == []
        context.load_cert_chain(*authority.issue("mail"))
        world.connect("SMTP_DEFAULT", server.port, disable_ssl=False)
        world.fails()
        assert len(server.mails) == 1
    finally:
        server.close()


@pytest.mark.parametrize("disabled", ["disable_ssl", "disable_tls"])
def test_nothing_falls_back_to_plain_text(
    world: World, caplog: pytest.LogCaptureFixture, disabled: str
) -> None:
    """Whichever of the two the server is asked for, and does not have."""
    world.connect("SMTP_DEFAULT", **{"disable_ssl": False, "disable_tls": False} | {disabled: True}, **LOGIN)
    world.fails()
    assert "SLU-241" in caplog.text
    assert not {b"AUTH", b"MAIL"} & set(world.server.commands)
    assert "hidden-word" not in caplog.text


def test_a_server_on_another_machine_is_not_left_unverified(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.connect("SMTP_DEFAULT", host="mail.example.com", ssl_context="none", disable_ssl=False, **LOGIN)
    world.fails()
    assert "connection smtp_default: ssl_context is 'none'" in caplog.text
    assert "Fix: remove ssl_context" in caplog.text
    assert world.server.connections == 0
