"""A Kubernetes control plane on free ports of loopback: etcd and the API server, with no controllers.

Nothing it stores is acted on: a pod stays Pending, a namespace that is deleted stays Terminating. With
controllers, and in a network of its own, it is part of cluster.node.Node.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from local.runtime.context import with_parent
from local.runtime.ports import HOST, free_ports, free_range
from tests.k8s import artifacts

START_SECONDS = 60.0
ISSUER = "https://kubernetes.default.svc"


class ControlPlane:
    """`folder`: a new one, for keys, logs and etcd's data; about 400 MB of memory.

    `address`: the API server's. `names`: other addresses and names that its clients use.
    """

    services = "10.96.0.0/16"

    def __init__(self, folder: Path, address: str = HOST, names: Sequence[str] = ()) -> None:
        self.folder = folder
        self.address = address
        self.kubeconfig = folder / "kubeconfig"
        self._binaries = artifacts.binaries().path
        self._etcd, self._peers, self._port = free_ports(3, set(), free_range(os.environ))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._keys = Keys(folder, [address, *names])
        self.kubeconfig.write_text(yaml.safe_dump(self.kubeconfig_of(self._keys.admin())))
        self.kubeconfig.chmod(0o600)

    def up(self) -> None:
        etcd, peers = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peers))
        self._start(
            "etcd",
            *(f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync=true", "--name=default"),
            *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
            f"--initial-cluster=default={peers}",
        )
        self.up_api_server()

    def up_api_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            *(f"--bind-address={self.address}", f"--advertise-address={self.address}"),
            f"--secure-port={self._port}",
            *(
                f"--tls-cert-file={self._keys.path('api.crt')}",
                f"--client-ca-file={self._keys.path('ca.crt')}",
            ),
            f"--tls-private-key-file={self._keys.path('api.key')}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self._keys.path('accounts.pub')}",
            f"--service-account-signing-key-file={self._keys.path('accounts.key')}",
            *(f"--service-cluster-ip-range={self.services}", "--authorization-mode=RBAC"),
            # As clusters have it: the namespace is what refuses privileged pods.
            "--allow-privileged=true",
            *self._api_server_options(),
        )
        self._wait_for("kube-apiserver", self._is_ready)

    def _api_server_options(self) -> list[str]:
        # Without a controller no service account would get what this plugin asks of every pod.
        return ["--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"]

    def crash_api_server(self) -> None:
        self._end("kube-apiserver", signal.SIGKILL)

    def up_controllers(self, *names: str) -> None:
        """Start these controllers of Kubernetes."""
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(names)}",
            *("--leader-elect=false", "--secure-port=0"),
            f"--flex-volume-plugin-dir={self.folder / 'plugins'}",
        )

    def down_controllers(self) -> None:
        self._end("kube-controller-manager", signal.SIGTERM)

    def down(self) -> None:
        """In this order: without etcd the API server would not end."""
        for name in ("kube-apiserver", "etcd"):
            if name in self._processes:
                self._end(name, signal.SIGTERM)

    def api(self) -> Any:
        """A client as the administrator."""
        found = client.Configuration()
        config.load_kube_config_from_dict(self.kubeconfig_of(self._keys.admin()), client_configuration=found)
        return client.ApiClient(found)

    def kubeconfig_of(self, user: dict[str, str]) -> dict[str, Any]:
        """``user``: a token, or the paths of a certificate and its key."""
        server = {"server": f"https://{self.address}:{self._port}"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": server | {"certificate-authority": str(self._keys.path("ca.crt"))},
                }
            ],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    def login(self, account: str, namespace: str, folder: Path) -> str:
        """The path of a kubeconfig, in `folder`, of a service account."""
        request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
        core = client.CoreV1Api(self.api())
        token = core.create_namespaced_service_account_token(account, namespace, request).status.token
        path = folder / f"{account}.yaml"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self.kubeconfig_of({"token": token})))
        return str(path)

    def kubectl(self, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        """As a person calls it; its exit code is the caller's to check."""
        environment = os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.folder / "kubectl"),
        }
        command = [str(self._binaries / "kubectl"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)

    def _is_ready(self) -> bool:
        try:
            # Ready, and its own objects are there: namespaces, and the roles of the administrator.
            client.CoreV1Api(self.api()).read_namespace("default", _request_timeout=5)
        except (client.ApiException, HTTPError, OSError):
            return False
        return self.kubectl("get", "--raw", "/readyz").returncode == 0

    def _command(self, name: str) -> list[str | Path]:
        """What starts the program."""
        return [self._binaries / name]

    def _start(self, name: str, *options: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            # KILL: with TERM the API server would wait for an etcd that has ended before it.
            command = with_parent(*self._command(name), *options, signal="KILL")
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def _wait_for(self, name: str, is_ready: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Wait for a program; an AssertionError ends with its log."""
        deadline = time.monotonic() + seconds
        while not is_ready():
            log = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
            assert self._processes[name].poll() is None, f"{name} has ended: {log}"
            assert time.monotonic() < deadline, f"{name} is not ready: {log}"
            time.sleep(0.1)

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Keys:
    """A certificate authority, the API server's certificate, an administrator's, and keys for tokens.

    `hosts`: the API server's addresses and names.
    """

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        self._folder = folder
        self._ca_key, authority = _key(), _name("test-ca")
        self._ca = self._certificate(authority, authority, self._ca_key, [x509.BasicConstraints(True, None)])
        self._write("ca.crt", self._ca.public_bytes(serialization.Encoding.PEM))
        names = [_host(text) for text in hosts]
        self._leaf("api", _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)
        self._leaf("admin", _name("admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH, [])
        accounts = _key()
        self._write("accounts.key", _pem(accounts))
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        self._write("accounts.pub", accounts.public_key().public_bytes(serialization.Encoding.PEM, public))

    def path(self, name: str) -> Path:
        return self._folder / name

    def admin(self) -> dict[str, str]:
        return {
            "client-certificate": str(self.path("admin.crt")),
            "client-key": str(self.path("admin.key")),
        }

    def _leaf(
        self, name: str, subject: x509.Name, usage: x509.ObjectIdentifier, hosts: list[x509.GeneralName]
    ) -> None:
        key = _key()
        extensions: list[x509.ExtensionType] = [
            x509.BasicConstraints(False, None),
            x509.ExtendedKeyUsage([usage]),
        ]
        if hosts:
            extensions.append(x509.SubjectAlternativeName(hosts))
        made = self._certificate(subject, self._ca.subject, key, extensions)
        self._write(f"{name}.crt", made.public_bytes(serialization.Encoding.PEM))
        self._write(f"{name}.key", _pem(key))

    def _certificate(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: rsa.RSAPrivateKey,
        extensions: Sequence[x509.ExtensionType],
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._ca_key, hashes.SHA256())

    def _write(self, name: str, data: bytes) -> None:
        path = self.path(name)
        path.touch(mode=0o600)
        path.write_bytes(data)


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)
