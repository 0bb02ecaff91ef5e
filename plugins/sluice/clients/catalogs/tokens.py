"""OAuth2 tokens of a REST catalog, by client credentials: renewed before they expire."""

from __future__ import annotations

import logging
import math
from threading import RLock
from time import monotonic
from typing import Any

from pyiceberg.catalog.rest.auth import LegacyOAuth2AuthManager
from pyiceberg.exceptions import RESTError
from requests import RequestException, Response, Session

log = logging.getLogger(__name__)

# The part of a token's life after which the next one is asked for, as Iceberg's Java client does, and how
# long before the end at most.
RENEWED_AFTER, MOST_BEFORE_SECONDS = 0.9, 300.0
# Until the next attempt, while the old token still counts.
RETRY_SECONDS = 5.0


class RenewedToken(LegacyOAuth2AuthManager):
    """PyIceberg's legacy one keeps a token until the catalog refuses it; its OAuth2AuthManager renews, but
    has no deadline, needs expires_in, drops the server's words and a token that still counts."""

    def __init__(
        self, session: Session, url: str, credential: str, token: str | None, options: dict[str, str]
    ) -> None:
        """Asks for the first token. Raises PyIceberg's OAuthError and other errors, and requests'."""
        self._guard = RLock()
        self._seconds = self._renew_at = self._expires_at = math.inf
        session.hooks["response"].append(self._read_life)
        super().__init__(session, url, credential, token, options)

    def _read_life(self, response: Response, *_: Any, **__: Any) -> None:
        # PyIceberg reads the token alone. One without it is renewed when the catalog refuses it.
        said = response.json().get("expires_in") if response.status_code == 200 else None
        self._seconds = float(said) if said is not None else math.inf

    def _refresh_token(self) -> None:
        with self._guard:
            began = monotonic()
            super()._refresh_token()
            early = min(self._seconds * (1 - RENEWED_AFTER), MOST_BEFORE_SECONDS)
            self._expires_at = began + self._seconds
            self._renew_at = self._expires_at - early if math.isfinite(self._seconds) else math.inf

    def auth_header(self) -> str:
        with self._guard:
            if monotonic() >= self._renew_at:
                self._renew()
            return super().auth_header()

    def _renew(self) -> None:
        try:
            self._refresh_token()
        except (RESTError, RequestException) as error:
            if monotonic() >= self._expires_at:
                raise
            # It still counts: the server of tokens may be back before it expires.
            self._renew_at = monotonic() + RETRY_SECONDS
            log.warning("catalog token not renewed, %.0f s left: %s", self._expires_at - monotonic(), error)
