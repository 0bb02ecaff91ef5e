"""A REST catalog by PyIceberg: with a deadline for each answer, which comes from the catalog itself, with
tokens that are renewed in time, or with requests that are signed."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from ssl import SSLContext, create_default_context
from typing import Any
from urllib.parse import urljoin, urlsplit

from pydantic import ValidationError
from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.rest import SIGV4, SNAPSHOT_LOADING_MODE, RestCatalog
from pyiceberg.exceptions import CommitStateUnknownException, ServerError, ServiceUnavailableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from requests import ConnectionError as RequestsConnectionError
from requests import JSONDecodeError, PreparedRequest, RequestException, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import SSLError
from urllib3.connection import HTTPConnection

from sluice.clients import oauth
from sluice.clients.catalogs import signing
from sluice.clients.catalogs.errors import NotFromCatalog, denied
from sluice.clients.catalogs.tls_files import TlsFiles
from sluice.clients.catalogs.tokens import RenewedToken
from sluice.clients.proxies import proxy_of
from sluice.clients.tls.handshake import refusal
from sluice.clients.tls.words import is_ended
from sluice.config.platform_sections.catalog import ANSWER_SECONDS, CONNECT_SECONDS, IN_PLAIN_TEXT
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.reading.urls import host_of, is_plain
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.messages import quoted

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


class Deadline(HTTPAdapter):
    """requests waits without end for a server that stands still, and goes through a proxy to this machine.
    ``files``: of its encrypted connections; ``seconds``: for the next part of an answer."""

    def __init__(self, files: TlsFiles | None = None, seconds: float = ANSWER_SECONDS) -> None:
        self._tls, self._seconds = files, seconds
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> Any:
        # requests alone would trust certifi's CAs, and not those of the system.
        options["ssl_context"] = self._context()
        return super().init_poolmanager(*arguments, **options, socket_options=KEEPALIVE)

    def _context(self) -> SSLContext:
        return self._tls.context if self._tls is not None else create_default_context()

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        if self._tls is not None:
            self._tls.follow()
        proxy = proxy_of(str(request.url))
        options |= {
            "timeout": (CONNECT_SECONDS, self._seconds),
            "proxies": {"http": proxy, "https": proxy} if proxy else None,
        }
        try:
            return super().send(request, *arguments, **options)
        except RequestsConnectionError as error:
            # That of encryption among them.
            context = self._context()
            url = str(error.request.url) if error.request is not None else ""
            if url and is_ended(str(error)) and (said := refusal(url, context)):
                raise SSLError(said, request=error.request) from error
            raise


class _Strict(Deadline):
    """requests sends a redirected commit on as a GET, whose answer looks like that of a commit. PyIceberg
    takes each 404 for a missing table: also that of a proxy while the catalog behind it is away."""

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        answer = super().send(request, *arguments, **options)
        if answer.is_redirect:
            raise NotFromCatalog(
                f"{_asked(answer)} to {_redirect(answer)}, and redirects are not "
                "followed. Fix: write the address of the catalog itself as uri"
            )
        # The answer to HEAD has no body; Sluice asks nothing by it.
        if answer.status_code == NOT_FOUND and answer.request.method != "HEAD":
            _check_missing(answer)
        return answer


class _Signed(_Strict):
    """Signs each request, also one that is sent again, just before it is sent. PyIceberg's own adapter has no
    deadline, and sends a signature ten times."""

    def __init__(self, signer: Any, files: TlsFiles | None) -> None:
        """``signer``: PyIceberg's adapter, which is asked for signatures alone."""
        super().__init__(files)
        self._signer = signer

    def add_headers(self, request: PreparedRequest, **options: Any) -> None:
        self._signer.add_headers(request, **options)

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        answer = super().send(request, *arguments, **options)
        if said := signing.refusal(answer):
            raise denied(_asked(answer), said, signing.clock_remark(answer))
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
            "correct uri, warehouse and prefix, or wait until the proxy before the catalog reaches it"
        )


def _asked(answer: Response) -> str:
    return f"{answer.request.method} {_address(answer.url)}: {answer.status_code}"


