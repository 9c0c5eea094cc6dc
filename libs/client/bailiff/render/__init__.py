"""State and records as data and as sentences."""
