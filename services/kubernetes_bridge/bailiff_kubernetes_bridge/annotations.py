"""Annotations that only the bridge reads and writes."""

STOPPED_FOR = "bailiff.io/stopped-for"
"""The job that ended in Bailiff while the workload had not: the bridge has suspended the workload for it."""
STATUS = "bailiff.io/status"
"""The workload's state in Bailiff, as one sentence."""
POD_GROUP = "bailiff.io/pod-group"
"""Label: plain pods with the same value in a namespace are one gang, of `bailiff.io/gang-size` pods."""
