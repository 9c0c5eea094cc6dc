"""The order in which pending jobs are tried, and rules about pending jobs: ageing, timeouts, preemption delay, backfill."""
