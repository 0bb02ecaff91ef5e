"""The ends that not every installation has: other catalogs, the registry, databases of results, what runs the
streams, mail servers, Kubernetes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from local.runtime import roles
from local.runtime.ports import HOST, free_ports, free_range
from local.runtime.supervisord import render
from local.services import postgres
from sluice.airflow import callbacks
from sluice.airflow.failures import FindingsFailed
from sluice.airflow.operators.maintenance import connections as steps
from sluice.airflow.operators.maintenance.connections import CheckConnectionsOperator, mail_ends
from sluice.catalog_check.trial import SCHEMA
from sluice.cli import app
from sluice.cli.app import run
from sluice.clients.lake.catalog import Lake
from sluice.config.connection import POSTGRESQL, Database
from sluice.config.notifications import FILE
from sluice.config.platform import DIRECTORY_VARIABLE, Platform
from sluice.config.platform_sections.kubernetes import Kubernetes, Strimzi
from sluice.config.platform_sections.metrics import Metrics
from sluice.config.platform_sections.supervisor import Supervisor
from sluice.connection_check.needs import Needs
from sluice.connection_check.probing.ends import database_ends, ends_of
from sluice.connection_check.rights.cluster import granted
from sluice.connection_check.rows import Row, failures
from sluice.connection_check.run import look
from sluice.supervision.checks.server import Server as Checks
from tests.support.services import Services
from tests.support.smtp_server import Mode, SmtpServer

pytestmark = pytest.mark.exhaustive
TOKEN = "a token of more than 24 characters"


def row_of(platform: Platform, end: str, **needs: Any) -> Row:
    """The only one of its kind."""
    ends = [one for one in ends_of(platform, Needs([], **needs)) if one.row.end.startswith(end)]
    (found,) = look(ends)
    return found


def make_check_table(platform: Platform) -> None:
    lake = Lake.open(platform)
    lake.catalog.create_namespace_if_not_exists("sluice_check")
    lake.catalog.create_table_if_not_exists("sluice_check.catalog_check", SCHEMA)
    lake.close()


def test_a_rest_catalog_is_asked_whether_it_takes_commits(services: Services) -> None:
    before = row_of(services.on_rest("consumer"), "lake.catalog")
    assert before.rights.asked == 0
    assert "sluice catalog-check makes it" in before.remarks[0]
    make_check_table(services.on_rest("consumer"))
    writer, reader = (row_of(services.on_rest(role), "lake.catalog") for role in ("consumer", "reader"))
    assert failures([writer, reader]) == []
    assert (writer.rights.asked, reader.rights.asked) == (2, 2)
    assert not writer.rights.excess + reader.rights.excess
    assert writer.clock is not None
    assert abs(writer.clock) < 5
    as_reader = services.on_rest("reader").lake.catalog.token
    found = services.on_rest("consumer")
    weak = replace(found, lake=replace(found.lake, catalog=replace(found.lake.catalog, token=as_reader)))
    assert row_of(weak, "lake.catalog").rights.missing == ("commit to tables",)
    none = replace(found, lake=replace(found.lake, catalog=replace(found.lake.catalog, token="another")))
    (line,) = failures([row_of(none, "lake.catalog")])
    assert "the catalog refuses the login" in line
    assert "Fix: correct the login" in line


def test_glue_is_asked_with_its_own_clock(services: Services) -> None:
    seen = row_of(services.on_glue("consumer"), "lake.catalog glue")
    assert failures([seen]) == []
    assert seen.rights.asked == 3
    assert seen.clock is not None
    # This server knows no rights.
    assert row_of(services.on_glue("reader"), "lake.catalog").rights.excess == (
        "glue:UpdateTable in sluice_check",
        "glue:DeleteTable in sluice_check",
    )


def test_mariadb_tells_the_rights_of_its_users(services: Services) -> None:
    lake = Lake.open(services.on_mysql("consumer"))
    lake.catalog.create_tables()  # type: ignore[attr-defined]
    lake.close()
    rows = {role: row_of(services.on_mysql(role), "lake.catalog") for role in ("consumer", "reader")}
    assert failures(rows.values()) == []
    assert rows["consumer"].rights.asked == 5
    assert [row.rights.excess for row in rows.values()] == [(), ()]
    assert all(row.clock is not None and abs(row.clock) < 5 for row in rows.values())
    reader = f"lake_reader@'{HOST}'"
    services.mysql.run(f"grant update on lake.iceberg_tables to {reader}")
    assert row_of(services.on_mysql("reader"), "lake.catalog").rights.excess == (
        "UPDATE on table iceberg_tables",
    )
    services.mysql.run(
        f"revoke update on lake.iceberg_tables from {reader}", "revoke select on lake.* from " + reader
    )
    seen = row_of(services.on_mysql("reader"), "lake.catalog")
    services.mysql.run(f"grant select on lake.* to {reader}")
    assert failures([seen])


def test_the_registry_takes_the_login_of_each_role(services: Services) -> None:
    services.registry  # noqa: B018
    for role in ("consumer", "airflow"):
        seen = row_of(services.stack.platform(role), "registry", registers=True)
        assert failures([seen]) == []
        assert seen.rights.asked == 1
    found = services.stack.platform("consumer")
    other = replace(found, registry=replace(found.need_registry(), password="another"))
    (line,) = failures([row_of(other, "registry")])
    assert "401: a wrong login" in line


def results(services: Services, **changed: Any) -> Database:
    context = services.stack.context
    login = (postgres.RESULTS, postgres.RESULTS, services.stack.secrets["postgres_results"])
    return replace(Database(POSTGRESQL, "127.0.0.1", context.ports["postgres"], *login), **changed)


def test_a_database_of_results(services: Services) -> None:
    services.postgres  # noqa: B018
    with postgres.cursor(services.stack.context, postgres.RESULTS) as current:
        current.execute("create table made (id int)")
        current.execute(f"grant select, insert, update on made to {postgres.RESULTS}")

        def seen(*tables: str, **changed: Any) -> Row:
            (row,) = look(database_ends({"here": tables}, lambda _: results(services, **changed)))
            return row

        first = seen("made", "coming")
        assert first.address == f"127.0.0.1:{services.stack.ports['postgres']}/results"
        assert first.rights.missing == ("DELETE on table made",)
        assert "coming" in first.remarks[0]
        current.execute(f"grant delete on made to {postgres.RESULTS}")
        assert failures([seen("made", "coming")]) == []
        (line,) = failures([seen("made", password="another")])
        assert "refuses the login" in line
        assert "another" not in line


@contextmanager
def supervisord(folder: Path) -> Iterator[str]:
    (port,) = free_ports(1, set(), free_range({}))
    (folder / "logs").mkdir()
    conf = folder / "supervisord.conf"
    conf.write_text(render([], folder, f"127.0.0.1:{port}", "secret"))
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", conf],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}/RPC2"
    finally:
        process.terminate()
        process.wait(20)


def test_supervisord(services: Services, tmp_path: Path) -> None:
    found = services.stack.platform("airflow")
    with supervisord(tmp_path) as url:

        def seen(password: str) -> list[str]:
            return failures(
                [row_of(replace(found, supervisor=Supervisor(url, "sluice", password)), "supervisor")]
            )

        deadline = time.monotonic() + 20
        while seen("secret") and time.monotonic() < deadline:
            time.sleep(0.2)
        assert seen("secret") == []
        (line,) = seen("another")
        assert "it refuses the login. Fix: correct username and password" in line
    (line,) = seen("secret")
    assert "it does not answer" in line


def test_what_is_served_to_the_bearer_of_a_token(services: Services, tmp_path: Path) -> None:
    server = Checks(("127.0.0.1", 0), TOKEN, tmp_path / "checks.json", time.time)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, found = f"http://127.0.0.1:{server.server_port}", services.stack.platform("airflow")
    try:
        assert failures([row_of(replace(found, metrics=Metrics(TOKEN, url)), "metrics")]) == []
        (line,) = failures([row_of(replace(found, metrics=Metrics(f"{TOKEN} x", url)), "metrics")])
        assert "it answered 401" in line
        assert TOKEN not in line
    finally:
        server.shutdown()
        server.server_close()


def test_a_feed_is_asked_for_its_certificate_and_clock_alone(services: Services, tmp_path: Path) -> None:
    server = Checks(("127.0.0.1", 0), TOKEN, tmp_path / "checks.json", time.time)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    feeds = {"wiki_changes": f"http://127.0.0.1:{server.server_port}/changes"}
    found = replace(services.stack.platform("producer"), feeds=feeds)
    seen = row_of(found, "feeds")
    server.shutdown()
    server.server_close()
    assert (seen.end, seen.tls, failures([seen])) == ("feeds wiki_changes", "plain text", [])
    assert seen.clock is not None
    (line,) = failures([row_of(found, "feeds")])
    assert "it does not answer" in line


def test_the_task_and_the_command_look_at_all_of_it(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    services.postgres  # noqa: B018
    # As they are without a registry, which another test may have started.
    stack = services.stack
    written = roles.documents(stack.home, stack.context.network, stack.secrets)
    roles.write(stack.home.platform, written)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(services.stack.home.platform))
    # local/run sets it: the command would be the checkout's, of another stack.
    monkeypatch.delenv(app.VARIABLE, raising=False)
    monkeypatch.delenv("AIRFLOW_CONN_SLUICE_RESULTS", raising=False)
    # In this folder each role's file is there.
    monkeypatch.setattr(callbacks, "not_looked_at", lambda context, lines: context.update(missed=lines))
    # Airflow, which has it in a Variable, does not run here.
    monkeypatch.setattr(steps, "cleaning_row", lambda: Row("airflow", "database", "Airflow's own"))
    context: dict[str, Any] = {}
    with pytest.raises(FindingsFailed) as caught:
        CheckConnectionsOperator(task_id="check_connections").execute(cast("Any", context))
    assert context == {"missed": []}
    # Supervisord, the observer and the process of checks do not run here, and Airflow lacks the connection.
    assert str(caught.value).startswith("SLU-281 6 of ")
    assert "airflow supervisor http://127.0.0.1:" in str(caught.value)
    capsys.readouterr()
    assert run(["check-connections", "--role", "reader", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [end["end"] for end in document["ends"]] == ["kafka", "kafka broker", "s3", "lake.catalog sql"]
    assert run(["check-connections", "--role", "observer"]) == 1
    *_, first, second, last = capsys.readouterr().out.splitlines()
    assert last == "2 of 6 ends failed"
    assert first.startswith("FAILED: observer supervisor http://")
    assert second.startswith("FAILED: observer observer http://")


def declare_mail(
    monkeypatch: pytest.MonkeyPatch, folder: Path, port: int, **more: object
) -> dict[str, object]:
    """Rules that tell by mail, through a connection in plain text; gives the connection."""
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "a@example.com", **more}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(folder))
    file = folder / FILE
    file.write_text('[[notify]]\nnotifier = "smtp"\n[notify.arguments]\nto = "a@example.com"\n')
    file.chmod(0o600)
    return connection


def test_a_mail_server_is_asked_and_gets_no_mail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = SmtpServer()
    connection = declare_mail(monkeypatch, tmp_path, server.port, retry_limit=0)
    (seen,) = look(mail_ends([]))
    assert (seen.where, seen.tls) == (f"airflow smtp 127.0.0.1:{server.port}", "plain text")
    assert failures([seen]) == []
    assert server.connections == 1
    assert server.mails == []
    server.close()
    (line,) = failures(look(mail_ends([])))
    assert "mail server 127.0.0.1 does not answer" in line
    monkeypatch.delenv("AIRFLOW_CONN_SMTP_DEFAULT")
    (line,) = failures(look(mail_ends([])))
    assert "smtp_default" in line
    unverified = {**connection, "host": "mail.example.com", "extra": {"ssl_context": "none"}}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(unverified))
    (line,) = failures(look(mail_ends([])))
    assert "would not be verified" in line


def test_a_mail_server_that_ends_the_connection_is_asked_once_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the hook's own five retries, which are a mail's."""
    server = SmtpServer()
    server.mode = Mode.CLOSING
    declare_mail(monkeypatch, tmp_path, server.port)
    (line,) = failures(look(mail_ends([])))
    server.close()
    assert "not looked at" not in line
    assert "mail server 127.0.0.1" in line
    assert "Fix: " in line
    assert server.connections == 1


