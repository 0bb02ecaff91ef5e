"""Whether each end of a role's platform file answers, takes the login, and grants its rights and no more.

In comes a platform file, and what the streams declare; out come rows, one per end: address, login, TLS, when
certificates and tokens end, the server's clock, rights that are missing or too many, and what to do.
``rights`` says what a role needs, and is what the embedded stack provisions. Start with ``rows``, which is
pure: what is a problem, and how rows are shown. ``probing`` asks, and ``run`` asks all ends side by side,
each with a deadline.
"""
