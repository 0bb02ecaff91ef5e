"""Runtimes: start, stop and observe processes, by supervisord or on Kubernetes. ``opened`` chooses one."""
