"""A real cluster of one node, as root; this machine reaches its pods, services and API server.

- Network, mounts and processes are its own (namespaces.py): no port, rule or mount of the machine changes.
  If the process that started it dies, in any way, the kernel ends all of it; what is left then, the next
  start removes (running.py).
- The network is closed: pods reach each other and this machine, and no one else. Images come from
  `import_image` only; give them a tag that is not `latest`, or `imagePullPolicy: IfNotPresent`.
- The image store stays in the cache between runs: an import of 2 GB takes half a minute, one of an image that
  is there none. A second node at the same time has an empty store in its folder.
- It has no storage provisioner. `volume(name, size)` makes a volume of a folder, owned by the user of the
  project's images; a claim without a storage class is bound to it.
- NetworkPolicies are stored and not enforced: the bridge plugin knows none.
"""

from __future__ import annotations

import json
import os
import string
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from local.base import SetupError, cache, fail, locked
from tests.k8s.cluster import cgroups, images, packages
from tests.k8s.cluster.namespaces import ALL, NETWORK, Addresses, Namespaces, disconnect, enter, output
from tests.k8s.control_plane import ControlPlane

HERE = Path(__file__).resolve().parent
NAME = "node"
DOMAIN = "cluster.local"
SOCKET = "/run/containerd/containerd.sock"
# Its daemons; all other programs need its network only.
DAEMONS = ("containerd", "kubelet", "kube-proxy")
# The user of the project's images.
OWNER = 10001
# The kubelet wants these of the whole machine: it gets files that say so, and the machine keeps its own.
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


