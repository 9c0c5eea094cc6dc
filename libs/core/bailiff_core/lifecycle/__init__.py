"""What becomes of attempts, reservations and evictions by themselves: rules that look at the state and yield decisions.

Each rule is a generator that sees its own decisions enacted before it goes on. No rule here looks for room or
chooses a victim; that is `actions` and `victims`.
"""
