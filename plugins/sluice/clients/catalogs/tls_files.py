"""Files of a REST catalog's encrypted connections, read again by new ones after they were replaced."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.clients.catalogs.errors import login_refused
from sluice.clients.tls.certificates import (
    CertificateUnusable,
    ClientCertificate,
    check_valid,
    load,
    trusting,
)
from sluice.clients.tls.followed import Followed
from sluice.config.platform_sections.catalog import TLS
from sluice.config.postgresql import CERTIFICATE_FIELDS


class TlsFiles:
    """``context`` is that of all connections of one catalog."""

    def __init__(self, ca: str, found: ClientCertificate) -> None:
        """Raises Refused for files that cannot be used."""
        self.ca, self._found = ca, found
        files = tuple(filter(None, (ca, *found.files)))
        # Reads them again if they were replaced.
        self.follow = Followed(files, "certificates of the catalog", self._read).follow
        try:
            self.context = trusting(ca)
            self._read()
        except CertificateUnusable as error:
            raise login_refused("the lake's catalog", str(error)) from error

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TlsFiles | None:
        """Those that PyIceberg's properties name; None without any."""
        ca = properties.get(f"{TLS}sslrootcert", "")
        found = ClientCertificate(*(properties.get(f"{TLS}{name}", "") for name in CERTIFICATE_FIELDS))
        return cls(ca, found) if ca or found.certificate else None

    def _read(self) -> None:
        if self.ca:
            self.context.load_verify_locations(self.ca)
        if self._found.certificate:
            # In another context first: a key that does not fit would stay in this one.
            check_valid(self._found)
            load(self.context, self._found)
