"""A table's schema with what a further version of it adds and widens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sluice.core.decoding.avro.following.conflicts import (
    NO_COLUMN,
    Combined,
    Conflict,
    Fix,
    Names,
    beyond_bounds,
    described,
    records,
    too_deep,
    without_column,
)
from sluice.core.decoding.avro.following.meanings import is_other, with_meaning
from sluice.core.decoding.avro.following.recursive import as_columns, is_null, is_text, with_columns
from sluice.core.decoding.avro.following.written import optional, schema_text
from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.avro.reference.resolution import (
    Unresolvable,
    default_of,
    is_same_name,
    resolver,
    writers_field,
)
from sluice.core.decoding.avro.types import (
    JSON,
    MAX_PRECISION,
    Field,
    Schema,
    Type,
    UnsupportedSchema,
    arrow_type,
)

_WIDER = {("int", "long"), ("float", "double")}
# Types whose column is a text, and whose values are texts.
_TEXTS = ("enum", "string")


class Merged(Combined[Schema]):
    """A table's Avro schema with another one's."""

    @property
    def text(self) -> str:
        """The schema as JSON."""
        return schema_text(self.schema.record)


def merge(
    table: Schema,
    other: Schema,
    names: Names | None = None,
    *,
    recursive_as_text: bool = False,
    keeps_fields: bool = False,
) -> Merged:
    """The schema ``table`` with what records of ``other`` have beside and beyond it. ``names``: those that
    columns may not have; ``recursive_as_text``: further fields that contain themselves are texts of JSON;
    ``keeps_fields``: the table keeps fields for whose type there is no column elsewhere."""
    if found := too_deep(other.record):
        return Merged(table, conflicts=(found,))
    merging = _Merging(names or Names(), recursive_as_text, keeps_fields)
    record = merging.record(table.record, other.record, "")
    if not merging.conflicts and record == table.record:
        return Merged(table)
    if not merging.conflicts:
        if found := beyond_bounds(record):
            merging.conflicts.append(found)
        try:
            resolver(other.record, record)
        except Unresolvable as error:
            merging.conflicts.append(Conflict(str(error), "what it had", "another type", Fix.TYPE))
    if merging.conflicts:
        return Merged(table, conflicts=tuple(merging.conflicts))
    # Read again: what is followed is what will be kept.
    try:
        return Merged(parsed(schema_text(record)), is_new=True)
    # Records may have what no table can, and two types of a union may have become one.
    except UnsupportedSchema as error:
        found = Conflict("the whole schema", "what columns can be", str(error), Fix.SCHEMA)
        return Merged(table, conflicts=(found,))


class _Merging:
    """Merges two schemas; ``conflicts``: what was found so far."""

    def __init__(self, names: Names, recursive_as_text: bool, keeps_fields: bool) -> None:
        self.conflicts: list[Conflict] = []
        self._names, self._recursive_as_text, self._keeps_fields = names, recursive_as_text, keeps_fields

    def _conflict(self, path: str, table: str, schema: str, fix: Fix = Fix.TYPE) -> None:
        self.conflicts.append(Conflict(path or "the record", table, schema, fix))

    def type(self, table: Type, other: Type, path: str) -> Type:
        if table == other:
            return table
        has_null = _has_null(table)
        if not has_null and _has_null(other):
            table = optional(table)
        if (inner := _inner(other)) is None:
            # Null alone.
            return table
        own = _inner(table)
        if own is None:
            self._conflict(path, described(table), described(other))
            return table
        if own.kind == "union" or inner.kind == "union":
            return self._union(table, own, inner, path)
        merged = self._one(own, inner, path)
        if merged == own:
            return table
        if table.kind != "union":
            return merged
        return replace(table, branches=tuple(merged if one == own else one for one in table.branches))

    def _union(self, table: Type, own: Type, other: Type, path: str) -> Type:
        """Merge unions of several types: their columns have a member for each branch, which stays there."""
        branches, others = own.values, other.values
        # With two of them nothing tells which one a text is.
        is_one_text = sum(one.kind in _TEXTS for one in branches) == 1
        is_same = len(branches) == len(others) and all(
            _is_branch(one, two) or (is_one_text and one.kind in _TEXTS and two.kind in _TEXTS)
            for one, two in zip(branches, others, strict=True)
        )
        if not is_same or own.is_widened or other.is_widened:
            # Each of its branches, not one of them.
            for branch in others or (other,):
                self._check_resolves(table, branch, path)
                if is_other(branches or (own,), branch):
                    self._conflict(path, described(own), described(branch), Fix.MEANING)
            return table
        merged = iter([self.type(*two, path) for two in zip(branches, others, strict=True)])
        return replace(
            table, branches=tuple(one if one.kind == "null" else next(merged) for one in table.branches)
        )

    def _one(self, table: Type, other: Type, path: str) -> Type:
        """Merge two types that are no unions."""
        if is_other([table], other):
            self._conflict(path, described(table), described(other), Fix.MEANING)
            return table
        table = with_meaning(table, other)
        if table.logical == other.logical == "decimal" and table.digits[1] == other.digits[1]:
            if other.digits <= table.digits:
                return table
            if other.digits[0] > MAX_PRECISION:
                self._conflict(path, described(table), described(other))
                return table
            # More digits may not fit into a fixed size.
            return Type("bytes", logical="decimal", digits=other.digits)
        if table.kind == other.kind:
            if table.kind == "record":
                return self.record(table, other, path)
            if table.kind in ("array", "map"):
                return replace(table, items=self.type(table.item, other.item, f"{path}[]"))
            if table.kind == "enum":
                return _enum(table, other)
            if table.kind == "fixed" and not table.logical and table.size == other.size:
                return _known_as(table, other)
            if table.logical.endswith("millis") and other.logical == table.logical.replace(
                "millis", "micros"
            ):
                return replace(table, logical=other.logical)
        elif (table.kind, other.kind) in _WIDER and not table.logical:
            return replace(table, kind=other.kind)
        elif (table.kind, other.kind) == ("enum", "string"):
            # Its column was a text before.
            return Type("string")
        self._check_resolves(table, other, path)
        return table

    def _check_resolves(self, table: Type, other: Type, path: str) -> None:
        try:
            resolver(other, table, path)
        except Unresolvable:
            self._conflict(path, described(table), described(other))

    def record(self, table: Type, other: Type, path: str) -> Type:
        for name, column in _moved(table, other):
            moved = f"{name} in the place of {column}"
            self._conflict(_at(path, name), f"{name} and {column}", moved, Fix.MOVED)
        sources = _sources(table, other)
        fields = [self._field(one, sources.get(one.name), path) for one in table.fields]
        taken = {one.name.lower(): one.name for one in table.fields}
        known = {source.name for source in sources.values()}
        # One column's alone: a field of the name is read into one of them.
        taken_aliases = _taken(table, other)
        further = tuple(one for one in other.fields if one.name not in known)
        # One that has null alone has no column: nothing says what it will have.
        for new in with_columns(further) if self._keeps_fields else further:
            if is_null(new.type):
                continue
            inner = _at(path, new.name)
            if found := next((one.name for one in table.fields if new.name in one.aliases), ""):
                self._conflict(inner, f"it as column {found}", f"a field {found} too", Fix.TWICE)
                continue
            if (same := taken.get(new.name.lower())) is not None:
                self._conflict(inner, f"{same}", f"{new.name}, which differs in case only", Fix.CASE)
                continue
            added = self._added(new, taken_aliases, path)
            self._check_new(added, path)
            taken[new.name.lower()] = new.name
            fields.append(added)
        return replace(table, fields=tuple(fields))

    def _added(self, new: Field, names: set[str], path: str) -> Field:
        # An earlier name of it may come later, from another partition.
        aliases = tuple(alias for alias in new.aliases if alias not in names)
        kind = as_columns(new.type, recursive_as_text=self._recursive_as_text)
        return Field(new.name, optional(kind), aliases, None)

    def _check_new(self, added: Field, path: str) -> None:
        inner = _at(path, added.name)
        if why := self._names.problem(added.name):
            self._conflict(inner, NO_COLUMN, why, Fix.NAME)
        if not path and (found := self._names.in_place_of(added.name, arrow_type(added.type))):
            self._conflict(inner, found, described(added.type.optional), Fix.NAME)
        self.conflicts += without_column(added.type, inner)
        for where, record in records(added.type, inner):
            seen: dict[str, str] = {}
            for one in record.fields:
                if why := self._names.problem(one.name):
                    self._conflict(_at(where, one.name), NO_COLUMN, why, Fix.NAME)
                if (same := seen.setdefault(one.name.lower(), one.name)) != one.name:
                    two = f"{same} too, in another case"
                    self._conflict(_at(where, one.name), NO_COLUMN, two, Fix.NAME)

    def _field(self, table: Field, source: Field | None, path: str) -> Field:
        if source is None:
            return (
                table
                if _has_valid_default(table)
                else replace(table, type=optional(table.type), default=None)
            )
        names = (table.name, *table.aliases)
        aliases = table.aliases if source.name in names else (*table.aliases, source.name)
        kind = self.type(table.type, source.type, _at(path, table.name))
        if kind != table.type and table.has_default and table.default is not None:
            kind = _null_last(kind)
        return replace(table, aliases=aliases, type=kind)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _sources(table: Type, other: Type) -> Mapping[str, Field]:
    """Field of the table -> the other's field that goes on in it: of its name, of one of its aliases, or one
    that has its name as an alias."""
    found = {one.name: source for one in table.fields if (source := writers_field(one, other)) is not None}
    known = {source.name for source in found.values()}
    for one in table.fields:
        if one.name in found:
            continue
        names = {one.name, *one.aliases}
        source = next((f for f in other.fields if f.name not in known and names & {*f.aliases}), None)
        # Its name may be another column's by now.
        if source is not None and not any(
            source.name.lower() in map(str.lower, (each.name, *each.aliases))
            for each in table.fields
            if each.name != one.name
        ):
            found[one.name] = source
            known.add(source.name)
    return found


def _taken(table: Type, other: Type) -> set[str]:
    """Names, also earlier ones, of columns, those of fields, and what two fields of the other record have as
    an earlier name."""
    counts = Counter(alias for one in other.fields for alias in {*one.aliases})
    of_columns = {name for one in table.fields for name in (one.name, *one.aliases)}
    shared = {alias for alias, times in counts.items() if times > 1}
    return of_columns | shared | {one.name for one in other.fields}


def _moved(table: Type, other: Type) -> Iterator[tuple[str, str]]:
    """Fields that have the name of one column, and are another one's by an alias, while the first one is
    claimed by another field's alias: what was renamed to what, by names alone, mixes the two."""
    columns = {one.name for one in table.fields}
    for one in other.fields:
        others = columns & {*one.aliases} - {one.name}
        is_claimed = any(one.name in each.aliases for each in other.fields if each.name != one.name)
        if one.name in columns and others and is_claimed:
            yield one.name, min(others)


