"""What each health status means, what follows it, and the way out, for pages, alerts and the tables of docs/;
docs/operating.md has a section of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.supervision.rules.status import LEFT_ALONE, NO_ACTION, RESTARTABLE, Health


@dataclass(frozen=True)
class Guide:
    """``way_out``: empty if no person has to do anything. ``{stream}``: the stream's name."""

    meaning: str
    way_out: str = ""

    def for_stream(self, stream: str) -> Guide:
        return Guide(self.meaning, self.way_out.replace("{stream}", stream))


GUIDES: Mapping[Health, Guide] = {
    Health.HEALTHY: Guide(
        "It makes progress, and its lag is at most what arrives within the stall timeout; or all was just "
        "published."
    ),
    Health.IDLE: Guide("Everything is published, and nothing arrives."),
    Health.CATCHING_UP: Guide(
        "It makes progress, and its lag is more than what arrives within the stall timeout, and does not "
        "grow steadily."
    ),
    Health.STARTING: Guide("The process runs, and does not work yet; or its runtime is restarting it."),
    Health.SUSPENDED: Guide(
        "A user stopped it, until a user starts it again.",
        "Trigger {stream}_stream with action start when it may run again.",
    ),
    Health.STALLED: Guide(
        "The process runs with a lag and without progress for the stall timeout, or without lease or "
        "heartbeat for the startup timeout. Supervision kills it and starts it again.",
        "If it stalls again and again: read its log and a thread dump; if its batches are that long, raise "
        "stall_timeout_seconds.",
    ),
    Health.DOWN: Guide(
        "The process does not run. Supervision starts it, unless it ended over its configuration.",
        "The message and the end of its log have the cause. After a configuration error correct that, then "
        "trigger {stream}_stream with action restart.",
    ),
    Health.FLAPPING: Guide(
        "Restarts did not help, so supervision makes no more of them, and waits for a person.",
        "Repair the cause that its log names, then trigger {stream}_stream with action restart; or with "
        "action stop, to keep it stopped.",
    ),
    Health.LAGGING: Guide(
        "It makes progress, and its lag keeps growing for lag_window_seconds.",
        "Reduce the arrivals, or give it more processors or partitions; of a known peak wait.",
    ),
    Health.REJECTING: Guide(
        "More than max_rejected_percent of the last records are malformed: they are in quarantine, and not "
        "in the table.",
        "Read the reasons in the quarantine, the table beside the stream's whose name ends in _quarantine. "
        "Correct what sends the records; or the schema or decoder, then trigger {stream}_change with action "
        "retry_quarantine. To leave them there, trigger {stream}_stream with action start.",
    ),
    Health.DATA_AT_RISK: Guide(
        "Retention deletes unread records within retention_margin_seconds.",
        "Make the stream publish, and raise the topic's retention.ms at once.",
    ),
    Health.DATA_LOST: Guide(
        "Retention deleted records before they were read.",
        "Give the stream a new table, upload the files again, and raise the topic's retention.ms.",
    ),
    Health.TOPIC_RECREATED: Guide(
        "The topic is another one of the same name.",
        "Give the stream a new table, or restore the topic.",
    ),
    Health.FENCED: Guide(
        "The process ended because another writer works in its place.",
        "Find the second process, and end one of the two.",
    ),
    Health.SOURCE_UNAVAILABLE: Guide(
        "The process works, and its feed has not answered for stall_timeout_seconds.",
        "Check that the feed works and can be reached; no restart helps.",
    ),
    Health.WAITING_FOR_TRANSACTION: Guide(
        "The next records are behind an open transaction, for the stall timeout: of another program, or of "
        "a feed's producer that is down.",
        "Let the producer that the message names end its transaction, or abort it; start a feed's. No "
        "restart of the consumer helps.",
    ),
    Health.INCOMPATIBLE_SCHEMA: Guide(
        "The consumer ended before a record whose schema its table cannot follow, as the stream declares.",
        'Set on_incompatible = "quarantine" under [records], or, without a release, records.on_incompatible '
        "in the overrides of the installation: its records are quarantined. Or give the stream a new table. "
        "Then trigger {stream}_stream with action restart.",
    ),
    Health.LOGIN_REFUSED: Guide(
        "A system refuses its login, its certificate or its token, or no token is given to it, or its secret "
        "is missing. It is tried again, after a minute at most (on Kubernetes six); that counts as no "
        "restart.",
        "Do what the message says. It goes on by itself with the next attempt.",
    ),
    Health.NODE_LOST: Guide(
        "Its node in the cluster does not answer. Supervision starts it again, elsewhere.",
        "Repair the node, or delete it from the cluster.",
    ),
    Health.OUT_OF_MEMORY: Guide(
        "It was killed at its memory limit. Kubernetes or supervision starts it again.",
        "Raise driver_memory under [cluster] in its stream.toml, then trigger {stream}_stream with action "
        "restart.",
    ),
    Health.IMAGE_MISSING: Guide(
        "The cluster cannot pull its image.",
        "Push the image, or correct image under [kubernetes] in airflow.toml; then trigger {stream}_stream "
        "with action restart.",
    ),
    Health.QUOTA_EXCEEDED: Guide(
        "The namespace's quota has no room for it.",
        "Raise the ResourceQuota, or lower its requests.",
    ),
    Health.UNSCHEDULABLE: Guide(
        "No node of the cluster has room for it.",
        "Add nodes, or lower its requests.",
    ),
    Health.NOT_STARTED: Guide(
        "The cluster makes no pod for it, or has not started that for startup_timeout_seconds.",
        "The message or the pod's events have the reason: a Secret, a volume or a right is missing.",
    ),
    Health.EXECUTOR_PREEMPTED: Guide(
        "It makes no progress: pods of a higher priority took the place of its executors.",
        "Add nodes, or give its pods a higher priority class.",
    ),
    Health.UNKNOWN: Guide(
        "A system did not answer, or the observation was too short to tell.",
        "The message names the system: check that it runs, and its rights.",
    ),
}


def consequence(health: Health) -> str:
    """What follows, of a consumer."""
    if health in NO_ACTION:
        return "nothing"
    if health in RESTARTABLE:
        return "restart"
    return "red until a person acts" if health in LEFT_ALONE else "red"
