"""The eviction executor: carries out decided evictions step by step, or abandons preemptions that are no longer needed.

It follows the audit log and sends what is pending: a last check before a preemption starts, eviction commands to agents for
started evictions, cancel commands for cancelled ones. It selects no victims.
"""
