"""A table's schema that follows those of its records: what a further version adds and widens, and what no
table can follow.

In: the schema that a table is read with, and another version of it, as a registry has it. Out: the schema
with what the other one adds, as a type and as JSON text; or conflicts, each with its path and both types.

Each column stays where it is. Added fields are columns that may be null, at any depth, at the end of their
record; ``int`` becomes ``long``, ``float`` ``double``, a decimal one of more digits, a time of milliseconds
one of microseconds; what is required becomes optional. A field that is removed stays, null in new rows unless
its declaration has another default; one that is renamed, with its earlier name as an alias, goes on in its
column. All that was read before can be read afterwards, whichever version it is written with.

A table whose columns stay has no such versions; ``staying`` says which it cannot read whole.

Start with ``merging``; ``conflicts`` is what it says no to, ``written`` is the text of a type. Pure.
"""
