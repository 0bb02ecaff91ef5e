"""The rules by which a producer cuts a source into records and rejected rows.

A record's key counts the rows before it that are rejected. So what is sent in part goes on by the rules under
which it was planned, or not at all: under others, rows would have the keys of different rows on the topic, or
be there and in quarantine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluice.core.csv.form import Form

if TYPE_CHECKING:
    # Spark's Python workers import this module.
    from pathlib import Path

    from sluice.config.sections.csv import Csv
    from sluice.config.stream import StreamSpec

# To be raised with every change of code by which the producer rejects another row, or sends other bytes.
VERSION = 3
# Half of the Java client's buffer. The topic's own limit counts if it is lower.
MAX_REQUEST_BYTES = 16 * 1024 * 1024
# Overhead of a batch of one record (kafka-clients 3.9, AbstractRecords.estimateSizeInBytesUpperBound): 61
# bytes of the batch and 21 of the record, lengths, a key of at most 54 (its digits depend on the rows that
# are rejected, so not the row's own), and headers.
_OVERHEAD_BYTES = 1024


@dataclass(frozen=True)
class SendingRules:
    """``max_message_bytes``: the largest batch that the topic takes, as far as the producer uses it;
    ``declaration``: hash of what ``stream.toml`` and the schema say of the rows; ``form``: how a file is cut
    into rows, of ``declaration`` too, since they are counted as they were sent."""

    max_message_bytes: int
    declaration: str
    version: int = VERSION
    form: Form = Form()  # noqa: RUF009 (it is frozen)

    @classmethod
    def of(cls, spec: StreamSpec, max_message_bytes: int) -> SendingRules:
        """Return the rules of this code; ``max_message_bytes``: the topic's."""
        declaration = cls.declared_by(spec.schema_file, spec.csv)
        return cls(min(max_message_bytes, MAX_REQUEST_BYTES), declaration, form=spec.csv.form)

    @staticmethod
    def declared_by(schema_file: Path, csv: Csv) -> str:
        """The hash, whatever the file's comments and blanks are."""
        text = schema_file.read_text()
        schema = _without_docs(json.loads(text)) if schema_file.suffix == ".avsc" else _ddl(text)
        keys = asdict(csv)
        if not csv.adds_columns:
            # Hashes from before there was the key are the same.
            del keys["new_columns"]
        declared = json.dumps([schema, keys], sort_keys=True)
        return hashlib.sha256(declared.encode()).hexdigest()[:16]

    @property
    def max_value_bytes(self) -> int:
        """The largest value of a record that is sent: alone in a batch it fits, also if it cannot be
        compressed (zstd's ZSTD_COMPRESSBOUND: 1/256 more)."""
        return max(self.max_message_bytes - self.max_message_bytes // 256 - _OVERHEAD_BYTES, 0)

    def to_document(self) -> dict[str, Any]:
        return {**asdict(self), "form": self.form.to_document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SendingRules:
        form = Form.from_document(document.get("form"))
        return cls(document["max_message_bytes"], document["declaration"], document["version"], form)

    def differences(self, planned: Mapping[str, Any] | None) -> list[str]:
        """How the rules of a planned source (None: it has none) differ from these; empty if they do not."""
        if planned is None:
            return ["it was planned without rules"]
        before = self.from_document(planned)
        found = []
        if before.max_message_bytes != self.max_message_bytes:
            found.append(
                f"it was planned for messages of at most {before.max_message_bytes} bytes, and the topic's "
                f"max.message.bytes allows {self.max_message_bytes}"
            )
        if before.declaration != self.declaration:
            found.append("the schema or [csv] of stream.toml was another")
        if before.version != self.version:
            found.append(f"it was planned by version {before.version} of the rules, this is {self.version}")
        return found


def _without_docs(avro: Any) -> Any:
    """An Avro schema without its comments; a field's default is no schema."""
    if isinstance(avro, list):
        return [_without_docs(one) for one in avro]
    if isinstance(avro, Mapping):
        return {
            key: value if key == "default" else _without_docs(value)
            for key, value in avro.items()
            if key != "doc"
        }
    return avro


def _ddl(text: str) -> list[tuple[str, str]]:
    from sluice.config.schema import parse_ddl

    return list(parse_ddl(text).items())


def changed_message(name: str, differences: list[str], instead: str) -> str:
    """Say that a source (``name``) is not sent under other rules; ``instead``: the way on under these."""
    return (
        f"{name}: {'; '.join(differences)}. Rows of it that are on the topic have keys by the rules of its "
        f"plan; nothing was sent. Fix: go back to those until it is sent, and clear produce; or {instead}"
    )
