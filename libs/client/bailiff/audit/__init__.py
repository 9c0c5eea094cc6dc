"""Auditing of the log: sources, verification, replay, proofs, exported segments, erasure."""
