"""Auditor: archives every pool's log in PostgreSQL, seals it, and maintains a read model.

It follows `bailiff.audit`, verifies that each record continues the chain, and stores the bytes unchanged, exactly once. It
decides nothing, no service depends on it, and the archive can be verified without it.
"""
