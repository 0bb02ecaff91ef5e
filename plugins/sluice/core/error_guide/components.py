"""Failures of components, queries and sinks; those of a health are in the health's guide."""

from __future__ import annotations

from sluice.core.error_codes import ErrorCode
from sluice.core.error_guide.guide import ErrorGuide

ERRORS = {
    ErrorCode.PROCESS_FAILED: ErrorGuide(
        cause="An error without a code of its own: Java, Kafka, PostgreSQL",
        fix="read the text and the log above it; a component is restarted, a job is retried",
    ),
    ErrorCode.FENCED: ErrorGuide(
        cause="A later epoch holds the lease, or another producer of the feed has started. Exit code 76",
        fix="[find the second process](operating.md#fenced-by-another-writer)",
    ),
    ErrorCode.LEASE_NOT_ACQUIRED: ErrorGuide(
        cause="The process runs, and no epoch was published within 3 minutes. Retried",
        fix="[see the runbook](operating.md#consumer-did-not-acquire-the-lease)",
    ),
    ErrorCode.SUSPENDED: ErrorGuide(
        cause="A user stopped it; the text has name, time and reason",
        fix="trigger `<stream>_stream` with action start, then clear the task",
    ),
    ErrorCode.COMPONENT_DOWN: ErrorGuide(
        cause="It ended during its start (retried), keeps ending, or does not work after its restart",
        fix="[a restart fails](operating.md#a-restart-fails)",
    ),
    ErrorCode.CHECKPOINT_CORRUPTED: ErrorGuide(
        cause="The plan or the state of a batch is missing in the checkpoint. Nothing of the batch was "
        "published",
        fix="[see the runbook](operating.md#checkpoint-corrupted)",
    ),
    ErrorCode.UNRECOVERABLE: ErrorGuide(
        cause="Records were deleted before they were read, or the topic was recreated. Exit code 78 (1 if "
        "only its end offsets show it)",
        fix="[deleted records](operating.md#records-were-deleted-before-they-were-read), [recreated "
        "topic](operating.md#topic-was-recreated)",
    ),
    ErrorCode.CONCURRENT_COMMIT: ErrorGuide(
        cause="Maintenance or another program changed `main` during each of six tries, or during a "
        "compaction or the comparison of a change (then retried); or a write lasted more than 12 hours, "
        "so its files may have been [deleted](architecture.md#files-are-deleted-late)",
        fix="end the program that commits; the consumer continues from `main`",
    ),
    ErrorCode.UNDELIVERED: ErrorGuide(
        cause="Kafka was unreachable for 5 minutes, or rejects a transaction (rights, "
        "`min.insync.replicas`), or the producer stood still within one for as long",
        fix="repair Kafka; the producer is restarted and resumes behind the last committed event",
    ),
    ErrorCode.CLOCK_SET_BACK: ErrorGuide(
        cause="Iceberg accepts a commit up to 60 s before the table's newest change; the text has both "
        "times. The machine's clock was set back, or was ahead before. Nothing was committed. The "
        "component is restarted (a job: retried) until a commit succeeds. In `remove_files`: a record of "
        "metadata is from the future, and nothing was deleted; in `verify_table`: the state that a run "
        "verified is, and nothing was verified",
        fix="correct the clock, or [wait until the time in the text](operating.md#clock-is-behind-the-table)",
    ),
    ErrorCode.MAINTENANCE_OVERDUE: ErrorGuide(
        cause="The consumer is well, and no run of `<stream>_maintenance` was complete for three "
        "intervals (`maintenance.schedule_hours`): it is paused, or each run fails. Reported by every "
        "check until one is complete",
        fix="unpause it; if its runs fail, see the text of the failed task. Meanwhile nothing is lost: "
        "small files and old metadata grow",
    ),
    ErrorCode.DEADLINE_MISSED: ErrorGuide(
        cause="A run of `<stream>_stream` did not end within three intervals of being queued: the "
        "scheduler, the triggerer or the API server does not run or is overloaded, so the stream is not "
        "checked",
        fix="`make status`; start what is missing, then see the run that the text names",
    ),
    ErrorCode.WAIT_FAILED: ErrorGuide(
        cause="No triggerer runs or it is overloaded, so a waiting task was not resumed in its time; or "
        "the trigger ended over an error of its own, which the task's log has (retried)",
        fix="`make status`; start the triggerer (`airflow triggerer`), then clear the task",
    ),
    ErrorCode.DECODING_ENDS: ErrorGuide(
        cause="More than 20 records of one batch ended the process that decoded them, each also alone: by a "
        "crash, or out of memory. Nothing of the batch was published. "
        "[Fewer are quarantined](operating.md#records-that-end-their-process)",
        fix="give the process more memory (`[cluster]`), or correct the stream's `decode`; the text has the "
        "offsets",
    ),
    ErrorCode.ACCOUNT_LOST: ErrorGuide(
        cause="Tasks read a batch's records, and the consumer did not get what they say of each offset "
        "(record, marker, aborted, absent). Its process failed to take it, or the stream's `decode` caches "
        "rows. "
        "Nothing of the batch was published",
        fix="the runtime restarts the consumer; if it comes again, take `persist` and `cache` out of "
        "`decode`",
    ),
    ErrorCode.SCHEMA_NOT_FOLLOWED: ErrorGuide(
        cause="A record of a topic of others has a schema that the table cannot follow, and the stream "
        'declares `on_incompatible = "stop"`. The text has the id of the schema, the path, and both types. '
        "Nothing of the batch was published. Exit code 78",
        fix="[quarantine its records, or name a new table](schema-changes.md#what-to-do): stopping the "
        "sender leaves its record on the topic",
    ),
    ErrorCode.SINK_WRITE_FAILED: ErrorGuide(
        cause="A sink was unreachable for 10 minutes, rejects a batch, or holds other rows than the query "
        "wrote. The process is restarted and repeats the batch",
        fix="[see the cases](operating.md#sink-write-failed)",
    ),
    ErrorCode.PARTIAL_SNAPSHOT_READ: ErrorGuide(
        cause="Snapshots expired under a running query, or under a stopped one without aggregates; "
        "Spark's configuration limits files or rows per batch; or no kept snapshot can be read as a "
        "whole: each rewrote files, lists files that another program removed, or has row-level deletes",
        fix="restart the queries; give a query without aggregates a new name and `prefix`; remove the "
        "limit; [run maintenance](operating.md#rebuild-a-query)",
    ),
}
