"""Results of queries in the lake: recounted from the table's rows, and read from their own table."""
