"""State as plain data: the output of `-o json` and `-o yaml`, from which the tables are built.

The keys are a stable interface: keys may be added, not removed. Times are RFC 3339 UTC texts or
null, durations are seconds, memory is bytes, CPU millicores, GPUs whole ones. `now` is µs UTC; the wall clock.
"""