class _ApiServer(BaseHTTPRequestHandler):
    """Kubernetes' API, as far as it reviews rules: those of the class."""

    rules: Sequence[dict[str, Any]] = ()

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = {"incomplete": False, "nonResourceRules": [], "resourceRules": list(self.rules)}
        body = json.dumps({**sent, "kind": "SelfSubjectRulesReview", "status": status}).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def rule(group: str, resource: str, verbs: Sequence[str]) -> dict[str, Any]:
    kind, _, name = resource.partition(":")
    found = {"apiGroups": [group], "resources": [kind], "verbs": list(verbs)}
    return found | ({"resourceNames": [name]} if name else {})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The path of its kubeconfig."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ApiServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    named = {"name": "test"}
    document = {
        "current-context": "test",
        "clusters": [named | {"cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [named | {"user": {"token": TOKEN}}],
        "contexts": [named | {"context": {"cluster": "test", "user": "test"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    yield str(path)
    server.shutdown()
    server.server_close()


def test_kubernetes_reviews_the_rights_of_the_login(
    services: Services, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = replace(
        services.stack.platform("airflow"),
        supervisor=None,
        kubernetes=Kubernetes("sluice", "image", kubeconfig=cluster),
        strimzi=Strimzi("kafka", "production", cluster),
    )
    usual = [rule(*place, verbs) for place, verbs in granted("airflow").items()]
    monkeypatch.setattr(_ApiServer, "rules", usual)
    seen = row_of(platform, "kubernetes")
    assert failures([seen]) == []
    assert not seen.rights.excess
    assert (seen.address, seen.login) == (yaml_server(cluster), "kubeconfig")
    fewer = [one for one in usual if one["resources"] != ["events"]]
    monkeypatch.setattr(_ApiServer, "rules", [*fewer, rule("", "secrets", ["list"])])
    seen = row_of(platform, "kubernetes")
    assert seen.rights.missing == ("list events",)
    assert seen.rights.excess == ("list secrets",)
    assert "create kafkatopics" in row_of(platform, "strimzi").rights.missing
    monkeypatch.setattr(_ApiServer, "rules", [rule("*", "*", ["*"])])
    seen = row_of(platform, "kubernetes")
    assert not seen.rights.missing
    assert seen.rights.excess == ("* *",)


def yaml_server(path: str) -> str:
    return str(yaml.safe_load(Path(path).read_text())["clusters"][0]["cluster"]["server"])
