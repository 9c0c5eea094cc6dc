"""The HTTP API: read-only HTTP over the archive, in a process of its own that needs only PostgreSQL.

It has no keys and no connection to Kafka, so the network-facing process can neither seal nor publish requests. It returns
archived records only: the auditor verified their chain, and clients can verify it again from the bytes of `/log`.
"""
