"""Data dictionary of a dataset: its tables, and the unit and meaning of each column."""

from collections.abc import Mapping
from typing import get_args

from bailiff_core.model.state import EvictionCause
from bailiff_core.records.facts import EvictionStage

US = "µs"
STAGES: tuple[EvictionStage, ...] = ("noticed", "acknowledged", "checkpoint_committed", "term_sent", "kill_sent")

Columns = Mapping[str, tuple[str, str]]
"""Unit and meaning, by name. Times are µs since the Monday on which the dataset's first week begins."""

JOBS: Columns = {
    "job": ("name", "the job's name; names may be reused after a job has ended"),
    "submitted_seq": ("seq", "the record of its submission; with the name it identifies a job"),
    "submitted": (US, "when it was accepted"),
    "project": ("name", "its project; empty: none"),
    "user": ("name", "its user; empty: unknown"),
    "class": ("name", "its priority class when it was submitted"),
    "preemptible": ("bool", "as set by the job; empty: as its class"),
    "tasks": ("count", "size of the gang"),
    "min_tasks": ("count", "minimum to run; empty: all"),
    "gpu_milli": ("1/1000 GPU", "of the whole gang; shares by bytes are not counted"),
    "cpu_milli": ("1/1000 CPU", "of the whole gang"),
    "memory_bytes": ("bytes", "of the whole gang"),
    "run_time_limit": (US, "run-time limit; empty: none"),
    "grace": (US, "from notice to KILL, as set by the job; empty: that of the class or policy"),
    "first_placed": (US, "first placement, free or reserved"),
    "first_started": (US, "when all its tasks first ran"),
    "attempts": ("count", "times that it was placed"),
    "evictions": ("count", "attempts that ended by an eviction"),
    "work_lost_gpu_ms": ("GPU-ms", "work lost in evictions, failures and lost nodes: since the last checkpoint"),
    "restart_gpu_ms": ("GPU-ms", "what the restarts cost: as the policy assumes, or as measured"),
    "ended": (US, "final end; empty: not within the log"),
    "outcome": ("word", "succeeded, failed, cancelled, evicted, timed-out; empty: not ended"),
}
ATTEMPTS: Columns = {
    "job": ("name", ""),
    "submitted_seq": ("seq", ""),
    "attempt": ("count", "from 1"),
    "placed_seq": ("seq", "the decision that placed it"),
    "placed": (US, "when"),
    "action": ("word", "allocate, consolidate, reclaim, preempt: the action that placed it; migrate: moved there"),
    "reserved": ("bool", "some resources were still being released"),
    "nodes": ("numbers", "nodes, separated by blanks"),
    "start_ordered": (US, "when all its resources were free"),
    "started": (US, "when the last task ran"),
    "ended": (US, "when the attempt ended"),
    "outcome": ("word", "as the job's, or lost, yielded, preempted, preempted-unclean, not-started; empty: not ended"),
    "cause": ("word", "cause of the end: exit, or the cause of the eviction"),
    "work_lost_gpu_ms": ("GPU-ms", "work lost, if it was requeued: since the last checkpoint"),
    "restart_gpu_ms": ("GPU-ms", "what the restart costs: as the policy assumes, or as measured"),
}
EVICTIONS: Columns = {
    "decided_seq": ("seq", "the decision"),
    "decided": (US, "when"),
    "job": ("name", "the evicted job"),
    "submitted_seq": ("seq", ""),
    "attempt": ("count", ""),
    "members": ("ranges", "only these tasks; empty: all"),
    "cause": ("word", f"one of {', '.join(get_args(EvictionCause))}"),
    "action": ("word", "of a preemption: consolidate, reclaim, preempt"),
    "for_job": ("name", "of a preemption: the preemptor"),
    "for_class": ("name", ""),
    "for_priority": ("number", ""),
    "class": ("name", "the victim's"),
    "priority": ("number", "the victim's effective priority"),
    "gpus": ("count", "whole GPUs allocated to it"),
    "work_lost_gpu_ms": ("GPU-ms", "work since its last checkpoint when it was selected"),
    "restart_gpu_ms": ("GPU-ms", "what the restart costs: as the policy assumes, or as measured"),
    "grace": (US, "from notice to KILL"),
    "started": (US, "when the executor started it"),
    **{stage: (US, f"when the last task reached the stage {stage}") for stage in STAGES},
    "exited": (US, "when the last task's process ended"),
    "released": (US, "when all its resources were released"),
    "cancelled": (US, "when it was cancelled"),
    "stuck": (US, "when it was found stuck"),
    "resumed": (US, "when all tasks of its next attempt ran"),
}
REQUESTS: Columns = {
    "request_seq": ("seq", "the record of the request"),
    "requested": (US, "when"),
    "job": ("name", "the preemptor"),
    "class": ("name", ""),
    "priority": ("number", ""),
    "selection": ("count", "requests with one number were decided together"),
    "decision_seq": ("seq", "the decision"),
    "decided": (US, "when"),
    "result": ("word", "decided; impossible, gave-up, stale, not-needed; timed-out; empty: no decision"),
    "action": ("word", "the action used, or the last one tried"),
    "victims": ("count", "number of victims"),
    "victim_work_lost_gpu_ms": ("GPU-ms", "work lost of all victims when they were selected"),
    "victim_restart_gpu_ms": ("GPU-ms", "what their restarts cost: as the policy assumes, or as measured"),
    "candidates": ("count", "number of candidates"),
    "excluded": ("rule:count", "jobs excluded by each rule, separated by blanks"),
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
    "created": ("rank", "rank by age"),
    "priority": ("number", ""),
    "quota_gpu_milli": ("1/1000 GPU", "its quota; -1: unlimited"),
    "limit_gpu_milli": ("1/1000 GPU", "its cap; -1 or empty: none"),
    "gpu_weight": ("number", "its over-quota weight"),
}
CLASSES: Columns = {
    "from_seq": ("seq", "the policy that says so"),
    "from": (US, ""),
    "class": ("name", ""),
    "priority": ("number", "higher wins"),
    "preemptible": ("bool", ""),
    "default": ("bool", "class of jobs that name none"),
    "preempts": ("bool", "its jobs may preempt others"),
    "grace": (US, "empty: as the policy says"),
}

TABLES: Mapping[str, Columns] = {
    "jobs": JOBS,
    "attempts": ATTEMPTS,
    "evictions": EVICTIONS,
    "requests": REQUESTS,
    "nodes": NODES,
    "projects": PROJECTS,
    "classes": CLASSES,
}
ABOUT: Mapping[str, str] = {
    "jobs": "one row per submission",
    "attempts": "one row per placement of a job",
    "evictions": "one row per eviction of a job or of some of its tasks, with the times of its stages",
    "requests": "one row per preemption request and its result, including refused ones",
    "nodes": "state changes of nodes",
    "projects": "quotas, per applied policy",
    "classes": "priority classes, per applied policy",
}
