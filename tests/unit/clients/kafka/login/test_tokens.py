"""Tokens: fetched once for all connections, renewed in time, and refused in one line."""

from __future__ import annotations

import base64
import json
import logging
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.clients import backoff, oauth
from sluice.clients.kafka.errors import LoginRefused, Remark
from sluice.clients.kafka.login.tokens import _FIXES, Token, Tokens, clock_remark
from sluice.clients.oauth import TokenRequest
from sluice.clients.s3.login import credentials
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Unreachable
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
    monkeypatch.setattr(backoff, "now", lambda: now[0])
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


def test_an_endpoint_that_is_back_is_asked_when_the_token_ends(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    results: list[Token | Exception] = [Token("one", at, at + 600), *[Unreachable("away")] * 1_000]
    made = of_endpoint(monkeypatch, results)
    while clock[0] < at + 600:
        assert made.current().value == "one"
        clock[0] += 0.5
    assert 10 <= 1_000 - len(results) <= 30, "ever later"
    results[:] = [Token("two", at + 600, at + 610)]
    assert made.current().value == "two", "not the failure of half a minute ago"


def test_a_refusal_is_remembered_until_a_token_is_given(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    made = of_endpoint(
        monkeypatch, [Token("one", at, at + 10), LoginRefused("no"), Token("two", at + 9, at + 19)]
    )
    made.current()
    assert not made.remark().text
    clock[0] = at + 8
    assert made.current().value == "one"
    assert made.remark() == Remark("no", is_final=True)
    clock[0] = at + 9
    assert made.current().value == "two"
    assert not made.remark().text


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], hours: int
) -> None:
    at = clock[0]
    made = of_endpoint(monkeypatch, [Token("one", at, at + 10)])
    made.current()
    monkeypatch.setattr(time, "time", lambda: at + hours * 3600)
    assert made.current().value == "one"
    assert made.current().span()[1] == at + hours * 3600 + 10, "as librdkafka compares it"


@pytest.mark.parametrize("failure", [LoginRefused("no"), Unreachable("away")], ids=["refused", "away"])
def test_a_source_that_fails_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], failure: ClientError
) -> None:
    results: list[Token | Exception] = [failure] * 1_000
    made = of_endpoint(monkeypatch, results)
    for _ in range(600):
        with raising(type(failure), str(failure)):
            made.current()
        clock[0] += 0.5
    asked = 1_000 - len(results)
    assert 300 / 30 <= asked <= 300 / 15 + 6, "once within half a minute, at last"
    clock[0] += 30
    results[:] = [Token("one", clock[0], clock[0] + 10)]
    assert made.current().value == "one"
    clock[0] += 11
    results[:] = [failure, Token("two", clock[0] + 1, clock[0] + 11)]
    with raising(type(failure)):
        made.current()
    clock[0] += 1
    assert made.current().value == "two", "the next failure is the first one again"


