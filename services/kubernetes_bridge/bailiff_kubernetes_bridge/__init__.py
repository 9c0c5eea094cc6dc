"""The Kubernetes bridge: ordinary workloads with the label `bailiff.io/pool` are queued, placed and preempted by Bailiff.

It submits each workload as a job, and opens the scheduling gates of its pods where the log starts the job's tasks. What it
does is a function of the cluster and the folded log (`reconcile`), so it keeps no state. It stops no running pod: node agents do.
"""
