"""The query interface: HTTP over the archive, read-only. A process of its own, which needs PostgreSQL and nothing else.

It holds no key and no connection to Kafka, so what faces the network can neither seal nor ask for anything. What it tells was
archived before: the chain was checked by the auditor, and whoever wants to can check it again from the bytes in `/log`.
"""
