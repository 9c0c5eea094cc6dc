"""State and records as data, as tables and as lines of text."""
