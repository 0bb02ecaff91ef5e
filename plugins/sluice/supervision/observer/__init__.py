"""The observer: one process that samples every component all the time, for pages, metrics and supervision.

In: the declared streams, and one role's read-only clients. Out: per stream a document of what is known of
each component (``live``), and per component the samples of the last minutes, by HTTP with a token. Nothing is
recorded and nothing acted on: that is supervision's, which reads the same samples, assesses them by the same
rules, and looks for itself if the observer does not answer.
A request that hangs is abandoned, and its system is not asked by others until it answers.
Start with ``sampler`` (one sample), then ``component`` (one component over time; ``loads``: what pages show
of the consumer's work), ``streams`` (all of them), ``server`` and ``client``; what pages and status show of a
component: ``component_view``.
"""
