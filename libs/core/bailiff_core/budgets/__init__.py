"""Budgets: what the policy's rows of GPU-hours have used in a calendar month, and what follows for their jobs.

Integers by log time alone. No records and no decisions: those are in `fold`, `lifecycle` and `admission`.
"""
