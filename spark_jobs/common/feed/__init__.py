"""A producer that reads a feed of Server-Sent Events and writes each event to a topic once.

How it resumes after a kill -9 without losing or repeating an event:

- Every record holds the feed position (``feed-position``) up to which all events were acknowledged when the
  record was made, and at most ``max_in_flight`` events are read ahead of that (``window``).
- So the topic's newest record says where to resume, and every event that comes again from there is among the
  last records of its partition: ``resume`` reads their ids back, ``reader`` skips them.
- Where the topic does not show that record any more, a saved position does (``position``, ``progress``); if
  neither is certain, the producer ends and a person decides.
- A partition holds a prefix of what was sent to it: the idempotent producer sends in order, and drops nothing
  while the process lives (``sender``). So what is sent again follows what is there, in order.
- One producer at a time (``lock``).

Start with ``run``.
"""
