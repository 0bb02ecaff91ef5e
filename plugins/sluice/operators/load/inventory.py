"""Objects of one stream by prefix of the bucket, and files of its checkpoint folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing, Unreachable
from sluice.hooks.load_plan import now
from sluice.model.spec.ledger import run_key
from sluice.model.verification.storage import PrefixUsage

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.table import Table

    from sluice.clients.ledger import Ledger
    from sluice.clients.objects import Entry
    from sluice.hooks.platform import PlatformHook
    from sluice.model.spec.stream import StreamSpec


@dataclass(frozen=True)
class Inventory:
    """``data``: current data objects of table and quarantine (s3:// address -> written at); ``rewritten``:
    keys overwritten with other content, which Iceberg never does."""

    counts: dict[str, PrefixUsage]
    data: dict[str, datetime]
    rewritten: list[str]


def take(hook: PlatformHook, spec: StreamSpec) -> Inventory:
    """Count all objects and files of the stream. Errors are the clients'."""
    from sluice.clients.objects import count
    from sluice.clients.s3 import split

    counts: dict[str, PrefixUsage] = {}
    data: dict[str, datetime] = {}
    rewritten: list[str] = []
    for label, table in (("table", spec.table), ("quarantine", spec.quarantine_table)):
        name, prefix = split(location(hook, table))
        bucket = hook.bucket(name)
        for component in ("data", "metadata"):
            entries = list(bucket.entries(f"{prefix}/{component}/"))
            counts[f"{label} {component}"] = count(entries)
            rewritten += overwritten(entries)
            if component == "data":
                data |= {
                    f"s3://{name}/{entry.key}": entry.modified for entry in entries if _is_current(entry)
                }
    name, _ = split(hook.platform.lake.warehouse)
    counts["checkpoints in the bucket"] = count(hook.bucket(name).entries(f"checkpoints/{spec.name}/"))
    counts["checkpoint folder"] = folder(Path(hook.platform.checkpoints.root), spec.name)
    return Inventory(counts, data, rewritten)


def _is_current(entry: Entry) -> bool:
    return entry.is_latest and not entry.is_delete_marker


def overwritten(entries: Iterable[Entry]) -> Iterator[str]:
    """Keys with versions of different content; a repeated put has the same ETag."""
    seen: dict[str, str] = {}
    named: set[str] = set()
    for entry in entries:
        if entry.is_delete_marker:
            continue
        if seen.setdefault(entry.key, entry.etag) != entry.etag and entry.key not in named:
            named.add(entry.key)
            yield entry.key


def location(hook: PlatformHook, table: str) -> str:
    """The table's location; before it exists, the one that the consumer's catalog will choose."""
    try:
        return hook.lake.table(table).location()
    except Missing:
        return f"{hook.platform.lake.warehouse.rstrip('/')}/{table.replace('.', '/')}"


def folder(root: Path, name: str) -> PrefixUsage:
    """Files and bytes of ``root/name``. Raises Unreachable if ``root`` does not exist: it is not mounted."""
    if not root.is_dir():
        raise Unreachable(f"checkpoint folder {root} is not there; mount it, or correct [checkpoints] root")

    def raise_error(error: OSError) -> None:
        # The stream runs and cleans its folder meanwhile.
        if not isinstance(error, FileNotFoundError):
            raise Unreachable(f"checkpoint folder {error.filename}: {error.strerror}") from error

    files = size = 0
    for path, _, names in os.walk(root / name, onerror=raise_error):
        for file in names:
            try:
                size += (Path(path) / file).stat().st_size
            except FileNotFoundError:
                continue
            files += 1
    return PrefixUsage(files, files, 0, size)


def record_before(hook: PlatformHook, spec: StreamSpec, ledger: Ledger, run_id: str) -> dict[str, Any]:
    """Write ``baseline.json`` for the run if there is none; return the one there is."""

    def create() -> dict[str, Any]:
        try:
            table: Table | None = hook.lake.table(spec.table)
        except Missing:
            table = None
        head = table.current_snapshot() if table else None
        return {
            "run_id": run_id,
            "snapshot_id": head.snapshot_id if head else None,
            "counts": {name: asdict(count) for name, count in take(hook, spec).counts.items()},
            "at": now(),
        }

    return ledger.pin(run_key(run_id, "baseline"), create)
