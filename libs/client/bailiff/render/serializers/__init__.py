"""State as plain data: defines the output of `-o json` and `-o yaml`; the tables are made from it.

The keys are a stable interface: keys may be added, not removed. Times are RFC 3339 UTC texts or
null, durations are seconds, memory is bytes, CPU millicores, GPUs whole ones. `now` is µs UTC; pass the wall clock.
"""
