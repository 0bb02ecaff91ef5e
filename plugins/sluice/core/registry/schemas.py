"""Registered schemas: what a registry and the kept documents say of one, and what a decoder reads of it.

A schema, with all that it refers to, is a :class:`Bundle`; as JSON it is what is kept. A
:class:`RegisteredSchema` is made of it, whose text needs no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sluice.core.json_record import Document
from sluice.core.messages import quoted
from sluice.core.registry import avro_references
from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import check_size

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
TYPES = (AVRO, JSON, PROTOBUF)
# References of a schema, with those of these; and bytes of all of their texts.
MAX_REFERENCES = 100
MAX_TOTAL_BYTES = 4 << 20
# The rule of a schema by which a producer encrypts all of a record.
_ENCRYPTS_ALL = "ENCRYPT_PAYLOAD"
# The form of kept documents, and their folder in the ledger: no stream's name begins with "_".
_FORM = 1
KEPT_PREFIX = "_registries"


@dataclass(frozen=True)
class Reference:
    """Another schema that a schema uses. ``name``: by which it does; ``subject``, ``version``: where that is
    registered."""

    name: str
    subject: str
    version: int

    @property
    def place(self) -> tuple[str, int]:
        return self.subject, self.version


@dataclass(frozen=True)
class Definition:
    """A schema as it was registered. ``type``: one of TYPES."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Bundle:
    """A schema and all that it refers to. ``referenced``: subject and version -> definition."""

    id: int
    definition: Definition
    referenced: Mapping[tuple[str, int], Definition]


@dataclass(frozen=True)
class RegisteredSchema:
    """What a schema id stands for."""

    id: int
    """As records name it."""
    type: str
    """One of TYPES."""
    text: str
    """With all types that it uses, of AVRO; else as it was registered."""
    imports: tuple[tuple[str, str], ...] = ()
    """The names by which a schema of PROTOBUF, and what it imports, import others, and their texts."""


class Schemas(Protocol):
    """The schemas of a registry. Can be pickled."""

    def get(self, schema_id: int) -> RegisteredSchema:
        """Raises UnknownSchema or RefusedSchema, whose text is why a record that names it is rejected; and
        RegistryUnreachable or RegistryRefused if nothing is known of it."""

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        """Those of ``among`` that have it as a version, deleted ones too; none for an id that the registry
        does not have. Raises RegistryUnreachable or RegistryRefused if it does not say."""


def registered(bundle: Bundle) -> RegisteredSchema:
    """The schema; of AVRO with what it refers to. Raises RefusedSchema for one that is beyond a bound, and
    for one of AVRO that does not fit together."""
    own, what = bundle.definition, f"schema id {bundle.id}"
    check_total(what, [own, *bundle.referenced.values()])
    text = own.text
    if own.type == AVRO:
        text = avro_references.self_contained(text, [one.text for one in bundle.referenced.values()], what)
    imports = tuple(sorted(_by_name(bundle, what).items())) if own.type == PROTOBUF else ()
    return RegisteredSchema(bundle.id, own.type, text, imports)


def _by_name(bundle: Bundle, what: str) -> dict[str, str]:
    places: dict[str, tuple[str, int]] = {}
    for one in (bundle.definition, *bundle.referenced.values()):
        for reference in one.references:
            if places.setdefault(reference.name, reference.place) != reference.place:
                raise RefusedSchema(f"{what} has two references of the name {quoted(reference.name)}")
    return {name: bundle.referenced[place].text for name, place in places.items()}


def check_total(what: str, definitions: Iterable[Definition]) -> None:
    """Raises RefusedSchema for more than MAX_REFERENCES, a larger text than one may have, and more than
    MAX_TOTAL_BYTES of them."""
    total, number = 0, -1
    for number, one in enumerate(definitions):
        check_size(one.text, what if not number else f"a schema to which {what} refers")
        total += len(one.text.encode(errors="surrogatepass"))
    if number > MAX_REFERENCES:
        raise RefusedSchema(f"{what} refers to {number} schemas, more than {MAX_REFERENCES}")
    if total > MAX_TOTAL_BYTES:
        raise RefusedSchema(f"{what} has {total} bytes with its references, more than {MAX_TOTAL_BYTES}")


