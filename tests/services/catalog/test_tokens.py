"""A token is renewed before it expires, and counts until then if that does not succeed."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from pyiceberg.exceptions import OAuthError

from sluice.clients import backoff, oauth
from sluice.clients.catalogs import tokens
from sluice.clients.catalogs.errors import LoginRefused, NotFromCatalog, asking
from sluice.clients.catalogs.pointers import opened
from sluice.clients.catalogs.tokens import RenewedToken
from sluice.clients.polling import wait_for
from sluice.config.platform_sections.catalog import ANSWER_SECONDS, REST, Catalog
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy
from tests.support.raising import raising
from tests.support.token_gate import TOKENS, TokenGate


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(backoff, "now", made)
    return made


@pytest.fixture
def gate() -> TokenGate:
    return TokenGate({"me": ("secret", "")}, seconds=100)


@pytest.fixture
def server(gate: TokenGate) -> Iterator[CatalogProxy]:
    with CatalogProxy("http://127.0.0.1:1", gate) as made:
        yield made


def token(server: CatalogProxy, credential: str = "me:secret") -> RenewedToken:
    return RenewedToken(requests.Session(), f"{server.url}{TOKENS}", credential, None, {"scope": "catalog"})


def test_it_is_renewed_in_the_last_tenth_of_its_life(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    found = token(server)
    first = found.auth_header()
    clock.now += 89
    assert found.auth_header() == first
    clock.now += 2
    second = found.auth_header()
    assert second != first
    clock.now += 89
    assert found.auth_header() == second
    assert len(gate.granted) == 2


def test_a_token_of_a_day_is_renewed_minutes_before_its_end(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    gate.seconds = 86_400
    found = token(server)
    clock.now += gate.seconds - tokens.MOST_BEFORE_SECONDS - 1
    found.auth_header()
    assert len(gate.granted) == 1
    clock.now += 2
    found.auth_header()
    assert len(gate.granted) == 2


def test_it_counts_while_the_server_of_tokens_is_down_and_no_longer(
    server: CatalogProxy, gate: TokenGate, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    found = token(server)
    first = found.auth_header()
    gate.is_down = True
    clock.now += 91
    server.requests()
    for _ in range(3):
        assert found.auth_header() == first
    assert len(server.requests()) == 1, "not at each request"
    assert "9 s left" in caplog.text
    clock.now += 5
    assert found.auth_header() == first
    assert len(server.requests()) == 1
    clock.now += 5
    for _ in range(3):
        with raising(NotFromCatalog, "token endpoint answered 503: temporarily_unavailable: try later. Fix"):
            found.auth_header()
    assert len(server.requests()) == 1, "not at each request"
    gate.is_down = False
    clock.now += 30
    assert found.auth_header() != first


def test_a_server_of_tokens_that_is_back_is_asked_when_the_token_ends(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    gate.seconds = 1000
    found = token(server)
    first = found.auth_header()
    gate.is_down = True
    clock.now += 900.5
    server.requests()
    while clock.now < 2000:
        assert found.auth_header() == first
        clock.now += 0.5
    assert 5 <= len(server.requests()) <= 15, "ever later"
    gate.is_down = False
    assert found.auth_header() != first, "not the failure of half a minute ago"


def test_a_success_of_another_catalog_ends_the_pause_and_its_failure_together(
    server: CatalogProxy, gate: TokenGate, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, other = token(server), token(server)
    gate.is_down = True
    with raising(NotFromCatalog, "answered 503"):
        found._refresh_token()

    def now() -> float:
        # In the midst of the look of the one.
        other._backoff.succeeded()
        return clock.now

    monkeypatch.setattr(backoff, "now", now)
    with raising(NotFromCatalog, "answered 503"):
        found._refresh_token()
    gate.is_down = False
    found._refresh_token()


def test_catalogs_of_one_login_ask_ever_later_together(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    server.requests()
    for _ in range(600):
        with raising(OAuthError, "invalid_client"):
            token(server, "me:refused")
        clock.now += 0.1
    assert 3 <= len(server.requests()) <= 10
    assert token(server), "another login is asked for at once"


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (200, b'{"token": "canary"}', {}),
        (200, b'{"access_token": "canary\\n"}', {}),
        (200, b"access_token=canary", {}),
        (200, b'["canary"]', {}),
        (400, b"canary", {}),
        (500, b'{"canary": 1}', {}),
        (307, b"canary", {"Location": "http://other.test:81/canary?canary=1"}),
    ],
)
def test_nothing_of_an_answer_is_quoted_and_no_redirect_followed(
    server: CatalogProxy, clock: Clock, status: int, body: bytes, headers: dict[str, str]
) -> None:
    server.rule = lambda *_: Answer(status, body, {"Content-Type": "application/json", **headers})
    with raising(NotFromCatalog, f"token endpoint answered {status}: ") as caught:
        token(server, f"me:{status}{body!r}")
    assert "canary" not in "".join(traceback.format_exception(caught.value)).replace(repr(body), "")
    assert len(server.requests()) == 1
    if headers:
        assert "a redirect to http://other.test:81, which is not followed" in str(caught.value)


def test_who_asks_for_the_next_token_holds_up_no_other_request(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    found = token(server)
    first = found.auth_header()
    server.requests()
    clock.now += 91
    gate.hangs = 2.0
    with ThreadPoolExecutor(1) as asking:
        renewed = asking.submit(found.auth_header)
        assert wait_for(server.requests, 5, 0.01, bool)
        began = time.monotonic()
        assert found.auth_header() == first
        assert time.monotonic() - began < 1.0
        assert renewed.result() != first


def test_a_server_of_tokens_that_hangs_is_given_up_long_before_the_catalogs_own_deadline(
    server: CatalogProxy, gate: TokenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert oauth.ANSWER_SECONDS <= 10 < ANSWER_SECONDS
    monkeypatch.setattr(oauth, "ANSWER_SECONDS", 0.2)
    gate.hangs = 2.0
    declared = Catalog(
        REST, uri=server.url, credential="me:secret", oauth2_server_uri=f"{server.url}{TOKENS}"
    )
    began = time.monotonic()
    with raising(Unreachable, "Read timed out. (read timeout=0.2)"):
        opened(declared.pyiceberg())
    assert time.monotonic() - began < 1.5


def test_a_refused_login_has_the_words_of_the_server(server: CatalogProxy) -> None:
    with raising(OAuthError, "invalid_client", "another secret") as caught:
        token(server, "me:guessed")
    assert "guessed" not in str(caught.value)


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (-3600, "Signature has expired"),
        (3600, "The token is not yet valid (nbf)"),
    ],
)
def test_a_token_of_a_clock_an_hour_off_is_one_line_with_the_words_of_the_catalog(
    server: CatalogProxy, gate: TokenGate, clock: float, words: str
) -> None:
    """Also one that has expired: the catalog has no other words for it."""
    gate.clock = clock
    declared = Catalog(
        REST, uri=server.url, credential="me:secret", oauth2_server_uri=f"{server.url}{TOKENS}"
    )
    with raising(LoginRefused, words, "Fix: correct the login") as caught, asking("table raw.t"):
        opened(declared.pyiceberg())
    assert caught.value.code is ErrorCode.CATALOG_LOGIN
    assert "\n" not in str(caught.value)
    assert gate.refused[0] == words


def test_one_that_does_not_say_how_long_it_counts_is_kept(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    def says_nothing(asked: Asked, ask: Ask) -> Answer:
        return Answer(
            200, b'{"access_token": "t", "token_type": "bearer"}', {"Content-Type": "application/json"}
        )

    server.rule = says_nothing
    found = token(server)
    clock.now += 10**6
    assert found.auth_header() == "Bearer t"
    assert len(server.requests()) == 1


def test_the_old_token_is_not_sent_to_the_server_of_tokens(
    server: CatalogProxy, gate: TokenGate, clock: Clock
) -> None:
    """Two logins in one request are refused by some."""
    sent: list[str] = []

    def noted(asked: Asked, ask: Ask) -> Answer | None:
        sent.append(asked.headers.get("authorization", ""))
        return gate(asked, ask)

    server.rule = noted
    found = token(server)
    clock.now += 91
    found.auth_header()
    assert sent == ["", ""]
