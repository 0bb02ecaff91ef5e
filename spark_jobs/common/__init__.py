"""What every job shares: session, sources, the table writer."""
