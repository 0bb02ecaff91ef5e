"""A change of a stream's rows: replay, retry, revert, redo, replace, remove.

In: the params of a run. Out: a proof in the ledger, or an error that says what differs and the fix.
``plan`` turns what is asked for into a checked, counted and pinned plan, before anything is done: ``records``
of offsets and reasons, ``loads`` of whole loads and objects. ``approval`` says when a person must be asked,
and what counts as the answer. The job ``spark_jobs/common/maintenance`` then prepares the rows that go and
come on a branch, and exchanges them in one commit. ``verify`` compares that commit from table and quarantine
alone. Every step can be repeated: a run keeps its plan, and the table names the changes that it has.
Start with ``plan``.
"""