def definition(answer: Any, what: str) -> Definition:
    """A definition as the API gives it. Raises ValueError for another form, RefusedSchema for a type that is
    none of TYPES."""
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise ValueError("it has no text under schema")
    # Without a type it is of Avro, the only one when the API was made.
    kind = answer.get("schemaType") or AVRO
    if kind not in TYPES:
        raise RefusedSchema(f"{what} is of type {quoted(str(kind))}, which is not read")
    if _ENCRYPTS_ALL in _rules(answer, "encodingRules"):
        raise RefusedSchema(f"{what} has a rule that encrypts whole records, which are not read")
    found = answer.get("references") or []
    if not isinstance(found, list):
        raise ValueError("its references are no list")
    if len(found) > MAX_REFERENCES:
        raise RefusedSchema(f"{what} refers to {len(found)} schemas, more than {MAX_REFERENCES}")
    return Definition(kind, answer["schema"], tuple(_reference(one, what) for one in found))


def encrypts_fields(answer: Any) -> bool:
    """Whether a schema as the API gives it has a rule by which producers encrypt fields: what is read of
    them is what they encrypted."""
    return bool({"ENCRYPT"} & _rules(answer, "domainRules"))


def _rules(answer: Any, kind: str) -> set[str]:
    """The types of a schema's rules of a kind.
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/data-contracts.html"""
    found = answer.get("ruleSet") if isinstance(answer, dict) else None
    rules = found.get(kind) if isinstance(found, dict) else None
    return (
        {str(rule.get("type")) for rule in rules or () if isinstance(rule, dict)}
        if isinstance(rules, list)
        else set()
    )


def _reference(found: Any, what: str) -> Reference:
    if not isinstance(found, dict):
        raise ValueError("a reference is no object")
    name, subject, version = (found.get(key) for key in ("name", "subject", "version"))
    if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
        raise ValueError("a reference lacks its name, subject or version")
    # -1 is the latest, another one each time; and a path's steps are no names.
    if version < 1 or subject in ("", ".", ".."):
        raise RefusedSchema(f"{what} refers to version {version} of subject {quoted(subject)}, which is none")
    return Reference(name, subject, version)


def document(bundle: Bundle) -> Document:
    """As it is kept: the same for the same schema, by any process."""
    return {
        "form": _FORM,
        "id": bundle.id,
        **_written(bundle.definition),
        "referenced": [
            {"subject": subject, "version": version, **_written(one)}
            for (subject, version), one in sorted(bundle.referenced.items(), key=lambda item: item[0])
        ],
    }


def _written(one: Definition) -> Document:
    references = [
        {"name": reference.name, "subject": reference.subject, "version": reference.version}
        for reference in one.references
    ]
    return {"schemaType": one.type, "schema": one.text, "references": references}


def bundle_of(kept: Any, schema_id: int) -> Bundle:
    """What a kept document says. Raises ValueError for one that does not say it of this id, RefusedSchema."""
    what = f"schema id {schema_id}"
    if not isinstance(kept, dict) or kept.get("form") != _FORM or kept.get("id") != schema_id:
        raise ValueError(f"it is no document of {what}")
    others = kept.get("referenced")
    if not isinstance(others, list):
        raise ValueError("it has no list under referenced")
    referenced = {
        (str(one["subject"]), int(one["version"])): definition(one, what)
        for one in others
        if isinstance(one, dict) and "subject" in one and "version" in one
    }
    found = Bundle(schema_id, definition(kept, what), referenced)
    for one in (found.definition, *referenced.values()):
        for reference in one.references:
            if reference.place not in referenced:
                raise ValueError(f"it lacks {quoted(reference.subject)} version {reference.version}")
    return found
