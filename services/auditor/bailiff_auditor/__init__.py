"""Auditor: the log of every pool kept in PostgreSQL, sealed, and laid out for people.

It follows `bailiff.audit`, checks that each record continues the chain, and stores the bytes as they came, each exactly
once. It decides nothing, no service waits for it, and what it holds can be checked without it.
"""
