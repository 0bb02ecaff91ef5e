"""A client's certificate, as PEM files that are declared: what clients take of them, and why they do not.

In: paths of certificate and key, and the key's passphrase. Out: a file that Java's clients read instead, kept
as new as these, and one line of what is wrong with them.
"""
