"""Roll-up: live aggregates in time windows, from the audit log. Exact history is in the archive."""
