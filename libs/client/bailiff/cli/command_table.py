"""Table of the `bailiff` commands: module, panel of the help, and one-line summary for help and completion.

The modules are loaded only for the command that runs.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

JOBS, MACHINES, RECORD, HELP, OPERATORS = "Jobs", "Machines and pools", "Audit log", "Help", "Operators"


class CommandEntry(NamedTuple):
    """A command or group of the root command.

    Attributes:
        module: Its module in this package.
    """

    module: str
    panel: str
    summary: str


COMMANDS: Mapping[str, CommandEntry] = {
    "submit": CommandEntry("submit", JOBS, "Submit a job: bailiff submit --gpus 4 --class train -- python train.py"),
    "resubmit": CommandEntry("submit", JOBS, "Submit a job again, changed by options."),
    "list": CommandEntry("job_list", JOBS, "List jobs: running ones first, then pending ones in queue order."),
    "accounting": CommandEntry(
        "accounting", JOBS, "Show GPU-hours used, borrowed, lost and waited for, per user, project, day …"
    ),
    "describe": CommandEntry("jobs", JOBS, "Show one job: state, why it is pending, its tasks and its history."),
    "logs": CommandEntry("logs", JOBS, "Print the output of a job's tasks."),
    "attach": CommandEntry("attach", JOBS, "Attach to the terminal of a running job."),
    "shell": CommandEntry("shell", JOBS, "Open a shell beside a running task, with its GPUs and environment."),
    "port-forward": CommandEntry("port_forward", JOBS, "Forward a port of this machine to a port of a running job."),
    "cancel": CommandEntry("requests", JOBS, "Cancel jobs, pending or running."),
    "delete": CommandEntry("requests", JOBS, "Alias of cancel."),
    "scale": CommandEntry("requests", JOBS, "Change the number of tasks of a job."),
    "set-priority-class": CommandEntry("requests", JOBS, "Change the priority class of a pending job."),
    "evict": CommandEntry("requests", JOBS, "Evict jobs; they return to the queue at their old position."),
    "pause": CommandEntry("requests", JOBS, "Suspend jobs until they are resumed."),
    "checkpoint": CommandEntry("requests", JOBS, "Save running jobs by their nodes; they go on."),
    "resume": CommandEntry("requests", JOBS, "Resume paused jobs from their last checkpoints."),
    "migrate": CommandEntry("migrate", JOBS, "Move a running job to other nodes."),
    "nodes": CommandEntry("pool", MACHINES, "List nodes, their free resources and the jobs on each GPU."),
    "pools": CommandEntry("pool", MACHINES, "List pools with their log position, nodes and jobs."),
    "cluster-info": CommandEntry("pool", MACHINES, "Show Kafka, pools, nodes, engines and policies of this cluster."),
    "top": CommandEntry("top", MACHINES, "Watch a pool live: GPUs, preemptions, running jobs and the queue."),
    "drain": CommandEntry("drain", MACHINES, "Drain a node: place nothing new there and evict its jobs."),
    "undrain": CommandEntry("requests", MACHINES, "Make a drained node schedulable again."),
    "plan": CommandEntry("plan", MACHINES, "Show what the scheduler would decide next, live or from a file."),
    "simulate": CommandEntry("simulate", MACHINES, "Compare policies on a recorded trace; needs no cluster."),
    "import": CommandEntry(
        "import_history", MACHINES, "Read another scheduler's history: what it preempted, and the same with Bailiff."
    ),
    "project": CommandEntry("project", MACHINES, "Projects: quota, usage and fair share."),
    "budget": CommandEntry("budget", MACHINES, "Budgets of GPU-hours: list, top up, transfer."),
    "reserve": CommandEntry("reserve", MACHINES, "Reserve GPUs for a project: once, daily, or weekly."),
    "reservations": CommandEntry("reserve", MACHINES, "List reservations of GPUs, or print them as a calendar."),
    "unreserve": CommandEntry("requests", MACHINES, "Cancel a reservation of GPUs: what is left of it."),
    "pool": CommandEntry("pool", MACHINES, "Pools: sets of nodes, each with its own log."),
    "node": CommandEntry("pool", MACHINES, "Nodes: details, enrolment, quarantined GPUs, replacement."),
    "class": CommandEntry("classes", MACHINES, "Priority classes."),
    "policy": CommandEntry("policy", MACHINES, "The policy: show, check, compare, apply, tune."),
    "events": CommandEntry("events", RECORD, "List events of jobs and nodes: Scheduled, Started, Preempted, Resumed …"),
    "explain": CommandEntry("explain", RECORD, "Explain why a job is pending, why it was preempted, and by which job."),
    "what-if": CommandEntry("what_if", RECORD, "Compare the recorded past with another policy."),
    "audit": CommandEntry("audit", RECORD, "Read, verify, replay, export and prove the audit log."),
    "engine": CommandEntry("engine", RECORD, "Engine wheels kept for replay."),
    "doctor": CommandEntry("doctor", HELP, "Check this machine, Kafka, topics, logs and services."),
    "version": CommandEntry("version", HELP, "Print the release and the engine's digest."),
    "help-exit-codes": CommandEntry("version", HELP, "List the exit codes."),
    "notify": CommandEntry("notify", OPERATORS, "Notify job owners of preemptions by webhook or command."),
    "witness": CommandEntry("witness", OPERATORS, "Cosign the seals: remember each log and sign only what continues it."),
    "topics": CommandEntry("admin", OPERATORS, "Create Kafka topics."),
    "security": CommandEntry("security", OPERATORS, "Users, access lists and certificates of Kafka."),
    "log": CommandEntry("admin", OPERATORS, "Recover a truncated audit log."),
    "key": CommandEntry("keys", OPERATORS, "Keys: of requests, the root key, certificates, revocation."),
}

FAMILIAR: Mapping[str, str] = {
    **dict.fromkeys(("squeue", "get", "ls", "ps", "jobs", "queue", "status", "sprio"), "list"),
    **dict.fromkeys(("sbatch", "apply", "create", "run", "add"), "submit"),
    **dict.fromkeys(("srun", "salloc"), "submit --interactive"),
    **dict.fromkeys(("scancel", "kill", "stop", "rm", "remove"), "cancel"),
    **dict.fromkeys(("show", "inspect", "scontrol"), "describe"),
    **dict.fromkeys(("exec", "ssh"), "shell"),
    **dict.fromkeys(("hold", "suspend"), "pause"),
    **dict.fromkeys(("release", "unpause", "continue"), "resume"),
    **dict.fromkeys(("requeue", "preempt"), "evict"),
    **dict.fromkeys(("rerun", "restart"), "resubmit"),
    **dict.fromkeys(("sacct", "sreport", "usage"), "accounting"),
    **dict.fromkeys(("sinfo", "smap"), "nodes"),
    **dict.fromkeys(("sacctmgr", "sshare", "projects", "quota"), "project list"),
    "sattach": "attach",
    "why": "explain",
    "cordon": "drain",
    "uncordon": "undrain",
    "classes": "class list",
}
"""What people of Slurm, kubectl and other systems type, and the command that does it here."""


def familiar_hint(group: str, name: str, known: Collection[str]) -> str:
    """The command that does what `name` does elsewhere, or that is one level up or down; empty: none is known.

    Args:
        group: The group in which `name` was looked for, such as `bailiff node`.
        known: Its commands.
    """
    ours = FAMILIAR.get(name, name)
    first = ours.split()[0]
    if first in known and first != name:
        return f"{group} {ours}"
    return f"bailiff {ours}" if first in COMMANDS else ""
