"""OAuth2 tokens of a REST catalog, by client credentials: renewed before they expire."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import cache
from threading import RLock
from time import sleep
from typing import Any

from pyiceberg.catalog.rest.auth import LegacyOAuth2AuthManager
from pyiceberg.exceptions import OAuthError, RESTError
from requests import RequestException, Response, Session

from sluice.clients import backoff, oauth
from sluice.clients.backoff import Backoff, seconds_asked
from sluice.clients.catalogs.errors import NotFromCatalog
from sluice.config.reading.urls import VISIBLE, host_of

log = logging.getLogger(__name__)

# The part of a token's life after which the next one is asked for, as Iceberg's Java client does, and how
# long before the end at most.
RENEWED_AFTER, MOST_BEFORE_SECONDS = 0.9, 300.0
# What another program waits for within its request: a pause so short, with a token that ends as soon.
WAITED_SECONDS = 5.0
OK = 200


@cache
def _pauses(url: str, credential: str, options: str) -> Backoff:
    """Those of one login, for all catalogs of this process."""
    return Backoff()


def _without_token(answer: Response, found: Mapping[str, Any]) -> RESTError | RequestException:
    """The error for an answer without a token, of which it has the error alone."""
    said = oauth.error_of(found)
    told = f"token endpoint answered {answer.status_code}: {said or 'no error is named'}"
    if oauth.is_refusal(answer.status_code, found):
        return OAuthError(told)
    if answer.is_redirect:
        where = host_of(answer.headers.get("Location", ""))
        told = f"token endpoint answered {answer.status_code}: a redirect to {where}, which is not followed"
    elif answer.status_code == OK:
        told = "token endpoint answered 200: no document with a token in visible ASCII (access_token)"
    return NotFromCatalog(f"{told}. Fix: start it, or correct oauth2_server_uri", response=answer)


class RenewedToken(LegacyOAuth2AuthManager):
    """PyIceberg's legacy one keeps a token until the catalog refuses it; its OAuth2AuthManager renews, but
    has no deadline, needs expires_in, drops the server's words and a token that still counts."""

    def __init__(
        self, session: Session, url: str, credential: str, token: str | None, options: dict[str, str]
    ) -> None:
        """Asks for the first token. Raises PyIceberg's OAuthError and other errors, and requests'."""
        self._guard = RLock()
        self._seconds = self._renew_at = self._expires_at = math.inf
        self._backoff = _pauses(url, credential, str(options))
        super().__init__(session, url, credential, token, options)

    def _fetch_access_token(self, credential: str) -> str:
        """In PyIceberg's place, which follows redirects with the secret, and quotes what it cannot read."""
        self._backoff.check()
        client, colon, secret = credential.partition(":")
        login = {"client_id": client, "client_secret": secret} if colon else {"client_secret": credential}
        form = {"grant_type": "client_credentials", **login, **(self._optional_oauth_params or {})}
        try:
            answer = self._session.post(
                str(self._auth_url),
                data=form,
                headers={**self._session.headers, "Content-type": "application/x-www-form-urlencoded"},
                allow_redirects=False,
            )
            found = oauth.document_of(answer)
            value = found.get("access_token")
            if answer.status_code != OK or not isinstance(value, str) or not VISIBLE.fullmatch(value):
                raise _without_token(answer, found)
        except (RESTError, RequestException) as error:
            response = getattr(error, "response", None)
            asked = response.headers.get("Retry-After", "") if response is not None else ""
            self._backoff.failed(error, seconds_asked(asked), self._left())
            raise
        self._backoff.succeeded()
        said = found.get("expires_in")
        # One without a life is renewed when the catalog refuses it.
        self._seconds = oauth.lifetime_of(said) if said is not None else math.inf
        return value

    def _refresh_token(self) -> None:
        with self._guard:
            began = backoff.now()
            super()._refresh_token()
            early = min(self._seconds * (1 - RENEWED_AFTER), MOST_BEFORE_SECONDS)
            self._expires_at = began + self._seconds
            self._renew_at = self._expires_at - early if math.isfinite(self._seconds) else math.inf

    def another(self) -> tuple[str, float]:
        """A token for a client that keeps it itself, and the seconds that it counts (math.inf: it does not
        say): a new one, or the one that there is if there is no other. Raises as the constructor.

        Iceberg's Java client asks again before the end of what it is given, and some times within seconds of
        a failure; after these it never does. So a pause that outlasts them is no failure while a token
        counts.
        """
        pause = self._backoff.left
        if pause <= WAITED_SECONDS and self._left() <= WAITED_SECONDS:
            sleep(pause)
        with self._guard:
            self._renew()
            return str(self._token), self._expires_at - backoff.now()

    def auth_header(self) -> str:
        now = backoff.now()
        # While a token counts, one request asks for the next one, and no other waits for it.
        if now >= self._renew_at and self._guard.acquire(blocking=now >= self._expires_at):
            try:
                if backoff.now() >= self._renew_at:
                    self._renew()
            finally:
                self._guard.release()
        return super().auth_header()

    def _renew(self) -> None:
        if self._left() and self._backoff.left:
            return
        try:
            self._refresh_token()
        except (RESTError, RequestException) as error:
            if not (left := self._left()):
                raise
            # It still counts: the server of tokens may be back before it expires.
            log.warning("catalog token not renewed, %.0f s left: %s", left, error)

    def _left(self) -> float:
        """Seconds for which the token still counts; 0 before there is one, and for one without a life."""
        return max(0.0, self._expires_at - backoff.now()) if math.isfinite(self._expires_at) else 0.0
