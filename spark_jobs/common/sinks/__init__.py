"""Where a query's results go: one module per kind, all with the same four verbs.

``name``; ``enter(epoch)`` becomes the writer and gives the last batch that is there; ``write(batch, rows)``
writes a batch once; ``close()``.
"""
