"""Avro with a registry: each record is read with the schema that it names, and resolved to the table's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.accepted import Accepted, bodies, bodies_at, texts
from sluice.core.decoding.avro.decoder import as_column, row_type
from sluice.core.decoding.avro.following.conflicts import Fix
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.reference.resolution import Unresolvable
from sluice.core.decoding.avro.trees import form
from sluice.core.decoding.avro.types import UnsupportedSchema
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.registered.unfollowed import Following, Unfollowed, Version
from sluice.core.registry.errors import RefusedSchema, UnknownSchema
from sluice.core.registry.framing import PREFIX_BYTES, framed, unframed
from sluice.core.registry.lookups import Kept, in_turn, kept
from sluice.core.registry.preparing import MAX_SIZE, PreparationBudget
from sluice.core.registry.schemas import AVRO, RegisteredSchema, Schemas
from sluice.core.registry.subjects import Part

# A topic has few schemas, unless a producer registers one for each record, as with a number in its doc: so
# what is ready for use is kept by what readers use of a schema, and by ids beside it.
_MAX_WRITERS, _MAX_IDS = 1_000, 100_000
_NO_FIELDS = '{"type": "record", "name": "key", "fields": []}'
# A key that is no record, as the only field of one: its bytes are the same.
_WRAPPED = "key"
_BEGIN, _END = len(f'{{"{_WRAPPED}":'), 1


@dataclass(frozen=True)
class _Form:
    """What is known of an id: the digest of its schema's form, or the reason why it has none."""

    digest: str = ""
    reason: str = ""


class RegisteredAvro:
    """A :class:`Decoder` of records of the schema ``current``, and of all that can be resolved to it."""

    def __init__(
        self,
        current: str,
        schemas: Schemas,
        unknown: str = "",
        part: Part = Part.VALUE,
        following: Following | None = None,
    ) -> None:
        """``current``: as JSON text; ``unknown``: the column of fields that it lacks, empty if they are not
        kept; ``following``: how it follows other schemas, None if they are none of its versions. Raises
        UnsupportedSchema for a schema that no table can have."""
        self._given = current, schemas, unknown, part, following
        self._schemas, self._unknown, self._part = schemas, unknown, part
        self._following = following
        self._current = following.read_as(parsed(current)) if following else parsed(current)
        self._unfollowed = Unfollowed(self._current, following, _MAX_WRITERS, _MAX_IDS) if following else None
        self._type = row_type(self._current, unknown)
        # The digest of each id's form, or why it has none.
        self._ids: dict[int, _Form] = {}
        forget = self._unfollowed.forget if self._unfollowed else None
        self._writers = Kept[str, Writer | str](_MAX_WRITERS, MAX_SIZE, forget)
        self._budget = PreparationBudget()
        # Why ids of the last piece had no schema: one may be registered before its sample is read.
        self._failures: dict[int, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self._type))

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Raises ValueError for a piece of 2^31 bytes or more."""
        found = framed(values, headers, self._part)
        accepted = Accepted(len(values), self._type)
        accepted.reasons.update(found.reasons)
        if values.null_count:
            nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            accepted.reasons.update(dict.fromkeys(nulls.tolist(), TOMBSTONE))
        self._next_piece()
        asked = in_turn(found.schema_ids, self._writer)
        # Many ids may have one writer; those without an id are before all.
        rising = sorted(asked)
        each = [asked[schema_id] for schema_id in rising]
        for schema_id, writer in asked.items():
            if isinstance(writer, str):
                self._failures[schema_id] = writer
        writers = dict.fromkeys(each)
        margin = max((one.margin for one in writers if isinstance(one, Writer)), default=0)
        data, starts, ends = bodies(values, margin)
        starts = starts + PREFIX_BYTES
        places = {writer: place for place, writer in enumerate(writers)}
        of_ids = np.array([-1, *(places[writer] for writer in each)], np.int64)
        of_rows = of_ids[np.searchsorted(rising, found.ids, "right")]
        # One after the other, each with its rows: some topics have a schema for each few records.
        order = np.argsort(of_rows, kind="stable")
        bounds = np.searchsorted(of_rows[order], np.arange(len(writers) + 1))
        named = {asked[schema_id]: schema_id for schema_id in reversed(rising)}
        # An id for each version, and one more if only some of its ids are refused.
        unfollowed: dict[tuple[Version, bool], int] = {}
        # All rows that name a version that is not followed, once one was seen that is a record of it.
        of_versions = np.zeros(len(values), np.bool_)
        for place, writer in enumerate(writers):
            rows = order[bounds[place] : bounds[place + 1]]
            version = self._unfollowed.version(named[writer]) if self._unfollowed else None
            if version and version.has_record(bodies_at(data, starts[rows], ends[rows])):
                unfollowed.setdefault((version, isinstance(writer, str)), named[writer])
                of_versions[rows] = True
            accepted.decode(writer, data, rows, starts[rows], ends[rows])
        columns = pa.RecordBatch.from_arrays(accepted.array().flatten(), schema=self.schema)
        reasons = texts(accepted.reasons, len(values))
        schemas = found.rows_of_ids(accepted.is_accepted | of_versions)
        return Decoded(columns, reasons, unfollowed=frozenset(unfollowed.values()), schemas=schemas)

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """As the protocol says, and as :meth:`AvroDecoder.reference`."""
        if value is None:
            raise Malformed(TOMBSTONE)
        schema_id, body = unframed(value, headers, self._part)
        writer = self._failures.get(schema_id) or self._writer(schema_id)
        if isinstance(writer, str):
            raise Malformed(writer)
        return as_column(writer.value(body), self._type)

    def _next_piece(self) -> None:
        self._failures.clear()
        self._writers.next_piece()

    def _writer(self, schema_id: int) -> Writer | str:
        """What reads records of a schema, or the reason why they are rejected."""
        known = self._ids.get(schema_id)
        if known is not None and known.reason:
            return known.reason
        found = self._writers.get(known.digest) if known is not None else None
        try:
            if found is None:
                found = self._of(self._schemas.get(schema_id))
        # What the registry does not have now, or what was not made ready now, it may have later.
        except (UnknownSchema, RefusedSchema) as error:
            return str(error)
        return f"{self._title(schema_id)} cannot be {found}" if isinstance(found, str) else found

    def _of(self, schema: RegisteredSchema) -> Writer | str:
        """As :meth:`_new_writer`. Raises RefusedSchema."""
        what = self._title(schema.id)
        if schema.type != AVRO:
            why = f"{what} is of type {schema.type}, and the stream's format is avro"
            kept(self._ids, schema.id, _Form(reason=why), _MAX_IDS)
            raise RefusedSchema(why)
        try:
            text = form(self._text(schema), aliases=self._unfollowed is not None)
        except ValueError as error:
            return f"read with the table's columns: not an Avro schema: {error}"
        digest = _digest(text)
        found = self._writers.get(digest)
        if found is None:
            made = self._budget.run(what, lambda: self._new_writer(text), len(text))
            found = self._writers.put(digest, made, len(text))
        if self._unfollowed:
            self._unfollowed.name(schema.id, digest)
            version = self._unfollowed.version(schema.id)
            if version is not None and version.can_follow:
                self._check_topic(schema.id)
                if self._following and (refusal := self._following.refused.get(schema.id)):
                    why = f"followed: {refusal}"
                    kept(self._ids, schema.id, _Form(reason=f"{what} cannot be {why}"), _MAX_IDS)
                    return why
        kept(self._ids, schema.id, _Form(digest), _MAX_IDS)
        return found

    def _check_topic(self, schema_id: int) -> None:
        """Raises RefusedSchema for one that the table would follow, and that is another topic's."""
        following, name = self._following, self._current.record.name
        if following and (why := following.why_foreign(self._schemas, schema_id, name)):
            raise RefusedSchema(f"{self._title(schema_id)} cannot be followed: {why}. Fix: {Fix.FOREIGN}")

    def _title(self, schema_id: int) -> str:
        """A schema's, in the reasons of its records."""
        return f"schema id {schema_id}"

    def _new_writer(self, text: str) -> Writer | str:
        """Or why not, as the end of a sentence. Others make the schemas: none of them stops the stream."""
        try:
            own = written(text)
            if self._unfollowed and (refusal := self._unfollowed.look_at(_digest(text), own)):
                return f"followed: {refusal}"
            return Writer(own, self._current, self._unknown)
        except UnsupportedSchema as error:
            why = error.__cause__ if isinstance(error.__cause__, Unresolvable) else error
            fix = f". Fix: {Fix.DECLARED}" if self._following and why is not error else ""
            return f"read with the table's columns: {why}{fix}"
        except RecursionError:
            return "read: its types are nested too deeply"
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            pa.ArrowException,
        ) as error:
            return f"read: {type(error).__name__}: {error}"

    def _text(self, schema: RegisteredSchema) -> str:
        """The schema of a record. Raises ValueError."""
        return schema.text


