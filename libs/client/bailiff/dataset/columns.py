"""The tables of a dataset and what each column holds: the data dictionary that is written beside them."""

from collections.abc import Mapping
from typing import get_args

from bailiff_core.model.state import EvictionCause
from bailiff_core.records.facts import EvictionStage

US = "µs"
STAGES: tuple[EvictionStage, ...] = ("noticed", "acknowledged", "checkpoint_committed", "term_sent", "kill_sent")

Columns = Mapping[str, tuple[str, str]]
"""By name: the unit, and what it is. Times are µs since the Monday on which the dataset's first week begins."""

JOBS: Columns = {
    "job": ("name", "the job's name; a name may come again after its job has ended"),
    "submitted_seq": ("seq", "the record of its submission; with the name it identifies a job"),
    "submitted": (US, "when it was accepted"),
    "project": ("name", "who is charged; empty: none"),
    "user": ("name", "who submitted it; empty: not told"),
    "class": ("name", "its priority class when it was submitted"),
    "preemptible": ("bool", "what the job itself says about that; empty: as its class"),
    "tasks": ("count", "size of the gang"),
    "min_tasks": ("count", "it runs with so many; empty: with all"),
    "gpu_milli": ("1/1000 GPU", "of the whole gang; shares by bytes are not counted"),
    "cpu_milli": ("1/1000 CPU", "of the whole gang"),
    "memory_bytes": ("bytes", "of the whole gang"),
    "run_time_limit": (US, "after so long it is stopped; empty: never"),
    "grace": (US, "from notice to KILL, as it asks; empty: as the class or policy says"),
    "first_placed": (US, "when it first had a place, free or promised"),
    "first_started": (US, "when all its tasks first ran"),
    "attempts": ("count", "times that it was placed"),
    "evictions": ("count", "attempts that ended because it was told to leave"),
    "lost_gpu_ms": ("GPU-ms", "work lost in all of them, and in failures and losses, as the policy counts it"),
    "ended": (US, "when it was over for good; empty: not within the log"),
    "outcome": ("word", "succeeded, failed, cancelled, evicted, timed-out; empty: not ended"),
}
ATTEMPTS: Columns = {
    "job": ("name", ""),
    "submitted_seq": ("seq", ""),
    "attempt": ("count", "from 1"),
    "placed_seq": ("seq", "the decision that placed it"),
    "placed": (US, "when"),
    "action": ("word", "allocate, consolidate, reclaim, preempt: how the place was got; migrate: it was moved there"),
    "reserved": ("bool", "others had to leave first"),
    "nodes": ("numbers", "nodes, separated by blanks"),
    "start_ordered": (US, "when all room was free"),
    "started": (US, "when the last task ran"),
    "ended": (US, "when all of it was gone"),
    "outcome": ("word", "as the job's, or lost, preempted, preempted-unclean, not-started; empty: still there"),
    "cause": ("word", "why it ended: exit, or that of the eviction"),
    "lost_gpu_ms": ("GPU-ms", "work lost, where it went back to the queue"),
}  # fmt: skip
EVICTIONS: Columns = {
    "decided_seq": ("seq", "the decision"),
    "decided": (US, "when"),
    "job": ("name", "who leaves"),
    "submitted_seq": ("seq", ""),
    "attempt": ("count", ""),
    "members": ("ranges", "only these tasks; empty: all"),
    "cause": ("word", f"one of {', '.join(get_args(EvictionCause))}"),
    "action": ("word", "of a preemption: consolidate, reclaim, preempt"),
    "for_job": ("name", "of a preemption: who needed the room"),
    "for_class": ("name", ""),
    "for_priority": ("number", ""),
    "class": ("name", "the victim's"),
    "priority": ("number", "the victim's, as it counted then"),
    "gpus": ("count", "whole GPUs that it held"),
    "lost_gpu_ms": ("GPU-ms", "what it was counted with when it was chosen"),
    "grace": (US, "from notice to KILL"),
    "started": (US, "when the executor took it on"),
    **{stage: (US, f"when the last task reached the stage {stage}") for stage in STAGES},
    "exited": (US, "when the last task's process ended"),
    "released": (US, "when all of its room was seen free"),
    "cancelled": (US, "when it was taken back"),
    "stuck": (US, "when it was found not to leave in time"),
    "resumed": (US, "when all tasks of its next attempt ran"),
}  # fmt: skip
REQUESTS: Columns = {
    "request_seq": ("seq", "the record that asks for victims"),
    "asked": (US, "when"),
    "job": ("name", "who needs room"),
    "class": ("name", ""),
    "priority": ("number", ""),
    "selection": ("count", "requests with one number were answered together"),
    "answered_seq": ("seq", "the decision"),
    "answered": (US, "when"),
    "answer": ("word", "decided; impossible, gave-up, stale, not-needed; timed-out; empty: no more heard of it"),
    "action": ("word", "by which room was made, or the last one tried"),
    "victims": ("count", "how many had to leave"),
    "victim_lost_gpu_ms": ("GPU-ms", "what they were counted with together"),
    "candidates": ("count", "who might have left"),
    "excluded": ("rule:count", "whom each rule kept, separated by blanks"),
    "steps": ("count", "steps of the search"),
    "proven": ("bool", "nothing cheaper exists"),
}
NODES: Columns = {
    "seq": ("seq", ""),
    "time": (US, ""),
    "node": ("name", ""),
    "number": ("number", "as in attempts.nodes"),
    "event": ("word", "joined, unreachable, reachable, lost, drained, undrained"),
    "gpus": ("count", "where it joined: its devices"),
    "gpu_model": ("name", "family and pseudonym"),
    "gpu_memory_bytes": ("bytes", "of its first device"),
    "cpu_milli": ("1/1000 CPU", ""),
    "memory_bytes": ("bytes", ""),
}
PROJECTS: Columns = {
    "from_seq": ("seq", "the policy that says so"),
    "from": (US, ""),
    "project": ("name", ""),
    "parent": ("name", "empty: at the top"),
    "created": ("rank", "which one came first"),
    "priority": ("number", ""),
    "quota_gpu_milli": ("1/1000 GPU", "what it deserves; -1: without bound"),
    "limit_gpu_milli": ("1/1000 GPU", "its cap; -1 or empty: none"),
    "gpu_weight": ("number", "its weight in what is left over"),
}
CLASSES: Columns = {
    "from_seq": ("seq", "the policy that says so"),
    "from": (US, ""),
    "class": ("name", ""),
    "priority": ("number", "higher wins"),
    "preemptible": ("bool", ""),
    "default": ("bool", "of jobs that name none"),
    "preempts": ("bool", "it may displace others"),
    "grace": (US, "empty: as the policy says"),
}

TABLES: Mapping[str, Columns] = {
    "jobs": JOBS, "attempts": ATTEMPTS, "evictions": EVICTIONS, "requests": REQUESTS, "nodes": NODES, "projects": PROJECTS,
    "classes": CLASSES,
}  # fmt: skip
ABOUT: Mapping[str, str] = {
    "jobs": "one row per submission",
    "attempts": "one row per placement of a job",
    "evictions": "one row per job or part of one that was told to leave, with the times of its stages",
    "requests": "one row per request for victims, and its answer: also those that were refused",
    "nodes": "what became of machines",
    "projects": "quotas, whenever a policy was applied",
    "classes": "priority classes, whenever a policy was applied",
}
