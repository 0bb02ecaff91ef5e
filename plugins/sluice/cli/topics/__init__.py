"""`sluice new-stream --topic`: a topic of others, looked at for a stream's folder.

Start with ``look``: it samples the topic; ``registered`` asks the schema registry of what the sample names.
"""
