"""A pool as it was just after any record, or at any time."""
