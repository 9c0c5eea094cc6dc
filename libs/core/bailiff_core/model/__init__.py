"""The nouns of the field: pool, node, device, priority class, job, task, reservation, eviction, policy.

Two kinds of thing live here. Documents that people or programs send (a job's demand, a policy) are pydantic
models and are validated on entry. What the fold keeps (`Pool` and all below it) are plain dataclasses that only
`fold.apply` changes. No rule of scheduling lives here.
"""
