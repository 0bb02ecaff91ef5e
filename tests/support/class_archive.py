"""How JVMs of tests start: compiled once and quickly, and Spark's with its classes from an archive.

A job of Spark's loads and checks 20,000 classes, which takes longer than most tests' work. The JVM can keep
them in a file that it maps instead (class data sharing); where the file does not fit, it goes on without. It
is made once, beside what `make setup` keeps.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from local import base
from local.setup import cache as targets
from local.setup.bootstrap import java_home

log = logging.getLogger(__name__)

# Short lives: what C2 would compile never pays.
QUICK = "-XX:TieredStopAtLevel=1"
SECONDS = 300
JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.range(100).selectExpr("id % 3 AS k").groupBy("k").count().collect()
spark.stop()
"""
# As Spark's own launcher opens them.
OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def class_path() -> str:
    """Jars only, and all of them: an archive fits where the class path begins with the one it was made of."""
    return f"{targets.jars('spark').path}/*:{_pyspark() / 'jars'}/*"


@cache
def java_options() -> str:
    """For every JVM; made of :func:`class_path`, those of Spark's start in half the time."""
    try:
        archive = _archive()
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("no archive of Spark's classes; its jobs start slower: %s", error)
        return QUICK
    # What does not fit it would say on stdout, which belongs to the job.
    return f"{QUICK} -XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr"


def _pyspark() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


def _archive() -> Path:
    home = java_home()
    made_of = (class_path(), str(home), (home / "release").read_text(), JOB, repr(SETTINGS))
    name = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    archive = base.cache() / f"classes-{name}.jsa"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            _make(archive, home)
    return archive


def _make(archive: Path, home: Path) -> None:
    """Where JVM and job end well."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        job, made = Path(folder, "job.py"), Path(folder, "classes.jsa")
        job.write_text(JOB)
        settings = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
        command = [str(home / "bin" / "java"), "-cp", class_path(), QUICK, f"-XX:ArchiveClassesAtExit={made}"]
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
        environment = {name: text for name, text in os.environ.items() if name != "SPARK_CONF_DIR"}
        subprocess.run(
            [*command, *opened, "org.apache.spark.deploy.SparkSubmit", *settings, str(job)],
            env=environment | {"SPARK_HOME": str(_pyspark()), "PYSPARK_PYTHON": sys.executable},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
        made.rename(archive)
