"""Triggers that end a task for which there is nothing to do, so that it takes no worker.

``base`` has what they share (start there); ``sinks`` looks whether the sinks of a stream's queries are as
declared. Whatever such a look does not see to be in order is left to the task's worker, with its messages.
"""
