"""Results of queries in the lake: how far they have counted, and their own table."""
