"""The environment of child processes: an allowlist. No imports: the parent process of a component reads it.

Airflow's own environment has its Fernet key, its JWT secret, its database's password and connections.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Variables of the machine and its user: the same for every process.
_MACHINE = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    }
)
_MACHINE_PREFIXES = ("LC_",)
# What Spark's jobs, drivers and workers get too, with what finds a cluster and its user.
_CHILD = _MACHINE | {
    *("PATH", "TMPDIR", "HOSTNAME", "LD_LIBRARY_PATH", "SPT_NOENV"),
    *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
    *("HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KRB5CCNAME", "KRB5_CONFIG"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
}
_CHILD_PREFIXES = (*_MACHINE_PREFIXES, "SPARK_", "PYSPARK_", "PYTHON", "SLUICE_")
# Where AWS's configuration lies: for a login by a profile, and for the default chain.
_AWS_FILES = frozenset({"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"})
# What AWS's default chain reads: keys, profile, web identity, container, instance.
AWS_CHAIN = _AWS_FILES | {
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    *("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    *("AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    *("AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
    *("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "AWS_STS_REGIONAL_ENDPOINTS"),
}
# All passwords of the containers, of `make compose-env`'s file; a person's, who triggers DAGs.
_SECRET = frozenset({"SLUICE_SECRETS", "SLUICE_AIRFLOW_PASSWORD"})


def machine_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that would make a program behave differently on every machine."""
    return _chosen(environ, _MACHINE, _MACHINE_PREFIXES)


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that Airflow, or a component's parent process, starts: without what
    platform files refer to (``sluice.clients.processes.variables``)."""
    return _chosen(environ, _CHILD, _CHILD_PREFIXES)


def referenced_by(document: Any) -> Iterator[str]:
    """The variables to which a platform file refers, ``{ env = "NAME" }``. ``document``: as TOML has it."""
    if isinstance(document, dict):
        if list(document) == ["env"] and isinstance(document["env"], str):
            yield document["env"]
        for element in document.values():
            yield from referenced_by(element)


def of_aws_login(document: Mapping[str, Any]) -> frozenset[str]:
    """The variables that the login of a platform file's ``[s3]`` or ``[kafka]`` reads by itself: AWS's
    default chain, alone or below a role. Empty for keys and for a token's file."""
    s3, kafka = (document.get(name) for name in ("s3", "kafka"))
    if isinstance(kafka, dict) and kafka.get("sasl_mechanism") == "AWS_MSK_IAM":
        return AWS_CHAIN
    if not isinstance(s3, dict) or s3.get("access_key") or s3.get("web_identity_token_file"):
        return frozenset()
    return _AWS_FILES if s3.get("profile") else AWS_CHAIN


def forgettable(names: Iterable[str]) -> frozenset[str]:
    """Those to which a file refers without what every process needs, as PATH."""
    return frozenset(names) - _CHILD


def _chosen(environ: Mapping[str, str], names: Iterable[str], prefixes: tuple[str, ...]) -> dict[str, str]:
    allowed = frozenset(names) - _SECRET
    return {
        name: value
        for name, value in environ.items()
        if name in allowed or (name.startswith(prefixes) and name not in _SECRET)
    }