def _redirect(answer: Response) -> str:
    return host_of(urljoin(answer.url, answer.headers["location"]))


def _address(url: str) -> str:
    return url.partition("?")[0]


def bounded(
    session: Session,
    adapter: type[Deadline] = Deadline,
    files: TlsFiles | None = None,
    seconds: float = ANSWER_SECONDS,
) -> Session:
    """The session with a deadline for each answer."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter(files, seconds))
    if files is not None and files.ca:
        # Else requests adds the system's CAs to the context.
        session.verify = files.ca
    return session


class BoundedCatalog(RestCatalog):
    """Made of PyIceberg's properties, which asks for the server's configuration, and for a token.

    Raises Refused if the server's configuration leads a login to an address without encryption."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._declared = properties
        self._files = TlsFiles.of(properties)
        signed: dict[str, Any] = signing.properties_of(properties)
        super().__init__(CATALOG, **{**properties, **signed})
        # A server may set another one, by which a table has the heads of its refs alone.
        self.properties[SNAPSHOT_LOADING_MODE] = "all"

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
        self._check_encrypted()
        # The first that uses a session, for its token.
        bounded(session, _Strict, self._files)
        if not (credential := self.properties.get("credential")):
            return super()._create_legacy_oauth2_auth_manager(session)
        # In another session: PyIceberg would ask for a token with the one that expires.
        asking = bounded(Session(), files=self._files, seconds=oauth.ANSWER_SECONDS)
        asking.verify, asking.cert = session.verify, session.cert
        return RenewedToken(asking, self.auth_url, credential, None, self._extract_optional_oauth_params())

    @property
    def tokens(self) -> RenewedToken | None:
        """Tokens of the declared endpoint; None without a credential, or if the server names another one,
        which Java's client goes by, too."""
        found = self._auth_manager
        is_declared = self.properties.get("oauth2-server-uri") == self._declared.get("oauth2-server-uri")
        return found if isinstance(found, RenewedToken) and is_declared else None

    def _init_sigv4(self, session: Session) -> None:
        if BOTOCORE_SESSION not in self.properties:
            # The server's wish; Iceberg's Java client does not follow it, and no login is declared for it.
            raise Refused(
                f"the catalog asks for signed requests ({SIGV4}), and signing_name is missing. Fix: add it "
                "to [lake.catalog] of the role's platform file",
                ErrorCode.CATALOG_PERMISSION,
            )
        super()._init_sigv4(session)
        session.mount(self.uri, _Signed(session.get_adapter(self.uri), self._files))

    def _check_encrypted(self) -> None:
        """Before a login is sent: PyIceberg takes the server's configuration for its own."""
        found, has_login = {"uri": self.uri}, bool({"token", "credential"} & set(self._declared))
        if self.properties.get("credential"):
            found["oauth2-server-uri"] = self.auth_url
        for key, address in found.items():
            declared = self._declared.get(key) or self._declared["uri"]
            is_left = urlsplit(declared).scheme == "https" and urlsplit(address).scheme != "https"
            # Also from this machine to another one.
            if is_left or (has_login and is_plain(address) and IN_PLAIN_TEXT not in self._declared):
                raise Refused(
                    f"the catalog overrides {key} with {address}, to which the login would be sent in plain "
                    f"text. Fix: remove {key} from the catalog's configuration",
                    ErrorCode.CATALOG_PERMISSION,
                )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As RestCatalog's. Raises CommitStateUnknownException whenever nothing tells whether it is
        committed."""
        try:
            return super().commit_table(table, requirements, updates)
        except NotFromCatalog:
            # It has not got the request.
            raise
        except (ServerError, ServiceUnavailableError) as error:
            # A gateway says so of a server that has got the request, too.
            raise CommitStateUnknownException(str(error)) from error
        except RequestException as error:
            raise CommitStateUnknownException(f"no answer: {error}") from error
        except ValidationError as error:
            raise CommitStateUnknownException(f"no answer of a commit: {error.errors()[0]['msg']}") from error
