"""The node agent: acts on one GPU machine (or several simulated ones) on behalf of the pools.

It obeys commands that its fences on disk allow, runs tasks under supervisors that outlive it, enforces eviction deadlines by
itself, and reports what happened, including the proof that a device is free. It takes no scheduling decisions.
"""
