"""A REST catalog by PyIceberg, with a deadline for each answer, and tokens that are renewed in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitStateUnknownException, ServerError, ServiceUnavailableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from requests import RequestException, Session
from requests.adapters import HTTPAdapter

from sluice.clients.catalogs.tokens import RenewedToken
from sluice.config.platform_sections.catalog import ANSWER_SECONDS, CONNECT_SECONDS
from sluice.config.platform_sections.lake import CATALOG


class Deadline(HTTPAdapter):
    """requests waits without end for a server that stands still."""

    def send(self, *arguments: Any, **options: Any) -> Any:
        return super().send(*arguments, **options | {"timeout": (CONNECT_SECONDS, ANSWER_SECONDS)})


def bounded(session: Session) -> Session:
    """The session with a deadline for each answer."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, Deadline())
    return session


class BoundedCatalog(RestCatalog):
    """Made of PyIceberg's properties, which asks for the server's configuration, and for a token."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(CATALOG, **properties)

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
        # The first that uses a session, for its token.
        bounded(session)
        if not (credential := self.properties.get("credential")):
            return super()._create_legacy_oauth2_auth_manager(session)
        # In another session: PyIceberg would ask for a token with the one that expires.
        asking = bounded(Session())
        asking.verify, asking.cert = session.verify, session.cert
        return RenewedToken(asking, self.auth_url, credential, None, self._extract_optional_oauth_params())

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As RestCatalog's. Raises CommitStateUnknownException whenever nothing tells whether it is
        committed."""
        try:
            return super().commit_table(table, requirements, updates)
        except (ServerError, ServiceUnavailableError) as error:
            # A gateway says so of a server that has got the request, too.
            raise CommitStateUnknownException(str(error)) from error
        except RequestException as error:
            raise CommitStateUnknownException(f"no answer: {error}") from error
        except ValidationError as error:
            raise CommitStateUnknownException(f"no answer of a commit: {error.errors()[0]['msg']}") from error
