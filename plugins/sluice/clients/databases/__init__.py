"""SQL databases: connections with deadlines, errors by class, and the tables of query results."""
