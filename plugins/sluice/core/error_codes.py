"""Error codes: one per failure that a user meets; ``error_guide`` has their fixes. Standard library only."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class ErrorCode(StrEnum):
    """A code; ``summary`` is its title. A code is never given to another failure."""

    summary: str

    def __new__(cls, value: str, summary: str) -> ErrorCode:
        code = str.__new__(cls, value)
        code._value_, code.summary = value, summary
        return code

    # Configuration and set-up.
    INVALID_CONFIGURATION = "SLU-101", "Invalid configuration"
    CONNECTION_NOT_FOUND = "SLU-102", "Airflow connection not found"
    INCOMPATIBLE_SCHEMA = "SLU-103", "Table is incompatible with the declaration"
    INVALID_PARAMETER = "SLU-104", "Invalid parameter of a run"
    DOCUMENT_NOT_FOUND = "SLU-105", "Result of an earlier task is missing"
    SECRET_NOT_FOUND = "SLU-106", "Secret missing or unreadable"
    # Systems.
    SYSTEM_UNREACHABLE = "SLU-200", "System unreachable"
    KAFKA_UNREACHABLE = "SLU-201", "Kafka unreachable"
    KAFKA_PERMISSION = "SLU-202", "Kafka permission denied"
    TOPIC_NOT_FOUND = "SLU-203", "Topic not found"
    TOPIC_MISMATCH = "SLU-204", "Topic differs from the declaration"
    TOPIC_NOT_READY = "SLU-205", "KafkaTopic not ready"
    DAMAGED_BATCH = "SLU-206", "Damaged record batch"
    OFFSETS_MISSING = "SLU-207", "Offsets missing without a reason"
    LOG_TRUNCATED = "SLU-208", "Log truncated"
    TRANSACTION_OPEN = "SLU-209", "Transaction does not end"
    KAFKA_LOGIN = "SLU-210", "Kafka login refused"
    S3_UNREACHABLE = "SLU-211", "S3 unreachable"
    S3_PERMISSION = "SLU-212", "S3 permission denied"
    OBJECT_NOT_FOUND = "SLU-213", "Object not found"
    S3_LOGIN = "SLU-214", "S3 login refused"
    CATALOG_UNREACHABLE = "SLU-221", "Catalog unreachable"
    TABLE_NOT_FOUND = "SLU-222", "Table not found in the lake"
    TABLE_LOST = "SLU-223", "Table lost by the catalog"
    LAKE_FILE_MISSING = "SLU-224", "File of a table is gone"
    TABLE_REPLACED = "SLU-225", "Table replaced by another one"
    CATALOG_PERMISSION = "SLU-226", "Catalog permission denied"
    CATALOG_BROKEN = "SLU-227", "Catalog breaks a promise"
    CATALOG_LOGIN = "SLU-228", "Catalog login refused"
    CATALOG_KEYS = "SLU-229", "Catalog's keys of a table missing or refused"
    DATABASE_UNREACHABLE = "SLU-231", "Database of a sink unreachable"
    DATABASE_REFUSED = "SLU-232", "Database of a sink refused the request"
    DATABASE_TABLE = "SLU-233", "Table of a sink missing or different"
    DATABASE_LOGIN = "SLU-234", "Login to a sink's database refused"
    NOT_DELIVERED = "SLU-241", "Notification not delivered"
    KUBERNETES_UNREACHABLE = "SLU-251", "Kubernetes unreachable"
    KUBERNETES_REFUSED = "SLU-252", "Kubernetes refused the request"
    REGISTRY_UNREACHABLE = "SLU-261", "Schema registry unreachable"
    REGISTRY_REFUSED = "SLU-262", "Schema registry refused the request"
    SCHEMA_NOT_FOUND = "SLU-263", "Schema not found in the registry"
    SCHEMA_REFUSED = "SLU-264", "Registered schema cannot be used"
    REGISTRY_CHANGED = "SLU-265", "Kept schema is another one or damaged"
    SCHEMA_INCOMPATIBLE = "SLU-266", "Schema incompatible with its subject"
    REGISTRY_LOGIN = "SLU-267", "Schema registry login refused"
    CONNECTION_FINDING = "SLU-281", "Connection check has findings"
    REQUEST_REFUSED = "SLU-290", "Request refused"
    # Sources and records.
    CORRUPT_OBJECT = "SLU-302", "Corrupt object"
    INVALID_HEADER = "SLU-303", "Invalid header line"
    SOURCE_TOPIC_CHANGED = "SLU-304", "Topic changed since the load was planned"
    NO_EVENTS = "SLU-305", "No events in time"
    RUN_ID_REUSED = "SLU-306", "Run id has an earlier plan"
    OFFSETS_NOT_THERE = "SLU-307", "Offsets are not on the topic"
    RULES_CHANGED = "SLU-308", "Load was planned by other rules"
    POSITION_UNKNOWN = "SLU-309", "Position of the feed is unknown"
    INTERVAL_EMPTY = "SLU-311", "Interval has no file"
    FILE_CORRECTED = "SLU-312", "Corrected file not loaded"
    KEY_ALREADY_LOADED = "SLU-313", "Object has other content than the one loaded before"
    SENT_IN_PART = "SLU-314", "Older version of the object was sent in part"
    ROWS_REJECTED = "SLU-315", "Rows of the object would be rejected"
    INTERVAL_INCOMPLETE = "SLU-316", "Interval is not known to be complete"
    # Verification and reconciliation.
    LOAD_NOT_VERIFIED = "SLU-401", "Load verification failed"
    BATCH_NOT_VERIFIED = "SLU-402", "Batch verification failed"
    SINKS_DIFFER = "SLU-403", "Sinks differ from the lake"
    QUERIES_BEHIND = "SLU-404", "Queries have not processed the load"
    OVER_BUDGET = "SLU-405", "Storage budget exceeded"
    ROWS_DIFFER = "SLU-406", "Compaction would change rows"
    COMPACTION_NOT_VERIFIED = "SLU-407", "Compaction verification failed"
    NOT_PUBLISHED = "SLU-408", "Load not published"
    DECODERS_DIFFER = "SLU-409", "Two decoders differ"
    ROWS_UNPLACED = "SLU-410", "Rows without an offset"
    CHANGE_REFUSED = "SLU-420", "Change refused"
    CHANGE_NOT_VERIFIED = "SLU-421", "Change not verified"
    CHANGE_NOT_COMPARABLE = "SLU-422", "Change cannot be compared any more"
    RECONCILIATION_FINDING = "SLU-430", "Reconciliation has findings"
    # Components: consumer, producer, queries.
    PROCESS_FAILED = "SLU-500", "Component or Spark job failed"
    FENCED = "SLU-501", "Fenced by another writer"
    LEASE_NOT_ACQUIRED = "SLU-502", "Consumer did not acquire the lease"
    SUSPENDED = "SLU-503", "Stream is suspended"
    COMPONENT_DOWN = "SLU-504", "Component is down or did not recover"
    CHECKPOINT_CORRUPTED = "SLU-505", "Checkpoint corrupted or incomplete"
    UNRECOVERABLE = "SLU-507", "Topic and table do not fit together"
    CONCURRENT_COMMIT = "SLU-508", "Concurrent commits to main"
    UNDELIVERED = "SLU-509", "Kafka did not acknowledge records"
    CLOCK_SET_BACK = "SLU-510", "Clock is behind the table"
    MAINTENANCE_OVERDUE = "SLU-511", "Maintenance is overdue"
    DEADLINE_MISSED = "SLU-512", "Supervision missed its deadline"
    WAIT_FAILED = "SLU-513", "Wait in the triggerer failed"
    DECODING_ENDS = "SLU-514", "Records end the process that decodes them"
    ACCOUNT_LOST = "SLU-515", "Account of offsets lost"
    SCHEMA_NOT_FOLLOWED = "SLU-516", "Schema that the table cannot follow"
    # Supervision: one per health status that fails a task.
    HEALTH_LAGGING = "SLU-601", "Health: lagging"
    HEALTH_DATA_AT_RISK = "SLU-602", "Health: data at risk"
    HEALTH_DATA_LOST = "SLU-603", "Health: data lost"
    HEALTH_TOPIC_RECREATED = "SLU-604", "Health: topic recreated"
    HEALTH_FENCED = "SLU-605", "Health: fenced"
    HEALTH_SOURCE_UNAVAILABLE = "SLU-606", "Health: source unavailable"
    HEALTH_UNKNOWN = "SLU-607", "Health: unknown"
    HEALTH_IMAGE_MISSING = "SLU-608", "Health: image missing"
    HEALTH_QUOTA_EXCEEDED = "SLU-609", "Health: quota exceeded"
    HEALTH_UNSCHEDULABLE = "SLU-610", "Health: unschedulable"
    HEALTH_EXECUTOR_PREEMPTED = "SLU-611", "Health: executor preempted"
    HEALTH_NOT_STARTED = "SLU-612", "Health: not started"
    HEALTH_REJECTING = "SLU-613", "Health: rejecting"
    HEALTH_FLAPPING = "SLU-614", "Health: flapping"
    HEALTH_WAITING_FOR_TRANSACTION = "SLU-615", "Health: waiting for a transaction"
    HEALTH_INCOMPATIBLE_SCHEMA = "SLU-616", "Health: incompatible schema"
    HEALTH_LOGIN_REFUSED = "SLU-617", "Health: login refused"
    # Queries and sinks.
    SINK_WRITE_FAILED = "SLU-701", "Sink write failed"
    PARTIAL_SNAPSHOT_READ = "SLU-702", "Query read a part of a snapshot"
    # The embedded stack (local/base.py has these as text: it runs before anything is installed).
    COMMAND_FAILED = "SLU-801", "Command cannot run"
    SETUP_FAILED = "SLU-802", "Set-up failed"
    SERVICE_UNHEALTHY = "SLU-803", "Service did not become healthy"
    DRILL_FAILED = "SLU-804", "Drill failed"


# A system does not let this one in, or is not the one that its certificate must name, or the secret to log in
# with is not there (yet): corrected by a person, and not by a restart; then it goes on by itself.
LOGINS = frozenset(
    {
        ErrorCode.SECRET_NOT_FOUND,
        ErrorCode.KAFKA_LOGIN,
        ErrorCode.S3_LOGIN,
        ErrorCode.CATALOG_LOGIN,
        ErrorCode.DATABASE_LOGIN,
        ErrorCode.REGISTRY_LOGIN,
    }
)
# A further attempt finds the same.
PERMANENT = frozenset(
    {
        ErrorCode.INVALID_CONFIGURATION,
        ErrorCode.INCOMPATIBLE_SCHEMA,
        ErrorCode.TABLE_LOST,
        ErrorCode.TABLE_REPLACED,
        ErrorCode.CATALOG_BROKEN,
        ErrorCode.LAKE_FILE_MISSING,
        ErrorCode.REGISTRY_CHANGED,
        ErrorCode.SCHEMA_INCOMPATIBLE,
        ErrorCode.SCHEMA_NOT_FOLLOWED,
        ErrorCode.CORRUPT_OBJECT,
        ErrorCode.INVALID_HEADER,
        ErrorCode.OFFSETS_NOT_THERE,
        ErrorCode.POSITION_UNKNOWN,
        ErrorCode.RULES_CHANGED,
        ErrorCode.ROWS_DIFFER,
        ErrorCode.CHANGE_REFUSED,
        ErrorCode.CHANGE_NOT_COMPARABLE,
    }
)
CODE = re.compile(r"\bSLU-\d{3}\b")


def code_of(error: BaseException) -> ErrorCode:
    """The ``code`` of an exception; PROCESS_FAILED for those that are not Sluice's."""
    code = getattr(error, "code", None)
    return code if isinstance(code, ErrorCode) else ErrorCode.PROCESS_FAILED


def coded(code: ErrorCode, error: E) -> E:
    """A builtin exception with a code."""
    error.code = code  # type: ignore[attr-defined]
    return error


def code_in(text: str) -> ErrorCode | None:
    """The first code in a text."""
    found = CODE.search(text)
    return next((code for code in ErrorCode if found and code == found[0]), None)


def with_code(code: ErrorCode, message: object) -> str:
    """The message with a code in front: its own if it has one there."""
    text = str(message)
    return text if CODE.match(text) else f"{code} {text}"
