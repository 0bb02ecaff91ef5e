"""``[lake.catalog]`` of a platform file: the Iceberg catalog of the lake, and how clients log in to it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any
from urllib.parse import urlsplit

from sluice.config import mysql, postgresql
from sluice.config.platform_sections import glue, signing
from sluice.config.platform_sections.glue import GLUE
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.urls import VISIBLE, check_encrypted, check_no_login, check_url
from sluice.config.reading.values import shown

SQL, REST = "sql", "rest"
# For a statement in the database, which reads or swaps one pointer; for an answer of any catalog; and for a
# connection to a REST server.
STATEMENT_SECONDS, ANSWER_SECONDS, CONNECT_SECONDS = 45, 60, 5
POSTGRESQL, MYSQL = "postgresql", "mysql"
# The scheme of the uri of `sql` -> the usual port.
PORTS = {POSTGRESQL: 5432, MYSQL: mysql.PORT}
# What `access_delegation` may be, and the property by which Iceberg's clients send it.
VENDED = "vended-credentials"
DELEGATION = "header.X-Iceberg-Access-Delegation"
# Among the properties of Iceberg's clients, which do not know it.
CHECK_NAMESPACE, ADDRESS = "sluice.check-namespace", "sluice.address"
# For both clients of a REST server: whether a login may go to another machine in plain text.
IN_PLAIN_TEXT = "sluice.plain-text"
# What the names of files for TLS begin with, among PyIceberg's properties.
TLS = "sluice.tls."
# The keys that have a meaning, beside type and check_namespace.
KEYS = {
    SQL: ("uri", "username", "password", "sslmode", "sslrootcert", *postgresql.CERTIFICATE_FIELDS),
    REST: (
        "uri",
        "warehouse",
        "prefix",
        "token",
        "credential",
        "oauth2_server_uri",
        "scope",
        "plain_text",
        "access_delegation",
        *signing.KEYS,
        "sslrootcert",
        *postgresql.CERTIFICATE_FIELDS,
    ),
    GLUE: glue.KEYS,
}


@dataclass(frozen=True)
class Catalog:
    """The catalog, with the names that Iceberg's own clients give its properties."""

    type: Annotated[str, "kind of the [catalog](catalogs.md): `sql`, `rest` or `glue`"]
    uri: Annotated[
        str,
        "`sql`: `postgresql://host:port/database` or `mysql://…` (also of MariaDB), without a login; `rest`: "
        "the server's address, up to the part before `/v1`",
    ] = ""
    username: Annotated[str, "`sql`: the role's user"] = ""
    password: Annotated[
        str, "`sql`: of `username`; may be empty if the server goes by a certificate alone"
    ] = field(default="", repr=False)
    sslmode: Annotated[
        str,
        "`sql`: `verify-full` (default, except for a host that is this machine: `disable`), `verify-ca`, "
        "`require` (encrypted, not verified) or `disable` (plain text); none falls back to plain text",
    ] = ""
    sslrootcert: Annotated[
        str,
        "`sql`, `rest`: path of a PEM file with the CA of the server's certificate, also of that of "
        "`oauth2_server_uri`; `verify-…` of `sql` needs it; `rest` empty: the system's CAs",
    ] = ""
    sslcert: Annotated[
        str,
        "`sql`, `rest`: path of a PEM file with the role's certificate and its chain, for a server that "
        "asks for it; a file that is replaced is read again by new connections",
    ] = ""
    sslkey: Annotated[
        str, "`sql`, `rest`: path of a PEM file with the certificate's key; empty: in the same file"
    ] = ""
    sslpassword: Annotated[str, "`sql`, `rest`: the key's passphrase, if it is encrypted"] = field(
        default="", repr=False
    )
    warehouse: Annotated[str, "`rest`: the warehouse's name there, as the server wants it"] = ""
    prefix: Annotated[str, "`rest`: in front of every path, for a server that does not say it itself"] = ""
    token: Annotated[str, "`rest`: bearer token"] = field(default="", repr=False)
    credential: Annotated[
        str, "`rest`: `client id:client secret` of OAuth2's client credentials, in place of `token`"
    ] = field(default="", repr=False)
    oauth2_server_uri: Annotated[
        str, "`rest`: where tokens for `credential` are; empty: `/v1/oauth/tokens` of the catalog"
    ] = ""
    scope: Annotated[str, "`rest`: of the tokens for `credential`; empty: `catalog`"] = ""
    plain_text: Annotated[
        bool,
        "`rest`, `glue`: true: another machine is asked over `http://`, with a login, in a network that you "
        "trust",
    ] = False
    endpoint: Annotated[str, "`glue`: address; empty: AWS itself, in `region`"] = ""
    region: Annotated[
        str, "`glue`, and `rest` that is signed: of the catalog; empty: that of `uri`, or of `[s3]`"
    ] = ""
    catalog_id: Annotated[str, "`glue`: the account's number; empty: the account of the login"] = ""
    access_key: Annotated[
        str, "`glue`, and `rest` that is signed: the role's; empty, with `secret_key`: those of `[s3]`"
    ] = ""
    secret_key: Annotated[str, "of `access_key`"] = field(default="", repr=False)
    session_token: Annotated[
        str, "of a temporary `access_key`; who renews the keys writes the file again"
    ] = field(default="", repr=False)
    signing_name: Annotated[
        str,
        "`rest`: the service of AWS for which [requests are signed](catalogs.md#signed-requests): `glue`, "
        "`s3tables`, `execute-api`; empty: not signed, except to AWS's own hosts",
    ] = ""
    access_delegation: Annotated[
        str,
        "`rest`: `vended-credentials`: the files of each table are read and written with the keys that the "
        "catalog gives for it ([its own](catalogs.md#vended-credentials)); empty: with those of `[s3]`",
    ] = ""

    check_namespace: Annotated[
        str,
        "namespace in which it is tried whether the [catalog is safe](catalogs.md#is-my-catalog-safe), and "
        "where that is kept; made if it is missing",
    ] = "sluice_check"

    @property
    def _ssl(self) -> dict[str, str]:
        """For every client of PostgreSQL alike."""
        ca = {"sslrootcert": self.sslrootcert} if self.sslrootcert else {}
        return {"sslmode": self._ssl_mode, **ca}

    @property
    def certificate(self) -> tuple[str, str, str]:
        """Paths of certificate and key, and the key's passphrase; empty texts for what there is not."""
        return self.sslcert, self.sslkey, self.sslpassword

    @property
    def _tls(self) -> dict[str, str]:
        """For PyIceberg's client of a REST server, by names of Sluice's own; none of Java's properties."""
        given = zip(
            ("sslrootcert", *postgresql.CERTIFICATE_FIELDS),
            (self.sslrootcert, *self.certificate),
            strict=True,
        )
        return {f"{TLS}{name}": text for name, text in given if text and self.type == REST}

    @property
    def _ssl_mode(self) -> str:
        return postgresql.ssl_mode(self.host, self.sslmode)

    @property
    def database(self) -> str:
        """The kind of the database of ``sql``, POSTGRESQL or MYSQL; empty for others."""
        return urlsplit(self.uri).scheme if self.type == SQL else ""

    @property
    def host(self) -> str:
        """That of ``uri``, an address of IPv6 without its brackets."""
        return urlsplit(self.uri).hostname or ""

    @property
    def _place(self) -> str:
        """Host, port and database of ``sql``, as the end of a URL."""
        parts = urlsplit(self.uri)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{parts.port or PORTS[self.database]}{parts.path}"

    @property
    def address(self) -> str:
        """What tells this catalog from another one; without a login."""
        if self.type == GLUE:
            return glue.address(self)
        return f"{self.database}://{self._place}" if self.type == SQL else self.uri

    @property
    def _tried(self) -> dict[str, str]:
        """For :mod:`spark_jobs.common.lake.promises`: of the kinds that are tried before a commit."""
        return {CHECK_NAMESPACE: self.check_namespace, ADDRESS: self.address}

    def libpq(self, options: str = "") -> dict[str, Any]:
        """Arguments of ``psycopg2.connect``, of PostgreSQL; ``options``: further ones of the session."""
        parts = urlsplit(self.uri)
        return {
            "host": self.host,
            "port": parts.port or PORTS[POSTGRESQL],
            "dbname": parts.path.strip("/"),
            "user": self.username,
            "password": self.password,
            **self._ssl,
            **postgresql.libpq_timeouts(STATEMENT_SECONDS, options),
        }

    def spark(self) -> dict[str, str]:
        """Properties of Iceberg's Java catalog, without those of S3, and without a client's certificate
        (sluice.clients.catalogs.login)."""
        if self.type == SQL:
            login = {"user": self.username, "password": self.password}
            if self.database == MYSQL:
                driver, ca = "mariadb", self.sslrootcert
                login |= mysql.jdbc(self._ssl_mode, ca, STATEMENT_SECONDS, ANSWER_SECONDS)
            else:
                driver = POSTGRESQL
                login |= self._ssl | postgresql.jdbc_timeouts(STATEMENT_SECONDS, ANSWER_SECONDS)
            jdbc = {f"jdbc.{key}": value for key, value in login.items()}
            return {
                "type": "jdbc",
                "uri": f"jdbc:{driver}://{self._place}",
                "jdbc.schema-version": "V1",
            } | jdbc
        if self.type == GLUE:
            return glue.properties(self) | self._tried
        # By the names that both of Iceberg's clients know.
        properties = {
            "type": self.type,
            "uri": self.uri,
            "warehouse": self.warehouse,
            "prefix": self.prefix,
            "token": self.token,
            # Java's client would exchange it for another one after an hour.
            "token-refresh-enabled": "false" if self.token else "",
            "credential": self.credential,
            # It would be exchanged there, too, for one more: few servers of tokens do that for a client.
            "token-exchange-enabled": "false" if self.credential else "",
            # Without end by default.
            "rest.client.connection-timeout-ms": str(CONNECT_SECONDS * 1000),
            "rest.client.socket-timeout-ms": str(ANSWER_SECONDS * 1000),
            "oauth2-server-uri": self.oauth2_server_uri,
            "scope": self.scope,
            IN_PLAIN_TEXT: "true" if self.plain_text else "",
            DELEGATION: self.access_delegation,
            **signing.properties(self),
            **self._tried,
        }
        return {name: value for name, value in properties.items() if value}

    def pyiceberg(self) -> dict[str, str]:
        """Properties for PyIceberg, without those of S3. Of ``sql`` after an import of
        sluice.clients.databases.postgresql and sluice.clients.databases.certificates."""
        from urllib.parse import quote, urlencode

        if self.type != SQL:
            return self.spark() | self._tls
        user, password = (quote(text, safe="") for text in (self.username, self.password))
        if self.database == MYSQL:
            driver = "mysql+pymysql"
            query: dict[str, Any] = {
                **mysql.pymysql(self._ssl_mode, self.sslrootcert, STATEMENT_SECONDS, ANSWER_SECONDS)
            }
        else:
            driver = "postgresql+psycopg2"
            query = self._ssl | postgresql.libpq_timeouts(STATEMENT_SECONDS)
            query |= {"plugin": [postgresql.PLUGIN], postgresql.DEADLINE_KEY: ANSWER_SECONDS}
        if self.sslcert or self.database == MYSQL:
            query["plugin"] = [*query.get("plugin", ()), postgresql.CERTIFICATE_PLUGIN]
            given = zip(postgresql.CERTIFICATE_FIELDS, self.certificate, strict=True)
            query |= {key: value for key, value in given if value}
        uri = f"{driver}://{user}:{password}@{self._place}?{urlencode(query, doseq=True)}"
        return {"type": "sql", "uri": uri, "init_catalog_tables": "false"}


