"""Failures of configuration and systems, and of the embedded stack."""

from __future__ import annotations

from sluice.core.error_codes import ErrorCode
from sluice.core.error_guide.guide import ErrorGuide

ERRORS = {
    ErrorCode.INVALID_CONFIGURATION: ErrorGuide(
        cause="A key, value or file of `stream.toml`, a schema, a platform file, an override file or a "
        "sink's connection is missing or wrong. Nothing was opened yet",
        fix="correct the file and key that the text names ([rules](operating.md#invalid-configuration))",
    ),
    ErrorCode.CONNECTION_NOT_FOUND: ErrorGuide(
        cause="A sink names a connection, or Spark's `sluice_spark`, that Airflow does not know",
        fix="add it in Airflow under Admin, or set `AIRFLOW_CONN_…`; the embedded stack: `make up`",
    ),
    ErrorCode.INCOMPATIBLE_SCHEMA: ErrorGuide(
        cause="A column of the existing table has another type than the schema, or the table another "
        "`partition_by`. Of a table that follows: its declared schema or message contradicts what it "
        "follows, or it has wider columns than both, since its property was lost or edited",
        fix="declare the existing type or partitioning; a new type needs a new column name, another "
        "partitioning a new `table`. A contradiction: correct `schema.avsc` or `message` to what the "
        "table follows, or name a new `table`. The property: [set it "
        "again](schema-changes.md#the-order-of-commits)",
    ),
    ErrorCode.INVALID_PARAMETER: ErrorGuide(
        cause="A form's value cannot be used: `objects` with a key that is no `.csv`, `.csv.gz` or "
        "`.csv.zst`, or not "
        "under the stream's [`csv.prefix`](adding-a-stream.md#streamtoml), or `compact_before` that is no "
        "past date",
        fix="trigger a run with other values",
    ),
    ErrorCode.DOCUMENT_NOT_FOUND: ErrorGuide(
        cause="The task was run before the task that writes its plan, baseline or proof, or a "
        "component is unknown to supervisord because its stream is newer than the stack. Or the ledger "
        "does not know a table with published contents that was created over an hour ago, or a "
        "component's newest suspension or resumption: it was emptied or restored",
        fix="clear the task that the text names, with its downstream tasks; an unknown program: `make "
        "up`; an emptied or restored ledger: [ledger lost](operating.md#ledger-lost)",
    ),
    ErrorCode.SECRET_NOT_FOUND: ErrorGuide(
        cause="What a [reference](your-own-systems.md#secrets) of a platform file names, a file, a variable "
        "or a secret of Airflow, is not there, empty, or not for this process alone. Tried again: a stream "
        "goes on by itself once it is there",
        fix="put the secret where the text says ([missing secret](operating.md#missing-secret)); a variable: "
        "set it for what starts the process, and start that again",
    ),
    ErrorCode.SYSTEM_UNREACHABLE: ErrorGuide(
        cause="supervisord or the observed component did not answer; or Kafka failed during the whole "
        "wait for events. Retried",
        fix="`make status`, the service's log, then [timeouts](operating.md#timeouts-and-connection-errors)",
    ),
    ErrorCode.KAFKA_UNREACHABLE: ErrorGuide(
        cause="No broker answered in time, or an open transaction of a hanging writer blocks a reader (5 "
        "minutes at most). Retried",
        fix="start Kafka, or restart the queries if their transaction is open",
    ),
    ErrorCode.KAFKA_PERMISSION: ErrorGuide(
        cause="An ACL is missing",
        fix="add the [ACL](your-own-systems.md), or correct `[kafka]` of the role's platform file",
    ),
    ErrorCode.KAFKA_LOGIN: ErrorGuide(
        cause="The brokers refuse the login of `[kafka]`: a wrong password or secret, a token that ended or "
        "has another audience, a certificate that ended or is of another CA. Or the token endpoint refuses "
        "the client, or the brokers' certificate is of a CA that is not declared. Retried",
        fix="do what the text says ([logins](your-own-systems.md#kafka)); the stream goes on by itself "
        "with its runtime's next attempt",
    ),
    ErrorCode.TOPIC_NOT_FOUND: ErrorGuide(
        cause="The topic was never created, or was deleted; of `provision_topic`: while the table has its "
        "records",
        fix="[a deleted one](operating.md#topic-was-recreated): restore it, or name a new table; else "
        "clear `provision_topic` (topic of a sink: `provision_sinks`) with its downstream tasks",
    ),
    ErrorCode.TOPIC_MISMATCH: ErrorGuide(
        cause="More partitions or another replication factor than `stream.toml` says (Kafka cannot remove "
        "partitions, Sluice does not move replicas), or the broker rejects a value of `[topic.config]`: "
        "nothing was changed. Or the topic takes smaller messages than a feed's producer sends. Or the "
        "broker differs from a KafkaTopic that is Ready",
        fix="declare the existing values, or name another topic",
    ),
    ErrorCode.TOPIC_NOT_READY: ErrorGuide(
        cause="Strimzi's topic operator has not finished in 150 s, or says that it cannot; or the "
        "resource is paused, unmanaged or being deleted. The text has the operator's message. Nothing was "
        "loaded",
        fix="what the text names; else see the topic operator's log ([topics through "
        "Strimzi](kubernetes.md#topics-through-strimzi))",
    ),
    ErrorCode.DAMAGED_BATCH: ErrorGuide(
        cause="A broker sent bytes that are no record batch, or a batch whose checksum, lengths or counts "
        "are wrong, or that has more than `max_batch_mb` when it is decompressed. Nothing of it was read. "
        "Retried, since another replica may lead by then",
        fix="compare the partition's replicas with `kafka-dump-log.sh --deep-iteration` on each broker, and "
        "let a sound one lead. If the text says that it is too large: raise "
        "[max_batch_mb](your-own-systems.md) of the section kafka",
    ),
    ErrorCode.OFFSETS_MISSING: ErrorGuide(
        cause="Offsets between others are in no record batch, and the topic's `cleanup.policy` does not "
        "explain it: it does not compact. The text has the offsets",
        fix="compare the partition's replicas with `kafka-dump-log.sh` on each broker. If the topic was "
        "compacted before, nothing is lost: read the ranges around them",
    ),
    ErrorCode.LOG_TRUNCATED: ErrorGuide(
        cause="The log ends before offsets that were there, or its leader epochs are not those that were "
        "read: a broker led that did not have all records (`unclean.leader.election.enable`), or a disk was "
        "restored",
        fix="find which broker led without the others, and bring back its log; else compare what was "
        "published from the offset on with the topic. To go on with the log as it is, publish a batch with "
        "`[consumer] direct = false`, which forgets the epochs",
    ),
    ErrorCode.TRANSACTION_OPEN: ErrorGuide(
        cause="A transaction that began before the end of the range has not ended in two minutes, so its "
        "records and all behind them cannot be read. Retried",
        fix="find it with `kafka-transactions.sh find-hanging`; end its producer, or abort it there",
    ),
    ErrorCode.S3_UNREACHABLE: ErrorGuide(
        cause="S3, or a conditional put to the ledger, did not succeed in time. Retried",
        fix="start S3, then clear the task",
    ),
    ErrorCode.S3_PERMISSION: ErrorGuide(
        cause="A policy is missing; or a login is wrong, of a request whose answer does not say so",
        fix="correct the user's [policy](your-own-systems.md), or `[s3]` of the role's platform file",
    ),
    ErrorCode.S3_LOGIN: ErrorGuide(
        cause="S3 refuses the login of `[s3]`, or the keys that a catalog gives for a table: a wrong key, "
        "keys that ended, a clock that is off. Or STS "
        "does not give the role, the token's file has ended, no credentials are found, or the certificate "
        "is of a CA that is not declared. Retried",
        fix="do what the text says ([logins](your-own-systems.md#s3)); the stream goes on by itself with "
        "its runtime's next attempt",
    ),
    ErrorCode.OBJECT_NOT_FOUND: ErrorGuide(
        cause="A source object, a prefix without `.csv` objects, or a bucket does not exist",
        fix="upload the object, or correct `objects` or `source_prefix`",
    ),
    ErrorCode.CATALOG_UNREACHABLE: ErrorGuide(
        cause="The catalog (its database, its REST server, AWS Glue) does not answer, limits requests, "
        "or its connections are all in use; or a proxy answers in its "
        "place: 404 without Iceberg's error, which is not taken for a missing table, or a redirect, which is "
        "not followed. Retried",
        fix="start it; if it limits requests: wait; of an address or a proxy: correct what the message names",
    ),
    ErrorCode.CATALOG_BROKEN: ErrorGuide(
        cause="The catalog accepts a commit that it must refuse, or does something else than the commit "
        "says: a stream on it could lose or double rows, so none writes to it; "
        "or its configuration overrides `s3.delete-enabled` or `io-impl`, or leads a table's objects or the "
        "catalog's login to `http://` on another machine. Exit code 78",
        fix="use another catalog, or a version of it that keeps [the "
        "promise](catalogs.md#is-my-catalog-safe) that the message names; or remove the override",
    ),
    ErrorCode.CATALOG_PERMISSION: ErrorGuide(
        cause="The rights of the role's login in the catalog do not suffice, or the catalog does not take "
        "the request: `uri`, `warehouse` or `prefix` is wrong, or a proxy answers in its place",
        fix="give the login the right that the message names, or correct `[lake.catalog]` of the role's "
        "platform file",
    ),
    ErrorCode.CATALOG_LOGIN: ErrorGuide(
        cause="The catalog (its database, its REST server, AWS), or the token endpoint, refuses the login of "
        "`[lake.catalog]`: a wrong password, secret or key; a token, temporary keys or a certificate that "
        "ended, or of another CA; a clock that is wrong; or there are no keys, or no files that can be "
        "used; or the catalog is not verified (another CA, another host name, no encryption), and got no "
        "login. Retried; exit code 77 of a process",
        fix="do what the text says ([logins](catalogs.md#connect-one)); the stream goes on by itself with "
        "its runtime's next attempt",
    ),
    ErrorCode.CATALOG_KEYS: ErrorGuide(
        cause="With `access_delegation` the catalog gave no keys for the table's files, or S3 refuses "
        "what is done with them: the login has no such right in the catalog, or they are for another prefix",
        fix="give the role's login in the catalog the [right to the table's "
        "files](catalogs.md#vended-credentials), or leave out `access_delegation`",
    ),
    ErrorCode.TABLE_NOT_FOUND: ErrorGuide(
        cause="The consumer or the queries create it at their first start",
        fix="clear `ensure_consumer` or `ensure_queries`, or unpause the stream's DAG",
    ),
    ErrorCode.TABLE_LOST: ErrorGuide(
        cause="The catalog was lost, or restored to before the table or its first commit, or the table "
        "was dropped; the bucket has its files, or the ledger knows its contents. A new, empty table "
        "would hide their rows, so none is created, and no step takes it for new",
        fix="restore the catalog's backup, or [register the metadata "
        "file](operating.md#table-lost-by-the-catalog) that the consumer's log names, or name a new table",
    ),
    ErrorCode.LAKE_FILE_MISSING: ErrorGuide(
        cause="The catalog's metadata names a file that the bucket does not have: the catalog was "
        "restored to a state older than `maintenance.restore_horizon_days`, or another program deleted "
        "the file. In `remove_files` also a file of a state within the horizon. Exit code 78; "
        "`remove_files` deletes nothing of that table",
        fix="restore a [younger state](operating.md#file-of-a-table-is-gone) of the catalog, or the "
        "object's previous version",
    ),
    ErrorCode.TABLE_REPLACED: ErrorGuide(
        cause="The catalog has a table of the stream's name with another UUID than the one that the "
        "ledger knows, or AWS Glue has one that is none of Iceberg's: another program made it",
        fix="[register the stream's own](operating.md#table-replaced-by-another-one) again, or name a new "
        "table",
    ),
    ErrorCode.DATABASE_UNREACHABLE: ErrorGuide(
        cause="No answer, too many connections, lock timeout, statement timeout, disk full or read-only. "
        "Retried; running queries wait 10 minutes",
        fix="bring the database back ([sink is down](operating.md#sink-is-down))",
    ),
    ErrorCode.DATABASE_REFUSED: ErrorGuide(
        cause="A permission or a value",
        fix="correct the Airflow connection or the user's "
        "[rights](your-own-systems.md#a-database-for-results)",
    ),
    ErrorCode.DATABASE_TABLE: ErrorGuide(
        cause="The database, table or a column does not exist, or columns, primary key, unique key, "
        "collation or engine differ from the query",
        fix="missing: clear `provision_sinks`; different: rename the table, then clear `provision_sinks`, "
        "which creates an empty one and so [rebuilds the query](operating.md#rebuild-a-query)",
    ),
    ErrorCode.DATABASE_LOGIN: ErrorGuide(
        cause="The database of a sink refuses the login or the certificate of its Airflow connection, or the "
        "certificate's files cannot be used; or it is not verified (another CA, another host name, no "
        "encryption), and got no login. Retried; exit code 77 of a stream's queries",
        fix="correct the Airflow connection or its files "
        "([encryption](your-own-systems.md#a-database-for-results)), then clear `provision_sinks`, which "
        "exports the connection; the queries go on by themselves",
    ),
    ErrorCode.NOT_DELIVERED: ErrorGuide(
        cause="A [notifier](operating.md#notifications) failed, or took longer than 12 s: the mail server "
        "is down, refuses the mail or hangs, or the notifier's class or arguments are wrong. The text "
        "names it and its reason. A recovery that no person was told "
        "of turns the check red until it is delivered; so does what was not told of a run; of other "
        "failures the task's log has this line, and the next check tries again",
        fix="repair the mail server or the Airflow connection, or correct `notifications.toml`",
    ),
    ErrorCode.KUBERNETES_UNREACHABLE: ErrorGuide(
        cause="The API server did not answer, or answered with an error of its own. Retried",
        fix="correct `[strimzi]` of `airflow.toml`, or bring the API server back",
    ),
    ErrorCode.KUBERNETES_REFUSED: ErrorGuide(
        cause="Login, a right, a missing kind or namespace, an invalid value, or another manager owns a "
        "field with another value. The text has Kubernetes' message",
        fix="what the text names: rights are in `k8s/base`, a field's other manager keeps it until its "
        "manifest leaves it out",
    ),
    ErrorCode.REGISTRY_UNREACHABLE: ErrorGuide(
        cause="The schema registry did not answer in time, closed the connection, or answered with an error "
        "of its own (5xx, or 429: too many requests). Records whose schemas are kept are still read. Retried",
        fix="start the registry, or correct `url` and `ssl_ca_location` of "
        "[`registry`](your-own-systems.md#a-schema-registry) in the role's platform file",
    ),
    ErrorCode.REGISTRY_REFUSED: ErrorGuide(
        cause="A missing right (403), an address that is not that of the API, a "
        "redirect, which is never followed, or an answer that the API does not have",
        fix="correct [`registry`](your-own-systems.md#a-schema-registry) of the role's platform file, or "
        "grant the right that the page lists",
    ),
    ErrorCode.SCHEMA_NOT_FOUND: ErrorGuide(
        cause="A record names a schema id that the registry does not have, and is rejected: its producer "
        "uses another registry, or the schema was deleted for good. Or a subject or version that was asked "
        "for does not exist",
        fix="compare the registry of the producer with `url` of "
        "[`registry`](your-own-systems.md#a-schema-registry); a deleted schema: register it again under "
        "its id (mode IMPORT)",
    ),
    ErrorCode.SCHEMA_REFUSED: ErrorGuide(
        cause="A registered schema is larger or nested deeper than the "
        "[bounds](your-own-systems.md#a-schema-registry), is no schema of its type, or has a reference that "
        "cannot be resolved. Records that name it are rejected",
        fix="what the text names: register a smaller schema, or the missing reference, and produce with it",
    ),
    ErrorCode.REGISTRY_CHANGED: ErrorGuide(
        cause="The registry has another schema under an id than the one that is kept of it: it was emptied, "
        "or `url` names another registry under the `name` of the first. Or the kept document was damaged. "
        "Nothing is read, since records would decode into wrong values",
        fix="a damaged document: restore the object's first version; else give the registry another `name` "
        "in [`registry`](your-own-systems.md#a-schema-registry) of all platform files",
    ),
    ErrorCode.SCHEMA_INCOMPATIBLE: ErrorGuide(
        cause="The rule of a subject refuses the schema of a stream with `registry = true` below `[topic]` "
        "as its next version. Nothing was sent",
        fix="what the text names: give a new field a default, keep the others; or set the subject's "
        "compatibility, as `NONE`",
    ),
    ErrorCode.REGISTRY_LOGIN: ErrorGuide(
        cause="The registry refuses the login or the certificate of `[registry]`, or the token endpoint the "
        "client; or the certificate's files cannot be used; or one of the two is not verified (another CA, "
        "another host name), and got no login. Retried; exit code 77 of a stream's process",
        fix="do what the text says ([logins](your-own-systems.md#a-schema-registry)); the stream goes on by "
        "itself with its runtime's next attempt",
    ),
    ErrorCode.CONNECTION_FINDING: ErrorGuide(
        cause="An end of a platform file does not answer, refuses the login or a right, or has another "
        "clock; or a certificate or token has ended or is about to: it has less than a third of its time "
        "left, and less than two weeks; or the [cleaning](operating.md#airflows-database) of Airflow's "
        "database failed three times in a row, or none succeeded within three days",
        fix="do what each line of the task's log, or of `sluice check-connections`, says "
        "([how to read it](operating.md#check-the-connections))",
    ),
    ErrorCode.REQUEST_REFUSED: ErrorGuide(
        cause="supervisord rejects the login or the request, or a results table has row-level deletes",
        fix="login: `make down`, `make up`; deletes: rewrite the table's files",
    ),
    ErrorCode.COMMAND_FAILED: ErrorGuide(
        cause="An option, port or variable is wrong, another `make` works on the stack, or the stack does "
        "not run",
        fix="do as the line says; ports are variables `SLUICE_…_PORT` ([settings](reference.md#settings))",
    ),
    ErrorCode.SETUP_FAILED: ErrorGuide(
        cause="Python, Java or a package is missing, or a download or build failed",
        fix="run the command that the line shows, then `make` again: it continues where it stopped "
        "([set-up](reference.md#set-up))",
    ),
    ErrorCode.SERVICE_UNHEALTHY: ErrorGuide(
        cause="The line shows the end of the service's log",
        fix="often a full disk or a taken port; `make down`, then `make up`",
    ),
    ErrorCode.DRILL_FAILED: ErrorGuide(
        cause="The drill could not inject its fault, or detection, recovery or the data check failed",
        fix="[drills](operating.md#drills); `make status`",
    ),
}
