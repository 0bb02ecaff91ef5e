"""What grows with rows, streams, partitions and batches, measured at sizes that no test has. Start with
``__main__``.
"""
