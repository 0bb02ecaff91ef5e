"""A client's certificate for SQLAlchemy's connections: its files are read by each, its passphrase is shown by
none."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.dialects import plugins
from sqlalchemy.engine import URL, CreateEnginePlugin

from sluice.clients.tls.certificates import (
    CertificateUnusable,
    ClientCertificate,
    check_valid,
    early,
    trusting,
)
from sluice.clients.tls.words import is_certificate_refused
from sluice.config.postgresql import CERTIFICATE_FIELDS, CERTIFICATE_KEY, CERTIFICATE_PLUGIN

# PyMySQL's code for a connection that cannot be encrypted.
SSL_ERROR = 2026
# MariaDB's answer to a certificate that it does not take has no words.
_ENDED = "SSLEOFError"


class CertificatePlugin(CreateEnginePlugin):
    """``plugins=[CERTIFICATE_PLUGIN]`` of an engine with CERTIFICATE_KEY, or ``?plugin=…`` of its URL with
    CERTIFICATE_FIELDS; of MySQL also without a client's certificate, for the file of the server's CA.

    A connection raises the driver's OperationalError for files that cannot be used."""

    def __init__(self, url: URL, kwargs: dict[str, Any]) -> None:
        found = kwargs.pop(CERTIFICATE_KEY, None)
        self._found = ClientCertificate(
            *(found or (str(url.query.get(name, "")) for name in CERTIFICATE_FIELDS))
        )

    def update_url(self, url: URL) -> URL:
        return url.difference_update_query(CERTIFICATE_FIELDS)

    def engine_created(self, engine: Engine) -> None:
        connect = self._postgresql if engine.dialect.name == "postgresql" else self._mysql
        event.listen(engine, "do_connect", connect)

    def _postgresql(self, dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        try:
            check_valid(self._found)
        except CertificateUnusable as error:
            raise dialect.loaded_dbapi.OperationalError(str(error)) from error
        parameters.update(self._taken(CERTIFICATE_FIELDS))
        try:
            return dialect.connect(*arguments, **parameters)
        except dialect.loaded_dbapi.OperationalError as error:
            text = " ".join(str(error).split())
            if not is_certificate_refused(text) or not (not_yet := early(self._found.certificate)):
                raise
            # The class of the error goes by its cause, since a server's words are lost here.
            raise type(error)(f"{text}; {not_yet}") from CertificateUnusable(not_yet)

    def _mysql(self, dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        failed, ssl = dialect.loaded_dbapi.OperationalError, parameters.get("ssl", {})
        try:
            if ca := ssl.get("ca"):
                # The driver would raise an error that no caller knows.
                trusting(ca)
            if not self._found.certificate:
                return None
            check_valid(self._found)
        except CertificateUnusable as error:
            raise failed(SSL_ERROR, str(error)) from error
        parameters["ssl"] = {**ssl, **self._taken(("cert", "key", "password"))}
        try:
            return dialect.connect(*arguments, **parameters)
        except failed as error:
            if _ENDED not in str(error):
                raise
            reason = f"the server ended the connection at the certificate {self._found.certificate}"
            raise failed(SSL_ERROR, f"{reason}: {error}") from CertificateUnusable(reason)

    def _taken(self, names: tuple[str, ...]) -> dict[str, str]:
        found = self._found
        return dict(
            zip(names, (found.certificate, found.key or found.certificate, found.passphrase), strict=True)
        )


plugins.register(CERTIFICATE_PLUGIN, __name__, CertificatePlugin.__name__)
