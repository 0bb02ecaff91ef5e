"""A producer that reads a feed of Server-Sent Events and writes each event to a topic once.

How it resumes after a kill -9 without losing or repeating an event:

- Events and the feed's position behind them are one Kafka transaction (``transaction``, ``sender``): a reader
  of committed records sees both or neither. So the newest position (``resume``) is that of the topic's newest
  event, and what follows it in the feed is not there.
- The transactional id is the stream's: a start fences every other producer, and a suspended one sends nothing
  when it resumes.
- A feed may send some events again: ``reader`` skips those whose ids it knows. A start reads them from the
  topic, and from the topic of positions what retention has deleted.
- Where topic and position do not go together, the producer ends and a person decides (``position``).

Start with ``run``.
"""
