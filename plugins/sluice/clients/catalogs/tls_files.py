"""Files of a REST catalog's encrypted connections, read again by new ones after they were replaced."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping

from sluice.clients.catalogs.errors import login_refused
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, check_valid, load, state
from sluice.config.platform_sections.catalog import TLS
from sluice.config.postgresql import CERTIFICATE_FIELDS

log = logging.getLogger(__name__)


class TlsFiles:
    """``context`` is that of all connections of one catalog."""

    def __init__(self, ca: str, found: ClientCertificate) -> None:
        """Raises Refused for files that cannot be used."""
        self.ca, self._found = ca, found
        self._files = tuple(filter(None, (ca, *found.files)))
        self._seen = state(self._files)
        try:
            self.context = ssl.create_default_context(cafile=ca or None)
            self._read()
        except (OSError, CertificateUnusable) as error:
            said = str(error) if isinstance(error, CertificateUnusable) else f"{ca} cannot be used ({error})"
            raise login_refused("the lake's catalog", said) from error

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TlsFiles | None:
        """Those that PyIceberg's properties name; None without any."""
        ca = properties.get(f"{TLS}sslrootcert", "")
        found = ClientCertificate(*(properties.get(f"{TLS}{name}", "") for name in CERTIFICATE_FIELDS))
        return cls(ca, found) if ca or found.certificate else None

    def follow(self) -> None:
        """Read them again if they were replaced; not if they do not fit together: certificate and key are
        replaced one after the other."""
        found = state(self._files)
        if found is None or found == self._seen:
            return
        try:
            self._read()
        except (OSError, CertificateUnusable) as error:
            log.warning("certificates of the catalog not read again: %s", error)
            return
        self._seen = found
        log.info("certificates of the catalog read again files=%s", ",".join(self._files))

    def _read(self) -> None:
        if self.ca:
            self.context.load_verify_locations(self.ca)
        if self._found.certificate:
            # In another context first: a key that does not fit would stay in this one.
            check_valid(self._found)
            load(self.context, self._found)
