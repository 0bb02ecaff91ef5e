"""The ledger: write-once JSON documents of loads, changes and tables, and the history of a stream's events.

In: a stream's name, a key of :mod:`~sluice.ledger.keys`, a document. Out: the document of the
first writer. No document is overwritten or deleted, and the newest of a kind is one LIST and one GET away
whatever came before it. Start with ``keys``, the grammar of all that is kept; then ``documents`` and
``history``. ``known_tables`` holds the catalog against what the ledger knows of the stream's tables,
``marks`` say what a ledger must have that was not restored, ``batches`` has each published batch.
"""
