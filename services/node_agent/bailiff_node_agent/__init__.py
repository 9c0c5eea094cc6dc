"""The node agent: one GPU machine (or several simulated ones) on behalf of the pools.

It obeys commands that its fences on disk allow, runs tasks under supervisors that outlive it, keeps eviction deadlines
by itself, and reports what happened, the proof included that a device is free. It decides nothing about who runs.
"""