def _digest(form: str) -> str:
    return hashlib.sha256(form.encode(errors="surrogatepass")).hexdigest()


class RegisteredAvroKeys(RegisteredAvro):
    """A :class:`Decoder` of keys of any Avro schema, each as the text of JSON, as
    :mod:`sluice.core.decoding.avro.unknown` writes it."""

    def __init__(self, column: str, schemas: Schemas) -> None:
        super().__init__(_NO_FIELDS, schemas, column, Part.KEY)
        self._column, self._wrapped = column, set[int]()

    def __reduce__(self) -> tuple[Any, ...]:
        return RegisteredAvroKeys, (self._column, self._schemas)

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        found = super().decode(values, headers)
        # A record without fields has none that are unknown.
        whole = pc.if_else(
            found.reasons.is_null(), pc.fill_null(found.columns.column(0), "{}"), found.columns.column(0)
        )
        ids = framed(values, headers, self._part).ids
        is_wrapped = np.isin(ids, [*self._wrapped])
        column = whole
        if is_wrapped.any():
            column = pc.if_else(pa.array(is_wrapped), pc.utf8_slice_codeunits(whole, _BEGIN, -_END), whole)
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.schema), found.reasons)

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        row = super().reference(value, headers)
        assert value is not None  # noqa: S101  (narrows the type)
        schema_id, _ = unframed(value, headers, self._part)
        text = row[self._column] or "{}"
        return {self._column: text[_BEGIN:-_END] if schema_id in self._wrapped else text}

    def _text(self, schema: RegisteredSchema) -> str:
        tree = json.loads(schema.text)
        if isinstance(tree, dict) and tree.get("type") in ("record", "error"):
            return schema.text
        self._wrapped.add(schema.id)
        name = _WRAPPED
        # None that the schema has.
        while name in schema.text:
            name += "_"
        return json.dumps({"type": "record", "name": name, "fields": [{"name": _WRAPPED, "type": tree}]})
