"""The last check of each component, for an alert that needs neither Airflow nor its database.

In: a report of supervision for each check that ended. Out: metrics that grow old when nothing checks any
more. ``server`` is a process of its own; it keeps the last checks over a restart. Start with ``check``.
"""
