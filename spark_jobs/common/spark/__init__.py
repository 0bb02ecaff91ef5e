"""What a job needs of Spark: the session of a role, checkpoints, and how a process starts and ends.

In: a stream's declaration and a role. Out: a session on the lake's catalog, a query that stops between two
batches, progress on its topic, an exit code with one line that says why. Start with ``session`` and
``process``; ``failures`` has the errors that end one for good.
"""
