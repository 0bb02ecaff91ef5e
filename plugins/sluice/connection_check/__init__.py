"""Whether each end of a role's platform file answers, takes the login, and grants its rights and no more.

In comes a platform file, and what the streams declare; out comes what a role needs. Start with ``rights``,
which is pure, and which the embedded stack provisions.
"""
