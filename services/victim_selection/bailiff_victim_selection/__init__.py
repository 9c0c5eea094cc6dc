"""Victim selection: computes which tasks to preempt, with a proof of optimality.

It follows the audit log and computes proposals for the open selection, on the state at the end of the decision cycle that
opened it. Admission validates a proposal on its present state before it takes effect.
"""
