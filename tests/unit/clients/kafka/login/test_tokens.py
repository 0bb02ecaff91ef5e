"""Tokens: fetched once for all connections, renewed in time, and refused in one line."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.clients.kafka.errors import LoginRefused
from sluice.clients.kafka.login.tokens import Token, Tokens, clock_remark
from sluice.clients.s3.login import credentials
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from tests.support.raising import raising

URL = "https://issuer.test/token"


def jwt(**claims: Any) -> str:
    texts = (json.dumps(part).encode() for part in ({"alg": "RS256"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(text).decode().rstrip("=") for text in texts), "s"])


def of_file(path: Path) -> Tokens:
    return Tokens(
        Kafka("b:1", "SASL_SSL", "OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=f"file://{path}")
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def of_endpoint(monkeypatch: pytest.MonkeyPatch, results: list[Token | Exception]) -> Tokens:
    made = Tokens(Kafka("b:1", "SASL_SSL", "OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=URL))

    def fetch() -> Token:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(made, "_fetch", fetch)
    return made


def answered(monkeypatch: pytest.MonkeyPatch, response: httpx.Response) -> Tokens:
    """Those of an endpoint with this answer."""
    monkeypatch.setattr(httpx.Client, "post", lambda *_, **__: response)
    return Tokens(Kafka("b:1", "SASL_SSL", "OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=URL))


def test_one_token_is_for_many_connections_until_half_of_its_time(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    made = of_endpoint(monkeypatch, [Token("one", at, at + 10), Token("two", at + 6, at + 16)])
    assert made.current().value == "one"
    clock[0] = at + 4
    assert made.current().value == "one"
    clock[0] = at + 6
    assert made.current().value == "two"


def test_a_token_is_given_while_it_is_valid_and_the_endpoint_is_away(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    made = of_endpoint(monkeypatch, [Token("one", at, at + 10), Unreachable("away"), Unreachable("away")])
    made.current()
    clock[0] = at + 9
    assert made.current().value == "one"
    clock[0] = at + 11
    with raising(Unreachable, "away"):
        made.current()


def test_a_refusal_is_remembered_until_a_token_is_given(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    made = of_endpoint(
        monkeypatch, [Token("one", at, at + 10), LoginRefused("no"), Token("two", at + 9, at + 19)]
    )
    made.current()
    assert made.remark() == ""
    clock[0] = at + 8
    assert made.current().value == "one"
    assert made.remark() == "no"
    clock[0] = at + 9
    assert made.current().value == "two"
    assert made.remark() == ""


def test_a_clock_that_was_set_back_gets_another_token(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    made = of_endpoint(monkeypatch, [Token("one", at, at + 10), Token("two", at - 3600, at - 3590)])
    made.current()
    clock[0] = at - 3600
    assert made.current().value == "two"


@pytest.mark.parametrize(
    ("status", "document", "kind", "said"),
    [
        (401, {"error": "invalid_client", "error_description": "no"}, LoginRefused, "'invalid_client: no'"),
        (400, {"error": "invalid_scope"}, LoginRefused, "answered 400: 'invalid_scope'"),
        (404, "<html>", LoginRefused, "answered 404: '<html>'"),
        (200, {"access_token": ""}, LoginRefused, "answered 200: no token that is a text"),
        (503, {}, Unreachable, "answered 503"),
        (429, {}, Unreachable, "answered 429"),
    ],
)
def test_an_answer_without_a_token(
    monkeypatch: pytest.MonkeyPatch, status: int, document: object, kind: type[Exception], said: str
) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    with raising(kind, f"token endpoint {URL}", said) as caught:
        answered(monkeypatch, httpx.Response(status, text=text)).current()
    code = ErrorCode.KAFKA_LOGIN if kind is LoginRefused else ErrorCode.KAFKA_UNREACHABLE
    assert getattr(caught.value, "code", None) is code


@pytest.mark.parametrize(("lifetime", "seconds"), [(60, 60), ("60", 60), (None, 300), (-5, 1)])
def test_the_lifetime_is_that_of_the_answer(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], lifetime: object, seconds: float
) -> None:
    document = {"access_token": "opaque", "expires_in": lifetime}
    found = answered(monkeypatch, httpx.Response(200, json=document)).current()
    assert (found.value, found.began, found.ends) == ("opaque", clock[0], clock[0] + seconds)
    assert "opaque" not in repr(found)


def test_a_token_of_a_file_is_read_again(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "token"
    first = jwt(iat=clock[0], exp=clock[0] + 10)
    path.write_text(first)
    made = of_file(path)
    assert made.current().value == first
    second = jwt(iat=clock[0] + 6, exp=clock[0] + 16)
    path.write_text(second)
    clock[0] += 6
    assert made.current().value == second


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        ("opaque", "it is no JWT"),
        (f"{jwt(exp=2e9)}\n", "it has blanks or a line break around it"),
        ("a.b!.c", "it is no JWT: its second part is no JSON in base64"),
        (jwt(iat=1), "it does not say until when it is valid (exp)"),
        (jwt(exp=1_800_000_000 - 3_700), "ended 1 h 1 min ago. Fix: let what writes it renew it"),
    ],
)
def test_a_file_without_a_token_that_is_valid(
    tmp_path: Path, clock: list[float], content: str | None, said: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with raising(LoginRefused, f"token of {path}", said):
        of_file(path).current()


@pytest.mark.parametrize(
    ("issued", "said"),
    [
        (1_000.0, ""),
        (1_059, ""),
        (4_600, "this machine's clock is 1 h behind that of the token's issuer. Fix: set the clocks"),
        (-2_600, "this machine's clock is 1 h ahead of that of the token's issuer. Fix: set the clocks"),
    ],
)
def test_a_clock_that_is_off_is_named(issued: float, said: str) -> None:
    assert clock_remark(jwt(iat=issued), 1_000.0).startswith(said)
    assert bool(clock_remark(jwt(iat=issued), 1_000.0)) == bool(said)
    assert clock_remark("opaque", 1_000.0) == ""


@pytest.mark.parametrize("role", ["", "arn:aws:iam::123456789012:role/sluice"])
def test_a_process_without_credentials_of_aws_is_told_so(
    role: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    credentials.login.cache_clear()
    kafka = Kafka("b:1", "SASL_SSL", "AWS_MSK_IAM", aws_region="eu-central-1", aws_role_arn=role)
    with raising(LoginRefused, "AWS gives no credentials for Kafka", "Fix: give the process a role"):
        Tokens(kafka).current()


def test_credentials_that_cannot_be_asked_for_now_are_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> None:
        raise Unreachable("STS does not answer", ErrorCode.S3_UNREACHABLE)

    monkeypatch.setattr(credentials.Login, "_renew", away)
    credentials.login.cache_clear()
    kafka = Kafka("b:1", "SASL_SSL", "AWS_MSK_IAM", aws_region="eu-central-1")
    with raising(Unreachable, "STS does not answer") as caught:
        Tokens(kafka).current()
    assert caught.value.code is ErrorCode.KAFKA_UNREACHABLE
