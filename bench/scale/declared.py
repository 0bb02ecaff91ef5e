"""Many streams in a folder: copies of the checkout's three under other names, with topics and tables of their
own.
"""

from __future__ import annotations

import re
from pathlib import Path

from sluice.config import folders

KINDS = ("nyc_taxi", "wiki_changes", "isp_hits")


def write(root: Path, streams: int, kinds: tuple[str, ...] = KINDS) -> list[str]:
    """Folders below ``root``, of ``kinds`` in turn; their names."""
    names = []
    for number in range(streams):
        kind = kinds[number % len(kinds)]
        names.append(f"s{number:03}_{kind}")
        _copy(folders.STREAMS / kind, root / names[-1])
    return names


def _copy(original: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    for file in original.iterdir():
        if not file.is_file():
            continue
        text = file.read_text()
        if file.name == folders.FILE:
            # In names of tables, topics and prefixes, too.
            text = re.sub(rf"\b{original.name}", folder.name, text)
            hyphened = original.name.replace("_", "-")
            text = re.sub(rf'"(?:{hyphened}|nyc-avro-topic)', f'"{folder.name.replace("_", "-")}', text)
        (folder / file.name).write_text(text)
