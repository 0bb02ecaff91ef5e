"""The environment of child processes: an allowlist. No imports: the parent process of a component reads it.

Airflow's own environment has its Fernet key, its JWT secret, its database's password and connections.
"""

from collections.abc import Iterable, Mapping

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
# All passwords of the containers, of `make compose-env`'s file; a person's, who triggers DAGs.
_SECRET = frozenset({"SLUICE_SECRETS", "SLUICE_AIRFLOW_PASSWORD"})


def machine_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that would make a program behave differently on every machine."""
    return _chosen(environ, _MACHINE, _MACHINE_PREFIXES)


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that Airflow, or a component's parent process, starts: without what
    platform files refer to (``sluice.clients.processes.variables``)."""
    return _chosen(environ, _CHILD, _CHILD_PREFIXES)


def _chosen(environ: Mapping[str, str], names: Iterable[str], prefixes: tuple[str, ...]) -> dict[str, str]:
    allowed = frozenset(names) - _SECRET
    return {
        name: value
        for name, value in environ.items()
        if name in allowed or (name.startswith(prefixes) and name not in _SECRET)
    }
