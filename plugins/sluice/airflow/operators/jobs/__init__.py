"""Bounded Spark jobs as steps: by spark-submit, or as pods of a cluster."""
