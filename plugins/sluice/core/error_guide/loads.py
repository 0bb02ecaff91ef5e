"""Failures of loads and changes: sources, verification, reconciliation."""

from __future__ import annotations

from sluice.core.error_codes import ErrorCode
from sluice.core.error_guide.guide import ErrorGuide

ERRORS = {
    ErrorCode.CORRUPT_OBJECT: ErrorGuide(
        cause="An object breaks off, is no readable gzip or zstd, is of another format (zip, Excel, "
        "Parquet), or has no header within 256 KiB, or is UTF-8 where `[csv] encoding` is one of single "
        "bytes. The text says whether rows before the break may have been sent. In `validate`: they are sent",
        fix="nothing was sent: upload the whole file and trigger a new run with `load_changed_objects`, "
        "since the old one pins the [corrupt version](operating.md#corrupt-object); else load the whole "
        "file with `withhold` and [replace](operating.md#sent-in-part), or revert the load, if the text "
        "says so",
    ),
    ErrorCode.INVALID_HEADER: ErrorGuide(
        cause="The first line is missing, lacks a column that the schema requires, repeats one, has a "
        "column that the schema does not name, or is of another separator or encoding than declared",
        fix="correct the file, upload it and trigger a new run with `load_changed_objects`; or add the "
        "column, or a map for extra columns (`[csv] extra_columns`), or have them [follow the "
        "file](schema-changes.md#columns-of-csv-files) (`new_columns`), or declare what the text names",
    ),
    ErrorCode.SOURCE_TOPIC_CHANGED: ErrorGuide(
        cause="`stream.toml` names another topic, or the topic was deleted and created again",
        fix="objects: upload the file again (a new version); feed: trigger a new run; generated rows: "
        "another seed ([recreated topics](operating.md#topic-was-recreated))",
    ),
    ErrorCode.NO_EVENTS: ErrorGuide(
        cause="The feed sent nothing during the load's minutes",
        fix="see the producer's log at the end of the text and [source "
        "unavailable](operating.md#source-unavailable); then clear `produce`",
    ),
    ErrorCode.RUN_ID_REUSED: ErrorGuide(
        cause="A run was deleted and triggered again under its run id, with other values of the form, or "
        "more than a day after its plan, as Airflow's [cleaning](operating.md#airflows-database) allows "
        "after 30 days (with a `run_after` that was given in the past this is not seen, and the old plan "
        "is taken); or a run of a change was cleared, and a later change has undone what it did, or its "
        "change is published and the ledger has lost its plan. A run id keeps its plan, so what is asked "
        "for now would not be loaded; nothing was sent. The text has the plan's date, or each param with "
        "both values. Limits (`max_quarantined_percent`, `publish_timeout_minutes`) are not compared",
        fix="trigger a run with another run id",
    ),
    ErrorCode.OFFSETS_NOT_THERE: ErrorGuide(
        cause="Records that a range names were deleted by retention, or are not written yet, or the topic "
        "has no such partition. The text has the ranges; nothing was read",
        fix="choose other ranges; raise the topic's `retention.ms` for the next time",
    ),
    ErrorCode.RULES_CHANGED: ErrorGuide(
        cause="The rules that decide which rows are rejected changed while the source was only partly "
        "sent; the text has the old and the new value. Nothing was sent",
        fix="go back to what the text names and clear `produce`, or [revert what was "
        "sent](operating.md#sent-in-part)",
    ),
    ErrorCode.POSITION_UNKNOWN: ErrorGuide(
        cause="A feed ran before, and its committed position and the topic do not say together from where "
        "to resume; the text says why, and has the saved position. Nothing was sent",
        fix="[decide](operating.md#position-of-the-feed-is-unknown) from where to resume",
    ),
    ErrorCode.INTERVAL_INCOMPLETE: ErrorGuide(
        cause="An interval of a topic of others is not over, or begins before the stream does: records of it "
        "may have come before the stream's first offset, which no proof claims. Or Kafka does not know its "
        "offsets: retention may have deleted its first records, which the table has, or a sender's clock is "
        "ahead of the time",
        fix="clear `plan` when the interval is over; or let `[intervals]` `start_date` be a later one, or "
        "trigger a load without an interval ([topics of others](topics-of-others.md#loads))",
    ),
    ErrorCode.INTERVAL_EMPTY: ErrorGuide(
        cause="No object `.csv`, `.csv.gz` or `.csv.zst` of the source bucket matches the pattern of a "
        "[backfill](operating.md#backfill)'s interval. A run fails instead of loading nothing, so that "
        "the reprocess behaviour `failed` finds it when the file is there",
        fix="upload the file, or correct `[backfill] pattern`; then clear `produce` of the run with its "
        "downstream tasks, or run the [interval again](operating.md#backfill) by the command in the text",
    ),
    ErrorCode.FILE_CORRECTED: ErrorGuide(
        cause="An object of a backfill's interval has a new version with other content, and the rows of "
        "an older one are in the table, or may come. The backfill does not load the new one beside them, "
        "and says if another load did. The interval's other files are loaded and verified. The text has "
        "the object and both versions. Or a change took out the rows of a file: the interval is not "
        "announced without them; action `redo` brings them back",
        fix="load the new version with `<stream>_load` and `withhold`, unless it is loaded, and trigger "
        "`<stream>_change` with action `replace` and the object; then clear `produce` of the run with its "
        "downstream tasks, or run the [interval again](operating.md#backfill) by the command in the text",
    ),
    ErrorCode.KEY_ALREADY_LOADED: ErrorGuide(
        cause="Rows of another version of the object are in the table, or may come, and the newest has "
        "[other content](dags.md#the-same-file-again), or one that cannot be compared; the text has both "
        "versions and the run. Nothing was sent",
        fix="exchange or add its rows ([what to do](dags.md#the-same-file-again)); if the ledger has lost "
        "the plan of a version: [ledger lost](operating.md#ledger-lost)",
    ),
    ErrorCode.SENT_IN_PART: ErrorGuide(
        cause="Rows of an earlier version are published without a proof, and the newer one's would come "
        "beside them, also with `load_changed_objects`. Or an old run was cleared after its rows were "
        "reverted, or after a newer version was loaded. Nothing was sent",
        fix="load the newer version with `withhold`, and [replace](operating.md#sent-in-part); of an old "
        "run: trigger a new one",
    ),
    ErrorCode.ROWS_REJECTED: ErrorGuide(
        cause="Each of an object's first rows would be quarantined; the text has the most frequent "
        "reasons, with a cell, its row and line, and the declaration that would accept it. Nothing was sent",
        fix="change `[csv]` or the schema in the stream's folder as the text says, or correct the file, and "
        "trigger a new run. `new-stream NAME --from FILE --no-load` infers all of `[csv]` at once",
    ),
    ErrorCode.LOAD_NOT_VERIFIED: ErrorGuide(
        cause="Offsets, rows, events or columns are missing, extra or duplicated, or the quarantine limit "
        "is exceeded. In `emit_asset_event`: since the load was verified the catalog was restored, or a "
        "change took out what it loaded",
        fix="[read the task's tables](operating.md#load-verification-failed)",
    ),
    ErrorCode.BATCH_NOT_VERIFIED: ErrorGuide(
        cause="Offsets of a batch are not in its files; nothing of it was published",
        fix="[see the runbook](operating.md#batch-verification-failed)",
    ),
    ErrorCode.DECODERS_DIFFER: ErrorGuide(
        cause="The consumer decodes some records of each piece a second time, by another library, and one of "
        "them came out as another row, or was rejected by one of the two alone; the text has its offset. "
        "Nothing of its batch was published",
        fix="report it with the record's bytes; until then set `[consumer] by_reference = true`, and restart "
        "the consumer",
    ),
    ErrorCode.SINKS_DIFFER: ErrorGuide(
        cause="A result is missing, extra or different in a database or topic, or a record or group "
        "offset there is not the query's",
        fix="[find the other writer, then rebuild](operating.md#sinks-differ-from-the-lake)",
    ),
    ErrorCode.QUERIES_BEHIND: ErrorGuide(
        cause="The queries never started, stand before the load's end, or went on during each comparison "
        "(then retried)",
        fix="clear `ensure_queries` or `wait_for_queries` with its downstream tasks; while much arrives: "
        "raise `trigger_seconds`",
    ),
    ErrorCode.OVER_BUDGET: ErrorGuide(
        cause="Objects written since the load began are missing, damaged or overwritten, or "
        "delete markers or versions per batch exceed `[budget]`, or nothing says what a batch of the load "
        "wrote. Rows are published and verified; only the asset event is missing",
        fix="find what deletes or writes there (the log names the keys), or raise `[budget]`; clear `audit`",
    ),
    ErrorCode.ROWS_DIFFER: ErrorGuide(
        cause="A row is missing, duplicated or different in the files before or after the rewrite. "
        "Nothing was published",
        fix="check that `validate` of a load over these offsets passes",
    ),
    ErrorCode.COMPACTION_NOT_VERIFIED: ErrorGuide(
        cause="A published snapshot that no writer made is not a pure rewrite, or `main` was rolled back "
        "meanwhile, or its snapshots expired before it was verified. In `remove_files`: a rewrite or a "
        "change is not verified",
        fix="[go back](operating.md#compaction-verification-failed) at once",
    ),
    ErrorCode.ROWS_UNPLACED: ErrorGuide(
        cause="Rows of the table have no partition, offset, source or number, so that nothing can be "
        "verified of them: another program wrote them. The text has the column, the files and the number "
        "of rows in each. In `verify_table` it is a finding, `offsets-unexpected`",
        fix="end the program that writes to the table; if these files have nothing else, delete their rows "
        "by SQL (`where _kafka_offset is null`), else [restore the "
        "catalog](operating.md#restore-the-catalog) to before them",
    ),
    ErrorCode.NOT_PUBLISHED: ErrorGuide(
        cause="The text says which: *timed out*, or it will never be published",
        fix="[see the runbook](operating.md#load-not-published)",
    ),
    ErrorCode.CHANGE_REFUSED: ErrorGuide(
        cause="Nothing was changed: no person approved it in a day, or at all; a published record would "
        "be rejected now, a row that is to come is in the table already, or the catalog was restored "
        "since the change was planned",
        fix="not approved: clear `approve_change`, after a day trigger a new run; else correct the schema "
        "or the decoder; trigger a new run of the [change](dags.md#change): a cleared one keeps its plan",
    ),
    ErrorCode.CHANGE_NOT_VERIFIED: ErrorGuide(
        cause="A published change lost, doubled or changed a row",
        fix="[go back](operating.md#change-verification-failed) at once; *is not published*: nothing to "
        "go back from, clear `apply_change`, or trigger a new run, as the text says",
    ),
    ErrorCode.CHANGE_NOT_COMPARABLE: ErrorGuide(
        cause="A change that was published and not verified before its snapshots expired, after three "
        "days; nothing says that rows are wrong. Or so many changes came after it that nothing tells "
        "whether it is published, or was never made. The text says which",
        fix="[published](operating.md#change-cannot-be-compared-any-more): trigger "
        "`<stream>_reconciliation` with `full`, which verifies every offset of the table as it is; "
        "published or never made: trigger a new run with the same values, whose plan is refused if nothing "
        "is left to do",
    ),
    ErrorCode.RECONCILIATION_FINDING: ErrorGuide(
        cause="Positions, contents or files of a stream disagree; each finding has a name. Some are "
        "[found once](operating.md#reconciliation-findings); the run that found them has them again when "
        "it is cleared",
        fix="[what each means](operating.md#reconciliation-findings); trigger a new run to see the "
        "present state",
    ),
}
