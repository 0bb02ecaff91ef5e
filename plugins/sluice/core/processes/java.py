"""Options of Spark's JVM in a job whose rows only Python's processes see: it plans and commits.

Java's second compiler would cost more than it saves, and a heap begins with a sixty-fourth of the machine's
memory. ``spark.driver.extraJavaOptions`` wins over these.
"""

PLANNING = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -Xms64m -Xmn32m"}
