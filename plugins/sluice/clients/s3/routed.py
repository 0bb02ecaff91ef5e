"""A client of S3 that sends each request with the keys of the table that it concerns."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from sluice.clients.s3.errors import (
    CLOCK_FIX,
    DENIED,
    LOGIN,
    S3LoginRefused,
    error_code,
    error_message,
    is_clock_off,
    is_of_clock,
)
from sluice.clients.s3.requests import Limits, connect
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.clients.catalogs.table_keys import TableKeys

_KEYS_FIX = "Fix: let the catalog give keys of the table's S3 that have not ended, and set its clock"
# Versions are counted with the keys of [s3]: no catalog gives a right to them.
_USUAL = frozenset({"list_object_versions"})


class Keys(Protocol):
    """The keys of tables, as ``clients.catalogs.vended`` has them."""

    def table_of(self, bucket: str, key: str) -> str | None: ...

    def keys(self, table: str) -> TableKeys: ...

    def renewed(self, table: str) -> TableKeys: ...


class RoutedClient:
    """In place of boto3's client, with its methods, whose arguments are named; of those that read
    from a file ``upload_fileobj``.

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
        """As boto3's, whose pages can be iterated."""
        return _Paginator(self, operation)

    def pages(self, operation: str, arguments: dict[str, Any]) -> Iterator[Any]:
        """Those of boto3's paginator, all with the same keys; with others if the first is refused."""

        def of(client: Any) -> Iterator[Any]:
            yield from client.get_paginator(operation).paginate(**arguments)

        table = None if operation in _USUAL else self._table(arguments)
        if table is None:
            yield from of(self._usual)
            return
        keys, has_begun = self._keys.keys(table), False
        try:
            for page in of(self._client(table, keys)):
                has_begun = True
                yield page
            return
        except ClientError as error:
            if error_code(error) not in DENIED:
                raise
            newer = self._keys.renewed(table)
            if has_begun or newer == keys:
                raise self._refused(table, arguments, error) from error
        yield from of(self._client(table, newer))

    def _table(self, arguments: dict[str, Any]) -> str | None:
        place = arguments.get("Key", arguments.get("Prefix", ""))
        return self._keys.table_of(arguments.get("Bucket", ""), place)

    def _client(self, table: str, keys: TableKeys) -> S3Client:
        with self._lock:
            known = self._clients.get(table)
            if known is None or known[0] != keys:
                known = self._clients[table] = keys, connect(keys.s3, self._limits)
            return known[1]

    def _send(self, table: str, name: str, arguments: dict[str, Any]) -> Any:
        keys = self._keys.keys(table)
        body = arguments.get("Fileobj")
        begin = None if body is None else body.tell()
        if body is not None:
            arguments = {**arguments, "Fileobj": _StaysOpen(body)}
        try:
            return getattr(self._client(table, keys), name)(**arguments)
        except ClientError as error:
            if error_code(error) not in DENIED:
                raise
            newer = self._keys.renewed(table)
            if newer == keys:
                raise self._refused(table, arguments, error) from error
        if body is not None and begin is not None:
            body.seek(begin)
        try:
            return getattr(self._client(table, newer), name)(**arguments)
        except ClientError as error:
            if error_code(error) in DENIED:
                raise self._refused(table, arguments, error) from error
            raise

    @staticmethod
    def _refused(table: str, arguments: dict[str, Any], error: ClientError) -> Refused:
        place = arguments.get("Key", arguments.get("Prefix", ""))
        code, said = error_code(error), error_message(error)
        where = f"s3://{arguments['Bucket']}/{place}"
        if code in LOGIN:
            # A right would not help; and no key of [s3] is meant.
            fix = CLOCK_FIX if is_of_clock(code, said) or is_clock_off(error) else _KEYS_FIX
            what = f"table {table}: S3 refuses the keys that the catalog gives for {where}"
            return S3LoginRefused(f"{what} ({code}: {said}). {fix}")
        return Refused(
            f"table {table}: S3 denies access to {where} ({code}) with the keys that the catalog gives. Fix: "
            "give the role's login in the catalog the right to the table's files: docs/catalogs.md, Vended "
            "credentials",
            ErrorCode.CATALOG_KEYS,
        )


class _StaysOpen:
    """A file to be sent, which boto3 would close also if it was refused."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Left to the one that opened it."""


class _Paginator:
    def __init__(self, client: RoutedClient, operation: str) -> None:
        self._client, self._operation = client, operation

    def paginate(self, **arguments: Any) -> Any:
        return self._client.pages(self._operation, arguments)
