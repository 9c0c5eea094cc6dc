"""The verbs, in their order: allocate, consolidate, reclaim, preempt. Each looks at all pending jobs before the next.

A verb is a generator of decisions that sees its own decisions enacted. This release has allocate and preempt; a
policy may name the other two, and they have nothing to say yet.
"""
