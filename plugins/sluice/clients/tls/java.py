"""The CAs that a JVM trusts, with those of a PEM file beside them; by Py4J's view of the JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sluice.clients.tls.certificates import trusting

# The system property of the JVM, and the beginning of two others.
STORE = "javax.net.ssl.trustStore"


def trust_store(jvm: Any, ca: str, name: str) -> Any:
    """A KeyStore in the JVM's memory: what the JVM trusts, and the certificates of the file ``ca``, if there
    is one, under ``name`` and a number. Raises CertificateUnusable."""
    get = jvm.java.lang.System.getProperty
    path, password = get(STORE), get(f"{STORE}Password")
    if not path:
        # Java's own has this password, or none.
        path, password = f"{get('java.home')}/lib/security/cacerts", password or "changeit"
    characters_of = characters(jvm, password) if password else None
    store = jvm.java.security.KeyStore.getInstance(jvm.java.io.File(path), characters_of)
    if not ca:
        return store
    # As Python's clients do, which say what is wrong with the file.
    trusting(ca)
    factory = jvm.java.security.cert.CertificateFactory.getInstance("X.509")
    found = factory.generateCertificates(jvm.java.io.ByteArrayInputStream(Path(ca).read_bytes()))
    for number, certificate in enumerate(found):
        store.setCertificateEntry(f"{name} {number}", certificate)
    return store


def characters(jvm: Any, text: str) -> Any:
    """An array of Java's. A String would come back as one of Python's."""
    writer = jvm.java.io.CharArrayWriter()
    writer.write(text, 0, len(text))
    return writer.toCharArray()
