"""The actions, in their order: allocate, consolidate, reclaim, preempt; and migrate. Generators of decisions.

A action is a generator of decisions that sees its own decisions enacted. This release has allocate and preempt; a
policy may name the other two, and they have nothing to say yet.
"""
