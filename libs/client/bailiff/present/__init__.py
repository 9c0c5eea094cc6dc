"""State as plain data: the one place where the shape of `-o json` and `-o yaml` is made, and what the tables are made of.

The keys of these dicts are the contract with programs: they stay, and new ones may come. Times are RFC 3339 UTC texts or
null, durations are seconds, memory is bytes, CPU millicores, GPUs whole ones. `now` is µs UTC; pass the wall clock.
"""
