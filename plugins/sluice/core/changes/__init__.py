"""A change of a stream's table: its plan, and the record of it that the table keeps."""
