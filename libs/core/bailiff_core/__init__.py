"""The pure core: what a pool is, how records change it, and what is decided next.

Nothing in here reads a clock, a disk, a network, the environment or chance. The same records give the same bytes
on every machine and Python version: that is what makes the audit log a record that can be replayed. Numbers are
integers (time in µs UTC, GPUs in thousandths, CPU in millicores, memory in bytes), orders end in an id, and a
search counts its steps, never its seconds.
"""
