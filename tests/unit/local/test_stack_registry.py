"""A stack with a schema registry, and one without: only where it is needed are its program and its ports."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from local.base import UsageError
from local.runtime import roles
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.secrets import REGISTRY_ROLES
from local.services import registry
from local.stack import health, optional_services
from local.stack.stack import Stack
from sluice.config.platform import ROLES
from tests.support.raising import raising

PORTS = {registry.NAME, registry.HEALTH}
FOLDER = Path("/cache/registry-0")


@pytest.fixture
def with_registry(context: Context, stack: Callable[[str], Stack]) -> Stack:
    made = stack("public")
    made.context = replace(context, registry=FOLDER)
    return made


@pytest.mark.parametrize(
    ("declared", "setting", "needed"),
    [
        ([], "needed", False),
        ([False, False], "needed", False),
        ([False, True], "needed", True),
        ([], "always", True),
    ],
)
def test_it_is_needed_by_a_stream_or_by_a_setting(declared: list[bool], setting: str, needed: bool) -> None:
    assert registry.needs_registry(iter(declared), setting) is needed


def test_the_setting_is_kept_and_checked() -> None:
    assert registry.chosen(None, None) == "needed"
    assert registry.chosen("", "always") == "always"
    assert registry.chosen("needed", "always") == "needed"
    with raising(UsageError, "SLUICE_REGISTRY", "'on'", "Fix: "):
        registry.chosen("on", None)


class Fetching:
    """In place of the set-up of the registry."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        monkeypatch.setattr(optional_services, "ensure_registry", self)
        monkeypatch.delenv(registry.VARIABLE, raising=False)

    def __call__(self) -> None:
        self.times += 1


def test_it_is_fetched_only_for_a_stack_that_needs_it(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, fetching = StackDir(context.home.root), Fetching(monkeypatch)
    assert not optional_services.has_registry(home)
    optional_services.decide_registry(home, None, [False])
    assert (optional_services.has_registry(home), fetching.times) == (False, 0)
    optional_services.decide_registry(home, None, [True])
    assert (optional_services.has_registry(home), fetching.times) == (True, 1)
    monkeypatch.setenv(registry.VARIABLE, "always")
    optional_services.decide_registry(home, None, [])
    monkeypatch.delenv(registry.VARIABLE)
    optional_services.decide_registry(home, None, [])
    assert (optional_services.has_registry(home), fetching.times) == (True, 3), "the setting is kept"
    optional_services.decide_registry(home, "/external", [True])
    assert (optional_services.has_registry(home), fetching.times) == (False, 3), "Kafka is not ours"


def test_without_it_there_is_no_program_and_no_port_is_checked(
    stack: Callable[[str], Stack], with_registry: Stack
) -> None:
    without = stack("public")
    assert not PORTS & set(without.served())
    assert registry.NAME not in [program.name for program in without.programs()]
    assert set(with_registry.served()) >= PORTS
    assert registry.NAME in [program.name for program in with_registry.programs()]
    with raising(UsageError, "SLUICE_REGISTRY=always"):
        registry.program(without.context)


def test_a_running_stack_that_gets_one_checks_its_ports(
    with_registry: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(
        optional_services.ports, "check", lambda ports, used, seconds: checked.extend(sorted(used))
    )
    optional_services.check_ports(with_registry.context, lambda name: True)
    assert checked == []
    optional_services.check_ports(with_registry.context, lambda name: False)
    assert set(checked) == PORTS


def test_roles_that_may_ask_it_are_told_where_it_is(
    stack: Callable[[str], Stack], with_registry: Stack
) -> None:
    assert not [one for one in stack("public").platform_documents().values() if "registry" in one]
    documents = with_registry.platform_documents()
    assert {role for role in ROLES if "registry" in documents[role]} == set(REGISTRY_ROLES)
    address = f"http://127.0.0.1:{with_registry.ports[registry.NAME]}/apis/ccompat/v7"
    sections = [documents[role]["registry"] for role in REGISTRY_ROLES]
    assert {section["url"] for section in sections} == {address}
    assert len({section["password"] for section in sections}) == len(REGISTRY_ROLES)
    assert not [section for section in sections if "plain_text" in section], "it is on this machine"
    # Where schemas are kept by name, those of other data are others.
    (name,) = {section["name"] for section in sections}
    other = dict(with_registry.secrets) | {"install": "another"}
    found = roles.documents(with_registry.home, with_registry.context.network, other, registry=True)
    assert found["consumer"]["registry"]["name"] != name


def test_an_external_kafka_s_own_registry_is_as_its_file_declares_it(
    stack: Callable[[str], Stack], tmp_path: Path
) -> None:
    embedded = stack("public").platform_documents()
    for role in ROLES:
        (tmp_path / f"{role}.toml").write_text('[kafka]\n[s3]\n[lake]\n[registry]\nurl = "https://schemas"\n')
    found = roles.external(embedded, tmp_path)
    assert found["consumer"]["registry"] == {"url": "https://schemas"}


def test_passwords_are_read_as_they_were_written(context: Context) -> None:
    odd = {name: f"{name}\\" for name in context.secrets if "registry" in name}
    text = registry.properties(replace(context, secrets={**context.secrets, **odd}))
    assert "quarkus.security.users.embedded.users.sluice-consumer=registry_consumer\\\\\n" in text


def test_status_shows_whether_it_is_ready(with_registry: Stack) -> None:
    def starting(name: str, context: Context) -> str:
        raise httpx.ConnectError("not yet")

    running = {registry.NAME: {"statename": "RUNNING"}}
    [row] = health.rows(with_registry.context, running, starting)
    assert (row.is_ok, row.address) == (False, "http://127.0.0.1:18084")
    [row] = health.rows(with_registry.context, running, lambda name, context: "ready")
    assert row.is_ok is True


def test_its_configuration_is_where_it_looks_and_for_its_user_alone(with_registry: Stack) -> None:
    optional_services.prepare(with_registry.context)
    program = registry.program(with_registry.context)
    file = program.directory / "config" / "application.properties"
    assert file.stat().st_mode & 0o777 == 0o600
    settings = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert settings["quarkus.http.host"] == settings["quarkus.management.host"] == "127.0.0.1"
    argv = " ".join(program.command)
    assert not [name for name, value in with_registry.secrets.items() if value in argv]


def test_the_platform_files_are_toml(with_registry: Stack) -> None:
    for path, text in roles.files(Path("/p"), with_registry.platform_documents()).items():
        document = tomllib.loads(text)
        assert ("registry" in document) is (path.stem in REGISTRY_ROLES)
