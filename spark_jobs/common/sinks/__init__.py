"""Where a query's results go: a module per kind of sink, all with the protocol ``base.Sink``.

In: a batch's number and rows. Out: the results in an Iceberg table, a database, a topic or files, and the
batch's number with them, in one transaction or by a fence: a batch that is written again changes nothing, a
former writer writes nothing.

Start with ``base``; to add a kind, write its module with that protocol, and name it in the declaration
(``SinkKind``).
"""
