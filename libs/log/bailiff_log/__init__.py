"""The audit log: chain verification, reading and writing, projection into a pool's state, signatures, seals, rows of the archive.

Messaging itself is in `bailiff_bus`; what a service's process needs is in `bailiff_service`.
"""
