"""Changes of all Wikimedia wikis, as JSON from a feed of Server-Sent Events."""
