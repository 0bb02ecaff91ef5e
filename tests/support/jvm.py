"""How JVMs of tests start."""

# Short lives: what C2 would compile never pays. With C1 alone HotSpot reserves 48 MB for compiled code, which
# Spark fills in some minutes: from then on a third of its CPU went into sweeping it.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
