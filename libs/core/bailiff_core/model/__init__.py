"""Data model of a pool: nodes, devices, priority classes, jobs, tasks, reservations, evictions, policy.

Documents that users or programs send (a job's demand, a policy) are pydantic models, validated on entry. The folded
state (`PoolState` and its parts) consists of plain dataclasses that only `fold` changes. No scheduling rule is here.
"""
