"""Supervision: samples of a component in, its health and at most one action out.

An observer takes a sample of a component (process, topic, table, heartbeat); ``rules`` assess several of
them, purely; ``decide`` says what is done about it; ``lifecycle`` restarts, starts or suspends the process,
and records it in the history first.
It promises that no health is guessed: a system that does not answer is UNKNOWN, and never an action.
``checks`` serves when each component was checked last, without Airflow.
Start with ``rules/status`` (what there is), then ``rules/consumer`` (where it is decided that a stream is
stalled).
"""
