"""Why there is no schema: of a record, or of all."""

from __future__ import annotations

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable


class UnknownSchema(Missing):
    """The registry does not have it. A record that names it is rejected, with the text as its reason."""

    code = ErrorCode.SCHEMA_NOT_FOUND


class NotLookedUp(UnknownSchema):
    """The registry was not asked, since it did not have very many others that records named. A record that
    names it is rejected all the same."""


class RefusedSchema(Refused):
    """The registry has it, and it cannot be used. A record that names it is rejected, with the text as its
    reason."""

    code = ErrorCode.SCHEMA_REFUSED


class NotPrepared(RefusedSchema):
    """It was not made ready for use, since very many others that records named took the time for it. A record
    that names it is rejected all the same."""


class IncompatibleVersion(Refused):
    """The subject's rule refuses the schema as its next version: nothing is sent with it."""

    code = ErrorCode.SCHEMA_INCOMPATIBLE


class RegistryRefused(Refused):
    """The registry rejects every request, or is none: nothing is known of a schema."""

    code = ErrorCode.REGISTRY_REFUSED


class RegistryLogin(RegistryRefused):
    """The registry refuses the login, its token or its certificate, or is not verified. It goes on once that
    is corrected."""

    code = ErrorCode.REGISTRY_LOGIN


class Forbidden(RegistryRefused):
    """The login is known, and may not have this one thing."""


class Oversize(RegistryRefused):
    """An answer is larger, or nested more deeply, than the one that was asked for can be."""


class RegistryUnreachable(Unreachable):
    """The registry did not answer: nothing is known of a schema, and a retry may succeed."""

    code = ErrorCode.REGISTRY_UNREACHABLE
