"""A producer that reads a feed of Server-Sent Events and writes it to a topic, each event once.

``main.run`` is the whole of it; a stream says what an event is (``event.Source``). How it resumes after a
kill -9 without losing or repeating an event:

- Every record says the feed's position (``feed-resume``) of which it and all before it were acknowledged
  when the record was made, and at most ``max_in_flight`` events are read ahead of that (``window``).
- So the newest record of the topic says where to resume, and everything that comes again from there is among
  the last records of its partition: its id is read back (``resume``) and known (``seen``).
- A partition holds a prefix of what was sent to it: the idempotent producer sends in order, and nothing is
  given up while the process lives (``sender``). So what is sent again comes behind what is there, in order.
- One producer at a time (``lock``).
"""
