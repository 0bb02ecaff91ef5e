"""Rewrites and changes of tables, each staged, verified and then published in one commit.

In: a date before which files are compacted, or the plan of a change (``changes`` in ``sluice``). Out: fewer
files with the same rows, or a table without and with the rows that the plan names; the result as a
document. A row that the plan does not name stays; of a race the stream's own batch wins, and the job begins
again.

Start with ``compact`` or ``change``. ``staged_files`` exchanges data files, ``row_diff`` compares all
values.
"""
