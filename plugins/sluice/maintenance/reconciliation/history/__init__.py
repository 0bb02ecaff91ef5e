"""The history of a stream's tables since the state that the last run verified: is it the same one, and who
committed to it.
"""
