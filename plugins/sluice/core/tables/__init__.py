"""What is known of a table and its files: whether it is the one that it was, what may be deleted, what a
rewrite may do.
"""
