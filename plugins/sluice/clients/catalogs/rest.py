"""A REST catalog by PyIceberg, with a deadline for each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import Session
from requests.adapters import HTTPAdapter

from sluice.config.platform_sections.catalog import ANSWER_SECONDS
from sluice.config.platform_sections.lake import CATALOG

CONNECT_SECONDS = 5


class _Deadline(HTTPAdapter):
    """requests waits without end for a server that stands still."""

    def send(self, *arguments: Any, **options: Any) -> Any:
        return super().send(*arguments, **options | {"timeout": (CONNECT_SECONDS, ANSWER_SECONDS)})


class BoundedCatalog(RestCatalog):
    """Made of PyIceberg's properties, which asks for the server's configuration, and for a token."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(CATALOG, **properties)

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
        # The first that uses a session, for its token.
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Deadline())
        return super()._create_legacy_oauth2_auth_manager(session)
