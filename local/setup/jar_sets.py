"""The jars: resolved by the Ivy inside PySpark, taken only with the SHA-256 that is pinned for them."""

from __future__ import annotations

from pathlib import Path

from local import shell
from local.errors import Problem
from local.progress import Step
from local.setup.artifacts import sha256
from local.setup.targets import HERE, JAR_HASHES, environment, pinned_jars


def make_jar_set(folder: Path, jar_set: str, java_home: Path, work: Path, step: Step) -> None:
    """Fills `folder` with the jars of a set. Raises Problem when Ivy fails or a jar is not the pinned one."""
    resolve(folder, jar_set, java_home, work, step)
    found = {path.name: sha256(path) for path in folder.iterdir()}
    complaint = differences(found, pinned_jars(jar_set))
    if complaint:
        raise Problem(
            f"the {jar_set} jars are not the pinned ones ({JAR_HASHES.name}): {complaint}; "
            "if that is meant, run make lock"
        )


def resolve(folder: Path, jar_set: str, java_home: Path, work: Path, step: Step) -> None:
    """Fetches a set as its Ivy file in local/ivy says, unchecked."""
    folder.mkdir(parents=True)
    found = sorted((environment().path / "lib").glob("python3.*/site-packages/pyspark/jars/ivy-*.jar"))
    if not found:
        raise Problem(f"no Ivy jar inside PySpark under {environment().path}: run make setup again")
    shell.run(
        [
            java_home / "bin" / "java",
            "-jar",
            found[0],
            *(
                "-cache",
                work / f"ivy-{jar_set}",
                "-ivy",
                HERE / "ivy" / f"{jar_set}.xml",
                "-confs",
                "default",
            ),
            *("-types", "jar", "bundle", "-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        ],
        step,
        work / f"jars-{jar_set}.log",
    )


def differences(found: dict[str, str], pinned: dict[str, str]) -> str:
    """What is missing, unexpected or different, in words; empty when all is as pinned."""
    lines = [f"{name} is missing" for name in sorted(pinned.keys() - found.keys())]
    lines += [f"{name} is not pinned" for name in sorted(found.keys() - pinned.keys())]
    lines += [
        f"{name} has SHA-256 {found[name]} instead of {pinned[name]}"
        for name in sorted(pinned.keys() & found.keys())
        if found[name] != pinned[name]
    ]
    return "; ".join(lines)
