"""How JVMs of tests start."""

# Short lives: what C2 would compile never pays.
QUICK = "-XX:TieredStopAtLevel=1"
