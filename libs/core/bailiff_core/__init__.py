"""The pure core: the model of a pool, the fold of its records, and all scheduling decisions.

No module reads a clock, disk, network, environment variable or random source. The same records give the same bytes
on every machine and Python version: that is what makes the audit log a record that can be replayed. Numbers are
integers (time in µs UTC, GPUs in thousandths, CPU in millicores, memory in bytes), orders end in an id, and a
search counts its steps, never its seconds.
"""
