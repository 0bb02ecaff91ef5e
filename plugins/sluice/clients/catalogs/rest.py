"""A REST catalog by PyIceberg, with a deadline for each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import RestCatalog
from requests import Session
from requests.adapters import HTTPAdapter

from sluice.config.platform_sections.catalog import ANSWER_SECONDS
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

CONNECT_SECONDS = 5


class _Deadline(HTTPAdapter):
    """requests waits without end for a server that stands still."""

    def send(self, *arguments: Any, **options: Any) -> Any:
        return super().send(*arguments, **options | {"timeout": (CONNECT_SECONDS, ANSWER_SECONDS)})


class BoundedCatalog(RestCatalog):
    """Made of PyIceberg's properties, which asks for the server's configuration, and for a token."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(CATALOG, **properties)
        if urlsplit(properties["uri"]).scheme == "https" and urlsplit(self.uri).scheme != "https":
            raise Refused(
                f"the catalog overrides its address with {self.uri}, to which the login would be sent in "
                "plain text. Fix: remove uri from the catalog's configuration",
                ErrorCode.CATALOG_PERMISSION,
            )

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
        # The first that uses a session, for its token.
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Deadline())
        return super()._create_legacy_oauth2_auth_manager(session)
