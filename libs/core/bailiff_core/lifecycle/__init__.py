"""Rules about attempts, reservations and evictions that need no search: they look at the state and yield decisions.

Each rule is a generator. Each decision that it yields is enacted on the state before the generator resumes. No rule here
searches for placements or victims; that is in `actions` and `victims`.
"""
