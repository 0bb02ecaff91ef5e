"""The rights of a role's service account on Kubernetes, as ``k8s/`` grants them."""

from __future__ import annotations

from collections.abc import Mapping

# API group and resource (with a colon and its name, if the right is on one object) -> verbs.
Verbs = Mapping[tuple[str, str], tuple[str, ...]]
# role-runtime.yaml and role-connections.yaml: what starts components and jobs, and hands them connections.
_AIRFLOW: Verbs = {
    ("batch", "jobs"): ("get", "create", "patch", "delete"),
    ("", "pods"): ("get", "list", "watch", "create", "patch", "delete"),
    ("", "pods/log"): ("get",),
    ("", "events"): ("list",),
    ("", "secrets:sluice-connections"): ("get", "patch"),
}
_OBSERVER: Verbs = {
    ("batch", "jobs"): ("get",),
    ("", "pods"): ("get", "list"),
    ("", "events"): ("list",),
}
# In addition, where the Spark operator runs applications.
_OPERATOR: Mapping[str, Verbs] = {
    "airflow": {
        ("sparkoperator.k8s.io", "sparkapplications"): ("get", "create", "patch", "delete"),
        ("sparkoperator.k8s.io", "sparkapplications/status"): ("get",),
    },
    "observer": {("sparkoperator.k8s.io", "sparkapplications"): ("get",)},
}
# role-kafka-topics.yaml, of [strimzi].
TOPICS: Verbs = {("kafka.strimzi.io", "kafkatopics"): ("list", "create", "patch")}


def verbs(role: str, *, with_operator: bool) -> Verbs:
    """What the role may do in the namespace of ``[kubernetes]``."""
    usual: Mapping[str, Verbs] = {"airflow": _AIRFLOW, "observer": _OBSERVER}
    return {**usual.get(role, {}), **(_OPERATOR.get(role, {}) if with_operator else {})}


def granted(role: str) -> Verbs:
    """All that ``k8s/`` grants the role there: a right of these is not one too many."""
    return verbs(role, with_operator=True)
