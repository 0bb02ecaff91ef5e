"""Action fill_columns of a change: further fields of published rows go into the columns that came since.

In: a table whose files are staged, the offsets of the plan, and how its records are decoded. Out: new files
in place of those that have a row to fill, each row once and the same but for what was filled, and the account
of it; no record is read again. Start with ``columns``, which writes them; ``fillers`` makes what fills a row.
"""
