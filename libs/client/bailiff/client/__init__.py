"""Requests: publish, wait for the outcome, preview; and the parsers of job files, snapshots and pools files."""
