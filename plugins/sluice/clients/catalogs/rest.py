"""A REST catalog by PyIceberg, with a deadline for each answer, which comes from the catalog itself."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog.rest import SNAPSHOT_LOADING_MODE, RestCatalog
from requests import JSONDecodeError, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

from sluice.clients.catalogs.errors import NotFromCatalog
from sluice.config.platform_sections.catalog import ANSWER_SECONDS
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.messages import quoted

CONNECT_SECONDS = 5
NOT_FOUND = 404
# A load balancer forgets a connection that is idle for some minutes, and then resets it.
KEEPALIVE = [
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
]
# The specification's NoSuchTableException and NoSuchNamespaceException, and as other catalogs name the same:
# Lakekeeper NoSuchTabularError, AWS EntityNotFoundException.
_MISSING = re.compile(
    "NoSuch(Table|Namespace|Tabular)|(Table|Namespace|Tabular)NotFound|EntityNotFoundException"
)


class _Strict(HTTPAdapter):
    """requests waits without end for a server that stands still, and sends a redirected commit on as a GET,
    whose answer looks like that of a commit. PyIceberg takes each 404 for a missing table: also that of a
    proxy while the catalog behind it is away."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> Any:
        return super().init_poolmanager(*arguments, **options, socket_options=KEEPALIVE)

    def send(self, *arguments: Any, **options: Any) -> Response:
        answer = super().send(*arguments, **options | {"timeout": (CONNECT_SECONDS, ANSWER_SECONDS)})
        if answer.is_redirect:
            raise NotFromCatalog(
                f"{_asked(answer)} to {_address(answer.headers['location'])}, and redirects are not "
                "followed. Fix: write the address of the catalog itself as uri"
            )
        # The answer to HEAD has no body; Sluice asks nothing by it.
        if answer.status_code == NOT_FOUND and answer.request.method != "HEAD":
            _check_missing(answer)
        return answer


def _check_missing(answer: Response) -> None:
    """Raise NotFromCatalog unless Iceberg's error in it says that a table or a namespace is missing."""
    try:
        kind = str(answer.json()["error"]["type"])
    except (JSONDecodeError, KeyError, TypeError):
        kind = ""
    if not _MISSING.search(kind):
        said = quoted(f"{kind} {answer.text}" if kind else " ".join(answer.text.split()))
        raise NotFromCatalog(
            f"{_asked(answer)}, which is no answer of Iceberg's about a table that is missing: {said}. Fix: "
            "correct uri and prefix, or wait until the proxy before the catalog reaches it"
        )


def _asked(answer: Response) -> str:
    return f"{answer.request.method} {_address(answer.url)}: {answer.status_code}"


def _address(url: str) -> str:
    return url.partition("?")[0]


class BoundedCatalog(RestCatalog):
    """Made of PyIceberg's properties, which asks for the server's configuration, and for a token."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(CATALOG, **properties)
        # A server may set another one, by which a table has the heads of its refs alone.
        self.properties[SNAPSHOT_LOADING_MODE] = "all"

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
        # The first that uses a session, for its token.
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Strict())
        return super()._create_legacy_oauth2_auth_manager(session)
