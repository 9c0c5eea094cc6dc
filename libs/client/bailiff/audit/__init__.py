"""The audit log for people who check it: sources, verification, replay, proofs, exported segments, erasure."""
