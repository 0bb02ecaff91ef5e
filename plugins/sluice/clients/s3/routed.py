"""A client of S3 that sends each request with the keys of the table that it concerns."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from sluice.clients.s3.errors import DENIED, ENDED, error_code
from sluice.clients.s3.requests import Limits, connect
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.clients.catalogs.table_keys import TableKeys

# Versions are counted with the keys of [s3]: no catalog gives a right to them.
_USUAL = frozenset({"list_object_versions"})


class Keys(Protocol):
    """The keys of tables, as ``clients.catalogs.vended`` has them."""

    def table_of(self, bucket: str, key: str) -> str | None: ...

    def keys(self, table: str) -> TableKeys: ...

    def renewed(self, table: str) -> TableKeys: ...


class RoutedClient:
    """In place of boto3's client, with its methods, whose arguments are named.

    A request for an object of a table is sent with the table's keys, and once more with new ones if these
    have ended, or were revoked. Raises also Refused, if the table's keys do not suffice, and what ``keys``
    raises.
    """

    def __init__(self, usual: S3Client, keys: Keys, limits: Limits) -> None:
        self._usual, self._keys, self._limits = usual, keys, limits
        # Table -> its keys and their client.
        self._clients: dict[str, tuple[TableKeys, S3Client]] = {}
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._usual, name)
        if name.startswith("_") or not callable(found) or name in _USUAL:
            return found

        def send(**arguments: Any) -> Any:
            table = self._table(arguments)
            if table is None:
                return found(**arguments)
            return self._send(table, name, arguments)

        return send

    def get_paginator(self, operation: str) -> Any:
        """As boto3's; all pages are asked for with the same keys."""
        return _Paginator(self, operation)

    def paginator(self, operation: str, arguments: dict[str, Any]) -> Any:
        """boto3's, of the client for these arguments."""
        table = None if operation in _USUAL else self._table(arguments)
        client = self._usual if table is None else self._client(table, self._keys.keys(table))
        return client.get_paginator(operation)  # type: ignore[call-overload]

    def _table(self, arguments: dict[str, Any]) -> str | None:
        place = arguments.get("Key", arguments.get("Prefix", ""))
        return self._keys.table_of(arguments.get("Bucket", ""), place)

    def _client(self, table: str, keys: TableKeys) -> S3Client:
        with self._lock:
            known = self._clients.get(table)
            if known is None or known[0] != keys:
                known = self._clients[table] = keys, connect(keys.s3, self._limits, keys.session_token)
            return known[1]

    def _send(self, table: str, name: str, arguments: dict[str, Any]) -> Any:
        keys = self._keys.keys(table)
        body = arguments.get("Fileobj", arguments.get("Body"))
        begin = body.tell() if body is not None and hasattr(body, "tell") else None
        try:
            return getattr(self._client(table, keys), name)(**arguments)
        except ClientError as error:
            if error_code(error) not in DENIED | ENDED:
                raise
            newer = self._keys.renewed(table)
            if newer == keys:
                raise self._refused(table, arguments, error) from error
        if body is not None and begin is not None:
            body.seek(begin)
        try:
            return getattr(self._client(table, newer), name)(**arguments)
        except ClientError as error:
            if error_code(error) in DENIED | ENDED:
                raise self._refused(table, arguments, error) from error
            raise

    @staticmethod
    def _refused(table: str, arguments: dict[str, Any], error: ClientError) -> Refused:
        place = arguments.get("Key", arguments.get("Prefix", ""))
        return Refused(
            f"table {table}: S3 denies access to s3://{arguments['Bucket']}/{place} ({error_code(error)}) "
            "with the keys that the catalog gives. Fix: give the role's login in the catalog the right to "
            "the table's files: docs/your-own-systems.md, Credentials of the catalog",
            ErrorCode.CATALOG_KEYS,
        )


class _Paginator:
    def __init__(self, client: RoutedClient, operation: str) -> None:
        self._client, self._operation = client, operation

    def paginate(self, **arguments: Any) -> Any:
        return self._client.paginator(self._operation, arguments).paginate(**arguments)
