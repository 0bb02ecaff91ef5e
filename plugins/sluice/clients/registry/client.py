"""What a registry knows: schemas, subjects and their versions, compatibility.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from sluice.clients.registry.http import USUAL, Answer, Http, Limits
from sluice.config.platform_sections.registry import Registry
from sluice.core.decoding.texts import printable
from sluice.core.messages import quoted
from sluice.core.registry.errors import (
    Forbidden,
    IncompatibleVersion,
    Oversize,
    RefusedSchema,
    RegistryRefused,
    UnknownSchema,
)
from sluice.core.registry.framing import MAX_ID
from sluice.core.registry.schemas import (
    MAX_REFERENCES,
    Bundle,
    Definition,
    RegisteredSchema,
    check_total,
    definition,
    encrypts_fields,
    registered,
)

log = logging.getLogger(__name__)

# The API's codes of a 404: no such subject, version, schema, and no level of compatibility of a subject.
_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA, _NO_LEVEL = 40401, 40402, 40403, 40408
# A subject's version that no number names.
_LATEST = "latest"
# Characters of its message: all differences of two schemas can be long.
_MAX_MESSAGE = 500


@dataclass(frozen=True)
class Version:
    """A version of a subject, and its schema."""

    subject: str
    version: int
    schema: RegisteredSchema


class RegistryClient:
    """One registry, asked each time. Each method raises what :meth:`Http.get` raises."""

    def __init__(self, registry: Registry, limits: Limits = USUAL) -> None:
        self.name = registry.identity
        self._http = Http(registry, limits)

    def bundle(self, schema_id: int) -> Bundle:
        """A schema with all that it refers to. Raises UnknownSchema, RefusedSchema for one that is beyond a
        bound or refers to one that is not there, and Forbidden only if it is the id that the login may not
        have."""
        what = f"schema id {schema_id}"
        answer = self._schema(("schemas", "ids", str(schema_id)), what, {_NO_SCHEMA})
        if encrypts_fields(answer.body):
            log.warning(
                "%s has a rule that encrypts fields: the table gets what they were encrypted to", what
            )
        return self._with_references(schema_id, _definition(answer, what))

    def latest(self, subject: str) -> Version:
        """The newest version of a subject. Raises UnknownSchema, RefusedSchema."""
        return self._version(subject, _LATEST)

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject that are not deleted, rising. Raises UnknownSchema."""
        what = f"subject {quoted(subject)}"
        answer = self._get(("subjects", subject, "versions"), what, {_NO_SUBJECT})
        if not isinstance(answer.body, list) or any(type(one) is not int for one in answer.body):
            raise _no_answer(answer, "a list of numbers")
        return sorted(answer.body)

    def uses(self, schema_id: int) -> list[tuple[str, int]]:
        """The (subject, version) pairs whose schema has this id, sorted. Raises UnknownSchema."""
        return self._uses(schema_id, None)

    def subjects(self, schema_id: int) -> frozenset[str]:
        """Those of :meth:`uses`, also of versions that are deleted, but not for good: their records are still
        on topics. Empty for an id that the registry does not have."""
        try:
            return frozenset(subject for subject, _ in self._uses(schema_id, {"deleted": "true"}))
        except UnknownSchema:
            return frozenset()

    def _uses(self, schema_id: int, query: dict[str, str] | None) -> list[tuple[str, int]]:
        what = f"schema id {schema_id}"
        answer = self._get(("schemas", "ids", str(schema_id), "versions"), what, {_NO_SCHEMA}, query)
        found: list[tuple[str, int]] = []
        for one in answer.body if isinstance(answer.body, list) else [None]:
            match one:
                case {"subject": str(subject), "version": int(version)}:
                    found.append((subject, version))
                case _:
                    raise _no_answer(answer, "a list of subjects and versions")
        return sorted(found)

    def compatibility(self, subject: str) -> str:
        """The level that new versions of a subject are held to, as BACKWARD or NONE: its own, or else that of
        all subjects."""
        for path in (("config", subject), ("config",)):
            # Without the query Apicurio answers NONE for a subject that has no level of its own.
            answer = self._http.get(path, {"defaultToGlobal": "true"})
            if answer.status != 200 and len(path) == 2 and answer.error_code in (_NO_SUBJECT, _NO_LEVEL):
                continue
            level = answer.body.get("compatibilityLevel") if isinstance(answer.body, dict) else None
            if answer.status != 200 or not isinstance(level, str):
                raise _no_answer(answer, "a level of compatibility")
            return level
        raise AssertionError  # The last path raises or returns.

    def register(self, subject: str, text: str) -> int:
        """Make an Avro schema the newest version of a subject, unless it has it; its id. Raises
        IncompatibleVersion, and RefusedSchema for one that the registry takes for none."""
        answer = self._http.post(("subjects", subject, "versions"), {"schema": text})
        if answer.status == 409:
            raise IncompatibleVersion(
                f"subject {quoted(subject)} of the schema registry {quoted(self.name)} refuses the stream's "
                f"schema: {_message(answer)}. Fix: change the schema so that it is compatible (a new field "
                "needs a default), or set the subject's compatibility"
            )
        if answer.status == 422:
            raise RefusedSchema(
                f"the schema registry {quoted(self.name)} takes the stream's schema for none: "
                f"{_message(answer)}. Fix: correct it"
            )
        if answer.status != 200:
            raise _no_answer(answer, "the id of a schema")
        return _schema_id(answer)

    def id_of(self, subject: str, text: str) -> int:
        """The id of an Avro schema that a subject has. Raises UnknownSchema."""
        answer = self._http.post(("subjects", subject), {"schema": text})
        if answer.error_code in (_NO_SUBJECT, _NO_SCHEMA):
            raise UnknownSchema(
                f"subject {quoted(subject)} of the schema registry {quoted(self.name)} does not have the "
                "stream's schema. Fix: clear provision_topic, which registers it, with its downstream tasks"
            )
        if answer.status != 200:
            raise _no_answer(answer, "the id of a schema")
        return _schema_id(answer)

    def close(self) -> None:
        self._http.close()

    def _version(self, subject: str, version: str) -> Version:
        what = f"version {version} of subject {quoted(subject)}"
        answer = self._schema(("subjects", subject, "versions", version), what, {_NO_SUBJECT, _NO_VERSION})
        number, schema_id = _number(answer, "version"), _number(answer, "id")
        bundle = self._with_references(schema_id, _definition(answer, what))
        return Version(subject, number, registered(bundle))

    def _with_references(self, schema_id: int, own: Definition) -> Bundle:
        what = f"schema id {schema_id}"
        referenced: dict[tuple[str, int], Definition] = {}
        waiting = list(own.references)
        while waiting:
            reference = waiting.pop(0)
            if reference.place in referenced:
                continue
            if len(referenced) == MAX_REFERENCES:
                raise RefusedSchema(
                    f"{what} refers to more than {MAX_REFERENCES} schemas, with those of these"
                )
            found = self._reference(reference.subject, reference.version, what)
            referenced[reference.place] = found
            # Before more is fetched.
            check_total(what, [own, *referenced.values()])
            waiting += found.references
        return Bundle(schema_id, own, referenced)

    def _reference(self, subject: str, version: int, what: str) -> Definition:
        named = f"version {version} of subject {quoted(subject)}"
        path = ("subjects", subject, "versions", str(version))
        try:
            # A version that is deleted, but not for good, is still one that others refer to.
            answer = self._schema(path, named, {_NO_SUBJECT, _NO_VERSION}, {"deleted": "true"})
        except UnknownSchema as error:
            raise RefusedSchema(f"{what} refers to {named}, which the registry does not have") from error
        except Forbidden as error:
            raise RegistryRefused(f"{what} refers to {named}: {error}") from error
        return _definition(answer, named)

    def _schema(
        self, path: tuple[str, ...], what: str, missing: set[int], query: dict[str, str] | None = None
    ) -> Answer:
        """As :meth:`_get`, of a path that answers with a schema. Raises RefusedSchema for one that is beyond
        every bound."""
        try:
            return self._get(path, what, missing, query)
        except Oversize as error:
            raise RefusedSchema(f"{what} cannot be read: {error}") from error

    def _get(
        self, path: tuple[str, ...], what: str, missing: set[int], query: dict[str, str] | None = None
    ) -> Answer:
        """The answer. Raises UnknownSchema for a 404 with a code in ``missing``."""
        answer = self._http.get(path, query)
        if answer.error_code in missing:
            raise UnknownSchema(f"{what} is unknown to the schema registry {quoted(self.name)}")
        if answer.status != 200:
            raise _no_answer(answer, "what was asked for")
        return answer


def _definition(answer: Answer, what: str) -> Definition:
    try:
        return definition(answer.body, what)
    except ValueError as error:
        raise _no_answer(answer, f"a schema ({error})") from error


def _number(answer: Answer, key: str) -> int:
    found: Any = answer.body.get(key) if isinstance(answer.body, dict) else None
    if type(found) is not int:
        raise _no_answer(answer, f"a number under {key}")
    return found


def _schema_id(answer: Answer) -> int:
    found = _number(answer, "id")
    if not 0 < found <= MAX_ID:
        raise _no_answer(answer, "the id of a schema")
    return found


def _message(answer: Answer) -> str:
    found = answer.body.get("message") if isinstance(answer.body, dict) else None
    return f"'{printable(str(found)[:_MAX_MESSAGE])}'"


def _no_answer(answer: Answer, expected: str) -> RegistryRefused:
    return RegistryRefused(
        f"{answer.url} answered {answer.status}, and not {expected}: {quoted(str(answer.body))}. Fix: "
        "correct url of [registry] in the role's platform file: it ends before /subjects"
    )