def _is_branch(table: Type, other: Type) -> bool:
    """Whether a branch of a union goes on as the table's."""
    if table.kind == JSON:
        return is_text(other)
    is_named = table.name == other.name or is_same_name(other, table)
    return (table.kind, table.logical) == (other.kind, other.logical) and is_named


def _enum(table: Type, other: Type) -> Type:
    symbols = (*table.symbols, *(one for one in other.symbols if one not in table.symbols))
    return _known_as(replace(table, symbols=symbols), other)


def _known_as(table: Type, other: Type) -> Type:
    return table if is_same_name(other, table) else replace(table, aliases=(*table.aliases, other.name))


def _null_last(kind: Type) -> Type:
    """As a default that is not null needs it."""
    order = sorted(kind.branches, key=lambda one: one.kind == "null")
    return replace(kind, branches=tuple(order)) if kind.kind == "union" else kind


def _has_null(kind: Type) -> bool:
    return kind.kind == "null" or any(one.kind == "null" for one in kind.branches)


def _inner(kind: Type) -> Type | None:
    """The type that is not null: itself, the only one of a union, or a union of several; None without one."""
    if kind.kind == "null" or (kind.kind == "union" and not kind.values):
        return None
    return kind.optional


def _has_valid_default(field: Field) -> bool:
    try:
        default_of(field)
    except Unresolvable:
        return False
    return True
