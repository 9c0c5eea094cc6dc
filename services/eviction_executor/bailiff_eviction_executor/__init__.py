"""The eviction executor: carries a decided eviction out, step by step, or gives it up cleanly.

It follows the audit log and does what the state owes: a last look before a preemption begins, word to the agents of
every eviction that the log says has begun, word of mercy where it was taken back. It decides nothing about who.
"""
