"""One record by another library, fastavro: it decides what is accepted.

``layout`` says whether a body is laid out as its schema says, and if not why: fastavro takes more than the
format allows. ``values`` reads those of a body that is, ``resolution`` makes them the current schema's. No
code of ``columnar`` is used here, so that each can be tested by the other. Start with ``layout``.
"""
