"""The archive of Spark's classes that set-up makes fits the JVM that a stack's jobs start."""

from __future__ import annotations

import subprocess

from local.services.streams import spark_defaults
from local.setup.cache import pyspark
from tests.support.services import Services

MAIN = "org.apache.spark.deploy.SparkSubmit"


def test_a_job_s_jvm_takes_spark_s_classes_from_the_archive(services: Services) -> None:
    context = services.stack.context
    settings = dict(line.split(" ", 1) for line in spark_defaults(context).splitlines())
    # As Spark's launcher does: the given jars, the folder of its configuration, its own jars.
    class_path = (
        f"{settings['spark.driver.extraClassPath']}:{context.home.conf}/:{pyspark(context.python_env)}/jars/*"
    )
    options = settings["spark.driver.extraJavaOptions"].split()
    command = [str(context.java), "-cp", class_path, *options, "-Xlog:class+load:stdout", MAIN, "--version"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert f"{MAIN} source: shared objects file (top)" in loaded.stdout, loaded.stderr