class Node(ControlPlane):
    """`folder`: a new one, for keys, logs, volumes and state; about 1 GB of memory."""

    def __init__(self, folder: Path) -> None:
        self.addresses = Addresses.free()
        names = (self.addresses.api_service, "kubernetes.default.svc")
        super().__init__(folder, self.addresses.node, names)
        self.services = self.addresses.services
        # What `down` does, the last first.
        self._ends = ExitStack()

    def up(self) -> None:
        """Start it; after a failure `down` ends what has started."""
        for name in ("kubelet", "log", "sysctl", "store"):
            (self.folder / name).mkdir()
        store = self._open_store()
        self._ends.callback(cgroups.remove, self.addresses.link)
        self._ends.callback(disconnect, self.addresses.link)
        self.namespaces = Namespaces(self._binaries / "pause", self.folder / "namespaces.log")
        self._ends.callback(self.namespaces.end)
        self._ends.callback(self._kill)
        (self.folder / "first.pid").write_text(str(self.namespaces.first.pid))
        self.namespaces.connect(self.addresses)
        cgroups.create(self.addresses.link)
        self._mount(store)
        super().up()
        self._start_controllers()
        self._start_containerd()
        self._start_kubelet()
        self._start_dns()

    def down(self) -> None:
        """End it, and wait until nothing of it is left on the machine."""
        self._ends.close()

    def ctr(self, *arguments: str) -> str:
        """containerd's own command."""
        return output(*ctr_command(self.namespaces.first.pid), *arguments)

    def import_image(self, archive: Path) -> None:
        """Import the archive of `docker save`, unless all its images are there. Raises SetupError with
        containerd's message."""
        _, *lines = self.ctr("images", "list").splitlines()
        # An image is listed by its names and by its id, each with the same digest.
        digests = {name: digest for name, _, digest, *_ in (line.split() for line in lines)}
        wanted = images.names_of(archive)
        if any(name not in digests or digests[name] != digests.get(id_) for name, id_ in wanted.items()):
            self.ctr("images", "import", str(archive))

    def volume(self, name: str, size: str) -> None:
        client.CoreV1Api(self.api()).create_persistent_volume(make_volume(self.folder, name, size))

    def _kill(self) -> None:
        """The daemons' are nsenter's: they themselves end with the namespaces."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()

    def _mount(self, store: Path) -> None:
        """Own folders in place of the machine's that the daemons write to."""
        run = self.namespaces.run
        # Mounts that a container makes are to be seen by others.
        run("mount", "--make-rshared", "/")
        for path in ("/run", "/var/lib", "/var/log"):
            run("mount", "-t", "tmpfs", "tmpfs", path)
        places = {
            self.folder / "kubelet": "/var/lib/kubelet",
            self.folder / "log": "/var/log",
            store: "/var/lib/containerd",
        }
        for source, target in places.items():
            run("mount", "--bind", "-o", "X-mount.mkdir", source, target)
        run("mount", "--make-rshared", "/var/lib/kubelet")
        for name, value in SYSCTLS.items():
            file = self.folder / "sysctl" / name.replace("/", ".")
            file.write_text(value)
            run("mount", "--bind", file, f"/proc/sys/{name}")

    def _open_store(self) -> Path:
        """The store of the cache, or if another node has it, an empty one."""
        kept = cache() / "node-images"
        kept.mkdir(parents=True, exist_ok=True)
        lock = cache() / "node-images.lock"
        try:
            self._ends.enter_context(locked(lock, partial(fail, BlockingIOError("another node has it"))))
        except BlockingIOError:
            return self.folder / "store"
        return kept

    def _command(self, name: str) -> list[str | Path]:
        """Daemons in all namespaces, with Debian's programs; the others are children of this process."""
        first = self.namespaces.first.pid
        if name not in DAEMONS:
            return [*enter(first, NETWORK), self._binaries / name]
        environment = [f"{key}={value}" for key, value in packages.environment().items()]
        folder = packages.packages().path / "usr" / "bin" if name == "containerd" else self._binaries
        return [*enter(first, ALL), "env", *environment, folder / name]

    def _api_server_options(self) -> list[str]:
        key, certificate = self._keys.path("admin.key"), self._keys.path("admin.crt")
        return [
            "--kubelet-preferred-address-types=InternalIP",
            *(f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}"),
        ]

    def _start_controllers(self) -> None:
        own = [
            *(
                f"--{prefix}kubeconfig={self.kubeconfig}"
                for prefix in ("", "authentication-", "authorization-")
            ),
            *("--bind-address=127.0.0.1", "--leader-elect=false"),
        ]
        self._start(
            "kube-controller-manager",
            *own,
            f"--service-account-private-key-file={self._keys.path('accounts.key')}",
            f"--root-ca-file={self._keys.path('ca.crt')}",
            *("--use-service-account-credentials=true", "--allocate-node-cidrs=false"),
            # By default a folder of the machine, which it would create.
            f"--flex-volume-plugin-dir={self.folder / 'plugins'}",
        )
        self._start("kube-scheduler", *own)

    def _start_containerd(self) -> None:
        network = self.folder / "network"
        network.mkdir()
        (network / "pods.conflist").write_text(json.dumps(self._pod_network()))
        configuration = string.Template((HERE / "containerd.toml").read_text()).substitute(
            pause=images.PAUSE, network=network, plugins=packages.packages().path / "usr" / "lib" / "cni"
        )
        path = self.folder / "containerd.toml"
        path.write_text(configuration)
        self._start("containerd", f"--config={path}")
        self._wait_for("containerd", self._answers)
        for name, program in ((images.PAUSE, "pause"), (images.COREDNS, "coredns")):
            archive = self.folder / f"{program}.tar"
            images.write_program(archive, name, program)
            self.import_image(archive)
            archive.unlink()

    def _answers(self) -> bool:
        try:
            self.ctr("version")
        except SetupError:
            return False
        return True

    def _pod_network(self) -> dict[str, Any]:
        ranges, routes = [[{"subnet": self.addresses.pods}]], [{"dst": "0.0.0.0/0"}]
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": ranges, "routes": routes},
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}

    def _start_kubelet(self) -> None:
        resolver, path = self.folder / "resolv.conf", self.folder / "kubelet.yaml"
        # For pods that do not use the cluster's DNS: nothing else is reached.
        resolver.write_text("nameserver 127.0.0.1\n")
        always = yaml.safe_load((HERE / "kubelet.yaml").read_text())
        own = {
            "cgroupRoot": f"/{self.addresses.link}",
            "authentication": {"x509": {"clientCAFile": str(self._keys.path("ca.crt"))}},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "clusterDNS": [self.addresses.dns],
            "clusterDomain": DOMAIN,
            "resolvConf": str(resolver),
        }
        path.write_text(yaml.safe_dump(always | own))
        client_options = (f"--kubeconfig={self.kubeconfig}", f"--hostname-override={NAME}")
        self._start("kubelet", f"--config={path}", *client_options, f"--node-ip={self.addresses.node}")
        self._start(
            "kube-proxy",
            *client_options,
            *(f"--cluster-cidr={self.addresses.pods}", "--proxy-mode=iptables"),
            # The limits of connection tracking are the machine's.
            *("--conntrack-max-per-core=0", "--conntrack-min=0"),
            # Lower ones need a right that containers do not have.
            "--oom-score-adj=0",
        )
        self._wait_for("kubelet", self._is_node_ready)
        self._wait_for("kube-controller-manager", self._has_account)

    def _is_node_ready(self) -> bool:
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self.kubectl("get", "node", NAME, "-o", path).stdout == "True"

    def _has_account(self) -> bool:
        return self.kubectl("get", "serviceaccount", "default").returncode == 0

    def _start_dns(self) -> None:
        manifest = self.folder / "coredns.yaml"
        text = string.Template((HERE / "coredns.yaml").read_text())
        manifest.write_text(text.substitute(dns=self.addresses.dns, image=images.COREDNS, domain=DOMAIN))
        for arguments in (
            ("apply", "-f", str(manifest)),
            ("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s"),
        ):
            done = self.kubectl(*arguments, seconds=100)
            assert done.returncode == 0, done.stderr


def ctr_command(first: int) -> list[str]:
    """`first`: the process id of the namespaces' first process."""
    program = packages.packages().path / "usr" / "bin" / "ctr"
    return [*enter(first, ALL), str(program), "--address", SOCKET, "--namespace", "k8s.io"]


def make_volume(folder: Path, name: str, size: str) -> dict[str, Any]:
    """Make the folder of a volume; give its resource, whose claim names no storage class."""
    path = folder / "volumes" / name
    path.mkdir(parents=True)
    os.chown(path, OWNER, OWNER)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }
