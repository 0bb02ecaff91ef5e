"""The health statuses that alert a person: a new one must be sorted into its consequence on purpose."""

from __future__ import annotations

from sluice.supervision.rules.status import Health

ALERTING = frozenset(
    {
        Health.LAGGING,
        Health.REJECTING,
        Health.DATA_AT_RISK,
        Health.DATA_LOST,
        Health.TOPIC_RECREATED,
        Health.FENCED,
        Health.SOURCE_UNAVAILABLE,
        Health.WAITING_FOR_TRANSACTION,
        Health.INCOMPATIBLE_SCHEMA,
        Health.LOGIN_REFUSED,
        Health.IMAGE_MISSING,
        Health.QUOTA_EXCEEDED,
        Health.UNSCHEDULABLE,
        Health.NOT_STARTED,
        Health.EXECUTOR_PREEMPTED,
        Health.UNKNOWN,
    }
)
