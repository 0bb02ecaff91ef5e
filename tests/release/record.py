"""Record what this version stored on a stack: ``local/run python -m tests.release.record STREAM``.

Into ``v<version>.json``: the stream's documents of the ledger, and of each of its tables the metadata file
and the documents beside it (batch log, loaded rows). Texts only, of a stack with few loads; the readers of
later versions are tested over them (`tests/unit/release`), `tests/integration/test_upgrade.py` over the
rest.
"""

from __future__ import annotations

import gzip
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from local.base import REPO
from local.stack.stack import Stack
from sluice.clients.s3.requests import split, split_prefix
from sluice.config import streams

FOLDER = Path(__file__).parent


def path_of(version: str) -> Path:
    return FOLDER / f"v{version}.json"


def stored(stack: Stack, stream: str) -> dict[str, Any]:
    """``ledger``: key -> document; ``tables``: name -> its metadata, and the documents beside it."""
    s3, spec = stack.admin_s3(), streams.load(stream)

    def documents(uri: str) -> dict[str, Any]:
        bucket, prefix = split_prefix(uri)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
        keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
        return {
            key.removeprefix(f"{prefix}/"): json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
            for key in keys
            if key.endswith(".json") and "/metadata/" not in key
        }

    lake, tables = stack.lake("reader"), dict[str, Any]()
    for name in (spec.table, spec.quarantine_table):
        table = lake.table(name)
        bucket, key = split(table.metadata_location)
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        metadata = json.loads(gzip.decompress(body) if key.endswith(".gz.metadata.json") else body)
        tables[name] = {"metadata": metadata, "documents": documents(table.location())}
    return {"ledger": documents(stack.platform("airflow").lake.ledger), "tables": tables}


def main() -> None:
    version = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["version"]
    stack = Stack()
    text = json.dumps(stored(stack, sys.argv[1]), indent=1, sort_keys=True)
    path_of(version).write_text(text + "\n")


if __name__ == "__main__":
    main()