def check(catalog: Catalog, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key, never a secret."""
    if catalog.type not in KEYS:
        raise ConfigError(f"{where}: type is {catalog.type!r}. Fix: use one of {', '.join(KEYS)}")
    known = {"type", "check_namespace", *KEYS[catalog.type]}
    for found in fields(catalog):
        if found.name not in known and getattr(catalog, found.name):
            raise ConfigError(
                f"{where}: {found.name} has no meaning for type {catalog.type!r}. Fix: remove it; keys are "
                f"{', '.join(sorted(known))}"
            )
    if not IDENTIFIER.fullmatch(catalog.check_namespace):
        raise ConfigError(
            f"{where}: check_namespace is {shown(catalog.check_namespace)}, no name of a namespace. "
            f"{IDENTIFIER_FIX}"
        )
    for key in ("uri", "oauth2_server_uri"):
        check_no_login(getattr(catalog, key), f"{where}: {key}")
    {SQL: _check_sql, REST: _check_rest, GLUE: glue.check}[catalog.type](catalog, where)


def _check_sql(catalog: Catalog, where: str) -> None:
    parts = urlsplit(catalog.uri)
    try:
        is_whole = parts.scheme in PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.path.count("/") != 1 or len(parts.path) < 2 or parts.query or parts.fragment:
        raise ConfigError(
            f"{where}: uri is {catalog.uri!r}, no address of a database. Fix: write "
            "postgresql://host:port/database, or mysql:// in place of postgresql://"
        )
    for key in ("username",) if catalog.sslcert else ("username", "password"):
        if not getattr(catalog, key):
            raise ConfigError(f"{where}: {key} is missing. Fix: add the role's")
    keys = "sslmode", "sslrootcert"
    postgresql.check_ssl(where, catalog.host, catalog.sslmode, catalog.sslrootcert, keys)
    is_encrypted = postgresql.ssl_mode(catalog.host, catalog.sslmode) != postgresql.DISABLE
    files = dict(zip(postgresql.CERTIFICATE_FIELDS, catalog.certificate, strict=True))
    postgresql.check_certificate(where, is_encrypted, files)


def _check_rest(catalog: Catalog, where: str) -> None:
    check_url(catalog.uri, f"{where}: uri")
    if "?" in catalog.uri or "#" in catalog.uri:
        raise ConfigError(f"{where}: uri has a query or a fragment. Fix: leave out what begins with ? or #")
    signing.check(catalog, where)
    if catalog.token and catalog.credential:
        raise ConfigError(f"{where}: token and credential: there are two logins. Fix: keep one of them")
    if catalog.access_delegation not in ("", VENDED):
        raise ConfigError(
            f"{where}: access_delegation is {shown(catalog.access_delegation)}. Fix: write {VENDED!r}, or "
            "leave it out"
        )
    for key in ("oauth2_server_uri", "scope"):
        if getattr(catalog, key) and not catalog.credential:
            raise ConfigError(f"{where}: {key} is there, and credential is missing. Fix: add it")
    if catalog.oauth2_server_uri:
        check_url(catalog.oauth2_server_uri, f"{where}: oauth2_server_uri")
    encrypted = [url for url in (catalog.uri, catalog.oauth2_server_uri) if url.startswith("https:")]
    files = dict(zip(postgresql.CERTIFICATE_FIELDS, catalog.certificate, strict=True))
    postgresql.check_certificate(where, bool(encrypted), files)
    if catalog.sslrootcert and not encrypted:
        raise ConfigError(
            f"{where}: sslrootcert is there, and {catalog.uri} is not encrypted. Fix: write https://, or "
            "remove sslrootcert"
        )
    for key in ("token", "credential"):
        if (text := getattr(catalog, key)) and not VISIBLE.fullmatch(text):
            raise ConfigError(
                f"{where}: {key} has a character that no header can have. Fix: use visible ASCII only"
            )
    if catalog.plain_text or not (catalog.token or catalog.credential):
        return
    for key in ("uri", "oauth2_server_uri"):
        check_encrypted(getattr(catalog, key), f"{where}: {key}")
