"""The login to S3 of a job's JVM, and a login that S3 refuses, behind whatever a job failed with."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

from sluice.clients.s3.errors import S3LoginRefused, asking
from sluice.clients.s3.login.java import is_chain_alone, system_properties
from sluice.clients.s3.requests import BRIEF, connect, split_prefix
from sluice.clients.tls.certificates import CertificateUnusable
from sluice.clients.tls.java import STORE, characters, trust_store
from sluice.config.platform import Platform
from sluice.config.reading.toml import ConfigError
from sluice.core.errors import ClientError
from spark_jobs.common.spark.refusals import explained_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def has_executors(spark: SparkSession) -> bool:
    """Whether tasks run in other JVMs than the driver's, which may be on other machines."""
    return not str(spark.sparkContext.master).startswith("local")


def log_in(spark: SparkSession, platform: Platform) -> None:
    """Tell the JVM the login of ``[s3]`` and its CA, in time if before its first request to S3.

    Raises ConfigError for a login that the JVMs of executors cannot have, and S3LoginRefused without the CA.
    """
    s3 = platform.s3
    if has_executors(spark) and not (s3.has_fixed_login or is_chain_alone(s3) or platform.lake.vends):
        raise ConfigError(
            f"{platform.role}.toml: s3 has a role, a profile or a token's file, which the executors' JVMs on "
            "other machines cannot use. Fix: give the executors' service account the role itself, and leave "
            "the login of [s3] empty; or declare executors = 0 under [cluster]"
        )
    system = cast("Any", spark._jvm).java.lang.System
    for name, value in system_properties(s3).items():
        system.setProperty(name, value)
    if s3.ca_location:
        trust(spark, s3.ca_location)


def trust(spark: SparkSession, ca_location: str) -> None:
    """Make the JVM's trust store one that has the certificates of a PEM file beside those before."""
    jvm = cast("Any", spark._jvm)
    try:
        store = trust_store(jvm, ca_location, ca_location)
    except CertificateUnusable as error:
        raise S3LoginRefused(f"[s3] ca_location: {error}. Fix: put a readable PEM file there") from error
    folder, password = tempfile.mkdtemp(prefix="sluice-truststore-"), token_hex(16)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = str(Path(folder, "truststore"))
    target = jvm.java.io.FileOutputStream(made)
    try:
        store.store(target, characters(jvm, password))
    finally:
        target.close()
    for name, value in (("", made), ("Password", password), ("Type", store.getType())):
        jvm.java.lang.System.setProperty(f"{STORE}{name}", value)


def explained(platform: Platform) -> AbstractContextManager[None]:
    """Raises S3LoginRefused, with the server's words, instead of what it led to: Java's clients say so in
    many ways, and an answer to a HEAD has no words."""
    return explained_by(lambda: refusal(platform))


def refusal(platform: Platform) -> S3LoginRefused | None:
    """Why a new request is refused; None if it is not, or nothing answers."""
    bucket, prefix = split_prefix(platform.lake.ledger)
    try:
        with asking(f"s3://{bucket}"):
            connect(platform.s3, BRIEF).list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/", MaxKeys=1)
    except S3LoginRefused as error:
        return error
    except ClientError:
        return None
    return None
