"""A table's message that follows those of its records: what a further version adds and widens, and what no
table can follow.

In: the type that a table is read with, and the message of another version, as a registry has it. Out: the
type with what the other one adds, and as the text of JSON; or conflicts, each with its path and both types.

Which field is which column is decided by its number alone, as on the wire. So a field that has another name
goes on in its column, which keeps its own; one that is removed, or whose number is reserved, stays a column;
and a number with a type that the column cannot have is a conflict, also if it was another field's before.

Start with ``merging``; ``written`` is the text of a type. Pure.
"""
