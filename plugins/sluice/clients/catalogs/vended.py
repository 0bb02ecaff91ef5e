"""The keys that a catalog gives for its tables, for all clients of S3 in a process, and for its workers.

A process that reads a table names its folder once (:meth:`Vended.follow`); from then on a client of
:func:`client_of` sends what concerns an object below it with the table's own keys, and everything else with
those of [s3]. Keys are renewed before they end, when one is needed: those that are pickled into a task take
the newest keys along, so that workers ask the catalog only if a task outlives them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from sluice.clients.backoff import Backoff
from sluice.clients.catalogs.table_keys import RETRY_SECONDS, TableKeys, table_keys
from sluice.clients.s3.requests import USUAL, Limits, connect, split_prefix
from sluice.clients.s3.routed import RoutedClient
from sluice.core.errors import ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.clients.catalogs.pointers import Pointers
    from sluice.config.platform import Platform
    from sluice.config.platform_sections.s3 import S3

log = logging.getLogger(__name__)

Properties = tuple[tuple[str, str], ...]


class Vended:
    """The keys of the tables of one catalog, as one role."""

    def __init__(self, s3: S3, properties: Properties) -> None:
        """``s3``: of the role, for what the catalog does not say; ``properties``: of PyIceberg's catalog."""
        self._s3, self._properties = s3, properties
        # Table -> the bucket and prefix of its folder, the latter with a slash at its end.
        self._folders: dict[str, tuple[str, str]] = {}
        self._keys: dict[str, TableKeys] = {}
        # Table -> when the catalog is asked again: else each request would, while keys are due.
        self._pauses: dict[str, Backoff] = {}
        self._pointers: Pointers | None = None
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            return _of_driver, (self._s3, self._properties, dict(self._folders), dict(self._keys))

    def follow(self, table: str, location: str) -> None:
        """From now on objects below ``location`` (``s3://…``) are those of ``table``."""
        bucket, prefix = split_prefix(location)
        with self._lock:
            # Another one: it is read without the lock.
            self._folders = {**self._folders, table: (bucket, f"{prefix}/")}

    def offer(self, table: str, keys: TableKeys) -> None:
        """Take these keys, unless there are some that are good for longer, or need not be renewed yet: new
        keys are new connections."""
        with self._lock:
            known, now = self._keys.get(table), time.time()
            if known is None or (known.is_due(now) and keys.last > known.last):
                self._keys[table] = keys

    def given(self, table: str, properties: Mapping[str, Any]) -> None:
        """:meth:`offer` what the catalog has just said of a table. Raises Refused without keys."""
        self.offer(table, table_keys(table, properties, self._s3, time.time()))

    def table_of(self, bucket: str, key: str) -> str | None:
        """The table below whose folder an object is."""
        for table, (its_bucket, prefix) in self._folders.items():
            if bucket == its_bucket and (key.startswith(prefix) or key == prefix[:-1]):
                return table
        return None

    def keys(self, table: str) -> TableKeys:
        """Keys that have not ended. Raises Refused or Unreachable if there are none: the catalog gives none,
        or does not answer."""
        known, now = self._keys.get(table), time.time()
        if known is not None and not known.is_due(now):
            return known
        with self._lock:
            known = self._keys.get(table)
            return known if known is not None and not known.is_due(now) else self.renewed(table)

    def renew_due(self) -> None:
        """Renew what is due of all tables, so that workers find good keys in their tasks. Raises as
        :meth:`keys`."""
        for table in self._folders:
            self.keys(table)

    def renewed(self, table: str) -> TableKeys:
        """Keys that the catalog is asked for now, but not again within RETRY_SECONDS; those that there are if
        it does not answer, as long as they have not ended. Raises as :meth:`keys`."""
        with self._lock:
            known, now = self._keys.get(table), time.time()
            has_good = known is not None and not known.has_ended(now)
            pauses = self._pauses.setdefault(table, Backoff())
            # S3 knows what is wrong with keys that had ended when they were given, by this machine's clock.
            is_usable = has_good or (pauses.failure is None and known and known.has_ended(known.received))
            if known is not None and is_usable and pauses.left:
                return known
            pauses.check()
            try:
                found = self._ask(table)
            except ClientError as error:
                pauses.failed(error, good=_left(known, now))
                if known is None or not has_good:
                    raise
                log.warning("keys of table not renewed table=%s: %s", table, error)
                return known
            pauses.succeeded(RETRY_SECONDS)
            return found

    def _ask(self, table: str) -> TableKeys:
        # PyIceberg takes a second to import, and most tasks end before their keys.
        from sluice.clients.catalogs.errors import asking, missing
        from sluice.clients.catalogs.pointers import opened

        if self._pointers is None:
            self._pointers = opened(dict(self._properties))
        with asking(f"table {table}"):
            pointer = self._pointers.find(table)
        if pointer is None:
            raise missing(f"table {table}")
        keys = table_keys(table, pointer.properties, self._s3, time.time())
        self._keys[table] = keys
        log.info("keys of table renewed table=%s ends=%s", table, keys.ends)
        return keys


def _left(keys: TableKeys | None, now: float) -> float:
    """Seconds until keys end; 0 if there are none, or they have."""
    if keys is None:
        return 0.0
    return math.inf if keys.ends is None else max(0.0, keys.ends - now)


def _of_driver(
    s3: S3, properties: Properties, folders: Mapping[str, tuple[str, str]], keys: Mapping[str, TableKeys]
) -> Vended:
    found = _vended(s3, properties)
    found._folders = {**found._folders, **folders}
    for table, one in keys.items():
        found.offer(table, one)
    return found


@cache
def _vended(s3: S3, properties: Properties) -> Vended:
    """One in a process: its clients share what the catalog has given."""
    return Vended(s3, properties)


def vended(platform: Platform) -> Vended | None:
    """The keys that this role's catalog gives; None if it is not asked for any."""
    if not platform.lake.vends:
        return None
    return _vended(platform.s3, tuple(sorted(platform.lake.pyiceberg(platform.s3).items())))


def client_of(platform: Platform, limits: Limits = USUAL) -> S3Client:
    """The role's client of S3, which reaches the files of tables as [lake.catalog] says. Nothing is sent."""
    return client_with(platform.s3, vended(platform), limits)


def client_with(s3: S3, keys: Vended | None, limits: Limits = USUAL) -> S3Client:
    """As :func:`client_of`."""
    usual = connect(s3, limits)
    return cast("S3Client", RoutedClient(usual, keys, limits)) if keys else usual


def follow(platform: Platform, table: str, location: str) -> None:
    """Objects below ``location`` are those of ``table``, for the clients of this role in this process."""
    if (found := vended(platform)) is not None:
        found.follow(table, location)
