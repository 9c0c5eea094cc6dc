"""State of a pool after any record, or at any time."""
