"""Processes of components: what a runtime says of one, its heartbeat, its exits and restarts.

``exits`` and ``environment`` are read by the parent process of each component, too: nothing is imported here.
"""