def test_tokens_of_seconds_are_asked_for_twice_in_their_time(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    results: list[Token | Exception] = []
    made = of_endpoint(monkeypatch, results)
    asked = 0
    for _ in range(1_000):
        at = clock[0]
        results[:] = [Token("one", at, at + 5)]
        made.current()
        asked += not results
        clock[0] += 0.01
    assert asked == 4


def test_while_one_asks_the_others_have_the_token_that_there_is(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    at = clock[0]
    made = of_endpoint(monkeypatch, [Token("one", at, at + 10)])
    made.current()
    clock[0] += 6
    with made._asking:
        assert made.current().value == "one"


def test_users_of_one_login_share_its_tokens() -> None:
    first = TokenRequest(URL, "id", "secret", "", "", "", _FIXES)
    assert oauth.shared(first) is oauth.shared(replace(first))
    assert oauth.shared(first) is not oauth.shared(replace(first, client_id="other"))


@pytest.mark.parametrize(
    ("status", "document", "kind", "said"),
    [
        (401, {"error": "invalid_client", "error_description": "no"}, LoginRefused, "'invalid_client: no'"),
        (400, {"error": "invalid_scope"}, LoginRefused, "answered 400: 'invalid_scope'"),
        (403, "<html>", LoginRefused, "answered 403: no error is named"),
        (400, "<html>", Unreachable, "answered 400"),
        (400, {"error": "temporarily_unavailable"}, Unreachable, "answered 400: 'temporarily_unavailable'"),
        (401, {"error": "server_error"}, LoginRefused, "answered 401: 'server_error'"),
        (404, "<html>", Unreachable, "answered 404. Fix: start it, or correct sasl_oauthbearer_token_end"),
        (200, {"access_token": ""}, Unreachable, "no document with a token in visible ASCII (access_token)"),
        (200, [], Unreachable, "no document with a token in visible ASCII (access_token)"),
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


CANARY = "canary-of-a-token"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, f"access_token={CANARY}&token_type=bearer"),
        (200, f'{{"token": "{CANARY}"}}'),
        (200, f'{{"access_token": ["{CANARY}"]}}'),
        (200, f'{{"access_token": "{CANARY}\\n", "error": "{CANARY}"}}'),
        (200, f'{{"access_token": "{CANARY}'),
        (201, f'{{"access_token": "{CANARY}"}}'),
        (400, f'{{"refresh_token": "{CANARY}", "error": {{"{CANARY}": 1}}}}'),
        (401, f'{{"access_token": "{CANARY}", "error": "{CANARY}"}}'),
        (403, CANARY),
        (500, CANARY),
        (401, '{"error": "invalid_client", "error_description": "secret the-secret of sluice is wrong"}'),
    ],
)
def test_nothing_of_an_answer_is_quoted_but_its_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int, text: str
) -> None:
    monkeypatch.setattr(httpx.Client, "post", lambda *_, **__: httpx.Response(status, text=text))
    login = Kafka(
        "b:1",
        "SASL_SSL",
        "OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=URL,
        sasl_oauthbearer_client_secret="the-secret",
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(ClientError) as caught:
        Tokens(login).current()
    said = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert CANARY not in said
    assert "the-secret of" not in said


def test_nothing_of_a_token_s_file_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "token"
    body = base64.urlsafe_b64encode(f"{CANARY}".encode()).decode()
    for content in (
        CANARY,
        f"a.{CANARY}.c",
        f"a.{body}.c",
        f"\ufeff{CANARY}",
        f"{CANARY} {CANARY}",
        f"{CANARY}\r\n",
    ):
        path.write_text(content)
        with pytest.raises(LoginRefused) as caught:
            of_file(path).current()
        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(307, headers={"Location": f"http://user:x@other.test:81/a?token={CANARY}"})

    monkeypatch.setattr(httpx.Client, "_init_transport", lambda *_, **__: httpx.MockTransport(handle))
    login = Kafka("b:1", "SASL_SSL", "OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=URL)
    with raising(
        Unreachable, "answered 307: a redirect to http://other.test:81, which is never followed"
    ) as caught:
        Tokens(login).current()
    assert asked == [URL]
    assert CANARY not in str(caught.value)


def test_an_endpoint_says_when_it_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    made = answered(monkeypatch, httpx.Response(429, headers={"Retry-After": "90"}))
    with raising(Unreachable, "answered 429"):
        made.current()
    monkeypatch.setattr(
        httpx.Client, "post", lambda *_, **__: httpx.Response(200, json={"access_token": "t"})
    )
    clock[0] += 89
    with raising(Unreachable, "answered 429"):
        made.current()
    clock[0] += 2
    assert made.current().value == "t"


@pytest.mark.parametrize(
    ("lifetime", "seconds"),
    [(60, 60), ("60", 60), (None, 300), (-5, 1), ("nan", 300), ("inf", oauth.MOST_LIFETIME), ([], 300)],
)
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
        (f"{jwt(exp=2e9)}\r\n", "it has blanks or a line break around it"),
        (f"\ufeff{jwt(exp=2e9)}", "it begins with a byte order mark"),
        ("", "it is empty"),
        (jwt(exp=float("inf")), "it does not say until when it is valid (exp)"),
        ("a.b!.c", "it is no JWT: its second part is no JSON in base64"),
        (jwt(iat=1), "it does not say until when it is valid (exp)"),
        (
            jwt(exp=1_800_000_000 - 3_700),
            "ended 1 h 1 min ago, by this machine's clock. Fix: let what writes it renew it",
        ),
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
