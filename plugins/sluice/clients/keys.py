"""Where the ledger keeps what, under ``<ledger>/<stream>/``. No libraries: everything may import it.

::

    sources/<source_id>/begin.json      an object's version, and where the topic ended when it was planned
    sources/<source_id>/produced.json   the offsets between which all its rows were sent
    runs/<run_id, quoted>/plan.json     the objects' versions that a run means, pinned at its first attempt
    runs/<run_id, quoted>/before.json   what lay in the bucket before the load
    runs/<run_id, quoted>/proof.json    the validation's result, once it is exact
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

Document = dict[str, Any]


def begin_key(source_id: str) -> str:
    return f"sources/{source_id}/begin.json"


def produced_key(source_id: str) -> str:
    return f"sources/{source_id}/produced.json"


def run_key(run_id: str, name: str) -> str:
    """``name`` is plan, before or proof. A run id holds colons and plus signs, so it is quoted."""
    return f"runs/{quote(run_id, safe='')}/{name}.json"
