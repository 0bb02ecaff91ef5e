"""Triggers that end a task for which there is nothing to do, so that it takes no worker.

``base`` has what they share (start there); ``sinks`` looks whether the sinks of a stream's queries are as
declared, ``reconciliation`` whether positions agree, and tables are as the last run saw them. Whatever such
a look does not see to be in order is left to the task's worker, with its messages.
"""
