"""The driver's side of a table that follows the schemas of its records: its decoder, and the commit."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sluice.config.reading.further_names import names_of
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.following.conflicts import Fix
from sluice.core.decoding.decoder import RecordDecoder
from sluice.core.decoding.registered.fingerprints import fingerprint_of
from sluice.core.error_codes import ErrorCode
from sluice.core.messages import MAX_CHARACTERS
from sluice.core.registry.errors import RefusedSchema, UnknownSchema
from sluice.core.registry.schemas import Schemas
from sluice.core.schema_versions.table_columns import arrow_schema
from spark_jobs.common.consumer.decoders import decoder_of, following_of
from spark_jobs.common.consumer.followed import ending_of
from spark_jobs.common.consumer.followed_formats import format_of
from spark_jobs.common.lake.followed import documents
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.lake.tables import METRICS
from spark_jobs.common.spark.failures import Unrecoverable

if TYPE_CHECKING:
    from spark_jobs.common.consumer.writer import StreamWriter

log = logging.getLogger(__name__)

# Characters of what to do about several conflicts, of which the first is said otherwise; and of a reason.
_MAX_FIXES, _MIN_REASON = 180, 60


class SchemaNotFollowed(Unrecoverable):
    """A record has a schema that the table cannot follow, and the stream declares that it stops there."""

    code = ErrorCode.SCHEMA_NOT_FOLLOWED


class Follower:
    """The followed schema of one stream's table. For one thread, and one table at a time."""

    def __init__(self, spec: StreamSpec, registry: Schemas) -> None:
        self._spec, self._registry = spec, registry
        self._format, self._ending = format_of(spec), ending_of(spec)
        # None of Sluice's own records: they have no column but those of their schema.
        self._added = spec.records.added_columns if spec.records else {}
        self._stops = spec.records.stops if spec.records else False
        # Whether rows keep what no column has: without it, they wait until it is followed.
        self._keeps_further = bool(spec.records and spec.records.unknown_column)
        # As the format has it.
        self._schema: Any = None
        # The table's, when the decoder was made; empty for the declared schema.
        self._digest = ""
        self._following = following_of(spec)
        # Those of which nothing is followed, as long as the table follows this schema.
        self._refused: set[int] = set()
        # Why Iceberg refuses some of them, as long as the table has its columns and partitions of then.
        self.impossible: dict[int, str] = {}
        self._looked_at: tuple[str, ...] = ()

    def decoder(self, writer: StreamWriter) -> RecordDecoder:
        """The decoder for the table as it is. Raises LakeFileMissing, ConfigError."""
        digest, table = writer.written_schema(), writer.table
        followed = documents.read(writer.client, table.documents(), digest, self._ending) if digest else ""
        self._digest = digest
        looked_at = (digest, str(table.schema()), str(table.partitions()))
        if looked_at != self._looked_at:
            self._looked_at, self.impossible = looked_at, {}
        return self.decoder_of(followed, table)

    def decoder_of(self, followed: str, table: IcebergTable) -> RecordDecoder:
        """The decoder for a ``table`` that follows a schema, its text, empty for the declared one. Raises
        ConfigError."""
        self._schema, self._refused = self._format.table(self._spec, followed), set()
        columns = self._format.columns(self._schema).names
        names = names_of(arrow_schema(table.schema()), columns, self._added, table.partition_names())
        self._following = replace(self._following, names=names, refused=dict(self.impossible))
        found = decoder_of(self._spec, self._registry, followed, self._following)
        assert found is not None
        return found

    def follow(self, writer: StreamWriter, schema_ids: frozenset[int]) -> bool:
        """Make the table follow the schemas with these ids, as far as it can: a commit to its columns.
        Returns whether they are to be decoded again: some are followed, or refused since now. Raises
        SchemaNotFollowed if the stream stops at one of them, what the registry's client does, and as
        ``WriterLease.change_schema``."""
        assert self._schema is not None
        schema, followed, before = self._schema, list[int](), {*self.impossible}
        for schema_id in sorted(schema_ids - self._refused):
            try:
                version = self._registry.get(schema_id)
            # A task knows it: this process was told before that there is none. It asks again later.
            except (UnknownSchema, RefusedSchema) as error:
                if not self._keeps_further:
                    raise
                log.warning("schema not followed yet table=%s: %s", self._spec.table, error)
                continue
            found = self._format.merged(self._following, schema, version)
            reason, fix = found.reason, found.fix
            if found.is_new:
                # It may become one of the topic's: not refused for good.
                name = self._format.name(schema)
                reason, fix = self._following.why_foreign(self._registry, schema_id, name), Fix.FOREIGN
                if not reason and (why := writer.table.refusal(self._format.columns(found.schema))):
                    reason, fix = f"Iceberg refuses its columns: {why}", Fix.NAME
                    self.impossible[schema_id] = f"{reason}. Fix: {fix}"
            if reason and self._stops:
                raise self._stop(schema_id, reason, fix)
            if found.conflicts or schema_id in self.impossible:
                self._refused.add(schema_id)
            elif found.is_new and not reason:
                schema, followed = found.schema, [*followed, schema_id]
        if not followed:
            return self.impossible.keys() != before
        # A fingerprint is no id that a registry could name a version of.
        digest = self._commit(writer, schema, [] if self._spec.follows_fingerprints else followed)
        ids = ",".join(map(self._name, followed))
        log.info("schema followed table=%s ids=%s schema=%s", self._spec.table, ids, digest)
        return True

    def _stop(self, schema_id: int, reason: str, fix: str) -> SchemaNotFollowed:
        """``reason`` as long as what to do still has its place."""
        kind = "Avro schema" if self._spec.follows_fingerprints else "schema id"
        what = f"{self._spec.table}: {kind} {self._name(schema_id)} cannot be followed: "
        fixes = fix if len(fix) <= _MAX_FIXES else fix.partition("; ")[0]
        then = (
            f"; nothing of the batch is published. Fix: {fixes}; or set [records] on_incompatible = "
            f'"quarantine" and trigger {self._spec.name}_stream with action restart'
        )
        space = MAX_CHARACTERS - len(f"{ErrorCode.SCHEMA_NOT_FOLLOWED} {SchemaNotFollowed.__name__}: ")
        space = max(space - len(what) - len(then), _MIN_REASON)
        return SchemaNotFollowed(
            f"{what}{reason if len(reason) <= space else f'{reason[: space - 1]}…'}{then}"
        )

    def _name(self, schema_id: int) -> str:
        return fingerprint_of(schema_id) if self._spec.follows_fingerprints else str(schema_id)

    def _commit(self, writer: StreamWriter, schema: Any, ids: list[int]) -> str:
        table = writer.table
        columns, text = self._format.columns(schema), self._format.text(schema)
        digest = documents.keep(writer.client, table.documents(), text, self._ending)
        properties = {documents.SCHEMA: digest, **self._metrics(table.schema(), columns)}
        writer.change_schema(self._digest, columns, properties, ids)
        return digest

    def _metrics(self, table: Any, columns: pa.Schema) -> dict[str, str]:
        """As ``tables.ensure`` sets them for columns of a partitioned table."""
        if not self._spec.partition_by:
            return {}
        present = {field["name"] for field in table["fields"]}
        new = (field for field in columns if field.name not in present)
        return {f"{METRICS}{field.name}": "counts" for field in new if pa.types.is_string(field.type)}
