"""Runtimes: start, stop and observe processes, by supervisord or on Kubernetes. ``opened`` chooses one.

What restarts a component that ended, with growing delays: ``parent`` on one machine (``delay``), on a
cluster the Job or the Spark operator. After the limit nothing does: that is supervision's
(``supervision/decide``).
"""
