"""Files of a certificate: replaced one after the other, away for a moment, written by other tools; followed
for Java whatever happens meanwhile."""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from sluice.clients.polling import wait_for
from sluice.clients.tls import certificates as tls
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, check, ended, keystore
from tests.support.certificates import Authority
from tests.support.raising import raising


@pytest.fixture
def files(tmp_path: Path) -> ClientCertificate:
    certificate, key = Authority(tmp_path).issue("sluice", file="tls")
    return ClientCertificate(str(certificate), str(key))


def other(folder: Path) -> tuple[bytes, bytes]:
    certificate, key = Authority(folder).issue("other")
    return certificate.read_bytes(), key.read_bytes()


def later(change: object, seconds: float = 0.2) -> threading.Timer:
    timer = threading.Timer(seconds, change)  # type: ignore[arg-type]
    timer.start()
    return timer


def held(kept: tls.Keystore) -> str:
    found = pkcs12.load_key_and_certificates(Path(kept.path).read_bytes(), kept.password.encode())
    assert found[0] is not None
    assert found[1] is not None
    return found[1].subject.rfc4514_string()


def test_a_key_that_comes_just_after_its_certificate_is_waited_for(
    files: ClientCertificate, tmp_path: Path
) -> None:
    certificate, key = other(tmp_path / "other")
    Path(files.certificate).write_bytes(certificate)
    timer = later(lambda: Path(files.key).write_bytes(key))
    check(files)
    timer.join()


def test_a_file_that_is_away_for_a_moment_is_waited_for(files: ClientCertificate) -> None:
    content = Path(files.key).read_bytes()
    Path(files.key).unlink()
    timer = later(lambda: Path(files.key).write_bytes(content))
    check(files)
    timer.join()


def test_what_does_not_fit_together_for_long_is_said_at_once(
    files: ClientCertificate, tmp_path: Path
) -> None:
    Path(files.certificate).write_bytes(other(tmp_path / "other")[0])
    for path in files.files:
        os.utime(path, (time.time() - 60, time.time() - 60))
    began = time.monotonic()
    with raising(CertificateUnusable, "cannot be used (", "KEY_VALUES_MISMATCH"):
        check(files)
    assert time.monotonic() - began < 0.5


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["-", "byte order mark"])
def test_what_windows_and_chains_have_is_taken(files: ClientCertificate, tmp_path: Path, mark: bytes) -> None:
    path = Path(files.certificate)
    both = path.read_bytes() + (tmp_path / "ca.pem").read_bytes()
    path.write_bytes(mark + both.replace(b"\n", b"\r\n"))
    Path(files.key).write_bytes(mark + Path(files.key).read_bytes().replace(b"\n", b"\r\n"))
    assert held(keystore(files)) == "CN=sluice"


def test_a_passphrase_of_a_key_that_is_not_encrypted_is_no_error(files: ClientCertificate) -> None:
    made = ClientCertificate(files.certificate, files.key, "phrase")
    check(made)
    assert held(keystore(made)) == "CN=sluice"


def test_the_keystore_is_followed_whatever_happens_meanwhile(
    files: ClientCertificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tls, "KEYSTORE_SECONDS", 0.02)
    monkeypatch.setattr(tls, "SETTLING_SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    kept, certificate = keystore(files), Path(files.certificate)
    good = certificate.read_bytes()
    for content in (b"", b"-----BEGIN CERTIFICATE-----\nhalf", b"\x00\xff", None):
        caplog.clear()
        certificate.unlink() if content is None else certificate.write_bytes(content)
        assert wait_for(lambda: str(certificate) in caplog.text, 20, 0.02, bool)
        time.sleep(0.3)
        assert held(kept) == "CN=sluice", "the one before is in use"
        (said,) = (one for one in caplog.messages if str(certificate) in one)
        assert said.startswith("client certificate not read again, those before are in use: ")
        certificate.write_bytes(good)
        assert wait_for(lambda: f"read again files={certificate}" in caplog.text, 20, 0.02, bool)
    with monkeypatch.context() as patched:
        caplog.clear()

        def fail(*_: object) -> None:
            raise MemoryError("an error of another kind")

        patched.setattr(tls, "_write", fail)
        Authority(tmp_path / "late").issue("late", file="tls")
        certificate.write_bytes((tmp_path / "late/tls.crt").read_bytes())
        Path(files.key).write_bytes((tmp_path / "late/tls.key").read_bytes())
        assert wait_for(lambda: "error of another kind" in caplog.text, 20, 0.02, bool)
    assert wait_for(lambda: held(kept), 20, 0.02, lambda name: name == "CN=late") == "CN=late"
    Path(kept.path).unlink()
    Path(kept.path).parent.rmdir()
    assert wait_for(lambda: Path(kept.path).exists(), 20, 0.02, bool), "a folder that was tidied up"
    assert held(kept) == "CN=late"


def test_a_certificate_that_ended_is_named_also_when_its_file_is_gone(tmp_path: Path) -> None:
    certificate, _ = Authority(tmp_path).issue("sluice", valid=timedelta(hours=-1))
    name = f"the certificate {certificate} ended 1 h ago"
    assert ended(str(certificate)) == name
    certificate.write_bytes(b"half")
    assert ended(str(certificate)).startswith(f"{name}, and no other one can be read there (")
    certificate.unlink()
    said = ended(str(certificate))
    assert said == f"{name}, and no other one can be read there (No such file or directory)"
    assert ended(str(tmp_path / "never")) == ""


def test_a_file_that_is_gone_is_no_reason_while_its_certificate_is_valid(files: ClientCertificate) -> None:
    check(files)
    Path(files.certificate).unlink()
    assert ended(files.certificate) == ""
