"""Maintenance: every rewrite verified, files deleted late, positions and contents reconciled.

In: a stream, and what the runs before recorded of it in the ledger. Out: numbers of what was done, or an
error that names what differs and the fix. ``compaction`` compares every rewrite of a table, by another
process than made it; ``removal`` deletes files that no state of the restore horizon names, by the rules of
``core.tables.file_removal``, once all rewrites are verified; ``batch_history`` deletes documents of
batches that nothing needs, and keeps what they say of offsets; ``check_records`` old records of checks;
``airflow_cleaning`` says when a person is to look after the cleaning of Airflow's database.
``reconciliation`` compares topic, table, quarantine and stored files, from what the run before it verified,
and names each finding. Nothing here
repairs: a person does. Start with ``reconciliation/contents``.
"""
