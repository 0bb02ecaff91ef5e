"""Avro without a registry whose table follows its schemas: a header names each by its fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro.accepted import Accepted, bodies, bodies_at, texts
from sluice.core.decoding.avro.decoder import as_column, name_in, names_of, unknown_schema
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.unfollowed import Following, Version
from sluice.core.registry.lookups import in_turn
from sluice.core.registry.schemas import Schemas

_FINGERPRINT = re.compile(rb"[0-9a-f]{16}")


def id_of(fingerprint: str) -> int:
    """A schema's fingerprint as the number that stands for it, as a registry's id does for its schemas."""
    return int(fingerprint, 16)


def fingerprint_of(schema_id: int) -> str:
    """The reverse of :func:`id_of`."""
    return f"{schema_id:016x}"


class FingerprintAvro(RegisteredAvro):
    """A :class:`Decoder` of plain Avro bodies, each of the schema that its header ``avro-schema`` names, or
    of the ``declared`` one without the header."""

    def __init__(
        self, declared: str, current: str, schemas: Schemas, unknown: str, following: Following
    ) -> None:
        """``declared``: the fingerprint; ``schemas``: of fingerprints as numbers; else as
        :class:`RegisteredAvro`."""
        super().__init__(current, schemas, unknown, following=following)
        self._made_of = declared, current, schemas, unknown, following
        self._declared = declared.encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return FingerprintAvro, self._made_of

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Raises ValueError for a piece of 2^31 bytes or more."""
        accepted = Accepted(len(values), self._type)
        named = names_of(headers).fill_null(self._declared).dictionary_encode()
        names: list[bytes] = named.dictionary.to_pylist()
        self._next_piece()
        ids = [id_of(name.decode()) for name in names if _FINGERPRINT.fullmatch(name)]
        asked = in_turn(ids, self._writer)
        self._failures.update({one: found for one, found in asked.items() if isinstance(found, str)})
        found = [self._found(name, asked) for name in names]
        # Records of many unknown schemas may be in one piece: each group of rows is looked at once.
        margin = max((one.margin for one in found if isinstance(one, Writer)), default=0)
        data, starts, ends = bodies(values, margin)
        is_value = ~values.is_null().to_numpy(zero_copy_only=False)
        accepted.reasons.update(dict.fromkeys(np.flatnonzero(~is_value).tolist(), TOMBSTONE))
        places = named.indices.to_numpy()
        order = np.argsort(places, kind="stable")
        order = order[is_value[order]]
        bounds = np.searchsorted(places[order], np.arange(len(names) + 1))
        unfollowed: dict[tuple[Version, bool], int] = {}
        for place, (name, writer) in enumerate(zip(names, found, strict=True)):
            rows = order[bounds[place] : bounds[place + 1]]
            version = self._more(name)
            if version and version.has_record(bodies_at(data, starts[rows], ends[rows])):
                unfollowed.setdefault((version, isinstance(writer, str)), id_of(name.decode()))
            accepted.decode(writer, data, rows, starts[rows], ends[rows])
        columns = pa.RecordBatch.from_arrays(accepted.array().flatten(), schema=self.schema)
        reasons = texts(accepted.reasons, len(values))
        return Decoded(columns, reasons, unfollowed=frozenset(unfollowed.values()))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """As the protocol says, and as :meth:`AvroDecoder.reference`."""
        if value is None:
            raise Malformed(TOMBSTONE)
        name = name_in(headers)
        found = self._found(self._declared if name is None else name, {})
        if isinstance(found, str):
            raise Malformed(found)
        return as_column(found.value(value), self._type)

    def _found(self, name: bytes, asked: Mapping[int, Writer | str]) -> Writer | str:
        if not _FINGERPRINT.fullmatch(name):
            return unknown_schema(name)
        schema_id = id_of(name.decode())
        return asked.get(schema_id) or self._failures.get(schema_id) or self._writer(schema_id)

    def _more(self, name: bytes) -> Version | None:
        """The schema, if it is more than the table's."""
        if self._unfollowed is None or not _FINGERPRINT.fullmatch(name):
            return None
        return self._unfollowed.version(id_of(name.decode()))

    def _title(self, schema_id: int) -> str:
        return f"the Avro schema {fingerprint_of(schema_id)}"
