"""Who saves a job's work when it is evicted, and where a snapshot that a node has stored can be restored.

A snapshot is the state of a task as the platform saves it; a checkpoint is what the job itself saves.
"""

from collections import Counter
from typing import Literal

from bailiff_core.humanize import duration_text, memory_text

from .demand import Checkpointing, JobDemand
from .evictions import ActiveEviction
from .grace import grace_of
from .job_spec import ADDED_LABELS
from .policy import Policy
from .project_tree import tree_of
from .snapshot_offer import NotRestored, SnapshotOffer
from .state import Job, JobSnapshot, Node, PoolState, StoredSnapshot, Task

SaveStep = Literal["", "dump", "end", "thaw"]
RestoreStep = Literal["", "continue", "anew"]
EXITED = ("exited", "released")
SAVE_STAGES = ("frozen", "dumped", "stored", "save_failed")
PARKED_STAGES = (*SAVE_STAGES, "park_lost")
BY_NODE: tuple[Checkpointing, ...] = ("snapshot", "auto")
PARK = "park"
"""The driver of a task that is parked: it stays in the memory of its node."""


def checkpointing(policy: Policy, job: Job) -> Checkpointing:
    """Returns who saves the job's work: what it says, else its class; the job itself where no node could do it."""
    entry = policy.find_class(job.class_name)
    stated = job.demand.checkpoint or (entry.checkpoint if entry is not None else "job")
    return "job" if stated in BY_NODE and not_saved(job.demand) else stated


def not_saved(demand: JobDemand) -> str:
    """Returns why no node saves such a job; empty: nodes with a driver do."""
    if any(label.startswith(ADDED_LABELS) for group in demand.tasks for label in group.node_labels):
        return "it runs in a container or a pod, and only processes are saved"
    return ""


def driver_of(node: Node) -> SnapshotOffer | None:
    """Returns the first driver that works on the node."""
    return next((offer for offer in node.snapshots if not offer.why_not), None)


def is_saved_by_node(state: PoolState, job: Job) -> bool:
    """Whether the nodes of the job's tasks would save it in an eviction, as far as is known: its last snapshot did not fail.

    Not a job of which a part may be evicted: no node saves a part.
    """
    if job.unsaved_seq is not None or checkpointing(state.rules, job) not in BY_NODE:
        return False
    if job.minimum < job.size or over_quota(state, job):
        return False
    return all(driver_of(state.nodes[task.node]) is not None for task in job.tasks)


def saved_by(state: PoolState, entry: ActiveEviction) -> Checkpointing:
    """Returns how the evicted tasks are saved: by their nodes only where these can, and where the job starts again.

    All tasks of a gang are saved, or none is.
    """
    job = entry.job
    stated = checkpointing(state.rules, job)
    if stated in ("job", "none"):
        return stated
    comes_back = not job.cancelled and entry.eviction.cause != "time-limit" and job.demand.on_eviction != "end"
    able = all(driver_of(state.nodes[task.node]) is not None for task in entry.tasks) and not over_quota(state, job)
    able = (able or entry.eviction.parks) and not entry.part and not any(task.waits for task in entry.tasks)
    return stated if comes_back and able and not entry.eviction.stuck else "job"


def why_not_saved(state: PoolState, job: Job) -> str:
    """Returns why its nodes cannot save the job while it runs; empty: it can be tried."""
    if checkpointing(state.rules, job) not in BY_NODE:
        return "its checkpoint is neither snapshot nor auto, so no node was to save it"
    if job.phase != "running" or any(task.state != "running" or task.eviction or task.waits for task in job.tasks):
        return "not all of its tasks run"
    unable = next((node for task in job.tasks if driver_of(node := state.nodes[task.node]) is None), None)
    return over_quota(state, job) if unable is None else f"{unable.name} saves no tasks"


def over_quota(state: PoolState, job: Job) -> str:
    """Returns why no other snapshot of the job may be kept; empty: one may. The one that it has would be replaced."""
    general, counts, tree = state.rules.snapshots.project_quota, snapshot_bytes(state), tree_of(state)
    if general is None and not tree.stating:
        return ""
    path = tree.branches[job.project].path if job.project in tree.branches else ()
    stated = {name: entry.snapshots.quota for name in path if (entry := tree.stating.get(name)) is not None}
    for name, quota in stated.items():
        held = sum(size for each, size in counts.items() if each in tree.branches and name in tree.branches[each].path)
        if quota is not None and held + (job.snapshot is None) > quota:
            return _exceeded(f"project {name}", held, quota, f"projects.{name}.snapshots.quota")
    held = counts[job.project]
    if general is None or stated.get(job.project) is not None or held + (job.snapshot is None) <= general:
        return ""
    return _exceeded(
        f"project {job.project}" if job.project else "jobs without a project", held, general, "snapshots.project_quota"
    )


def _exceeded(whose: str, held: int, quota: int, field: str) -> str:
    return f"the snapshots of {whose} hold {memory_text(held)}, and the policy keeps {memory_text(quota)} ({field})"


def snapshot_bytes(state: PoolState) -> Counter[str]:
    """Returns what the snapshots of each project's open jobs hold; counted once, then kept by the fold."""
    counts = state.indices.snapshot_bytes
    if counts is None:
        counts = state.indices.snapshot_bytes = Counter[str]()
        for name in state.jobs:
            if name not in state.ended:
                job = state.jobs[name]
                counts[job.project] += bytes_on_disk(job)
    return counts


def bytes_on_disk(job: Job) -> int:
    """Returns what its snapshot there holds, as its nodes have said."""
    kept = on_disk(job)
    return sum(each.bytes for each in kept.tasks) if kept is not None else 0


def is_parked(job: Job) -> bool:
    """Whether its newest snapshot is its task itself, stopped in the memory of its node."""
    return job.snapshot is not None and any(each.driver == PARK for each in job.snapshot.tasks)


def has_parked(node: Node, part: StoredSnapshot) -> bool:
    """Whether that is where it is parked: the node may be another machine by now, and another node be on the same machine."""
    return (part.node, part.machine_id) == (node.number, node.machine_id)


def on_disk(job: Job) -> JobSnapshot | None:
    """Returns its newest snapshot there: while it is parked, the one before."""
    return job.snapshot.on_disk if job.snapshot is not None and is_parked(job) else job.snapshot


def work_lost(job: Job, continues: JobSnapshot | None = None) -> int:
    """Returns the work that is lost with the job's newest snapshot, in GPU-ms.

    Args:
        continues: What it continues from instead.
    """
    newest = job.snapshot.work_gpu_ms if job.snapshot is not None else 0
    return newest - (continues.work_gpu_ms if continues is not None else 0)


def is_saving_over(task: Task) -> bool:
    """Whether nothing is to be awaited of the task's snapshot while it runs: it is there, failed, or was never ordered."""
    done = task.saving is None or any(stage in task.saving.stage_times for stage in ("stored", "save_failed"))
    return done or task.state in EXITED


def saving_step(job: Job) -> SaveStep:
    """Returns what the tasks of a gang do next that is saved while it runs; empty: those that are frozen wait for the others."""
    if any(_has_no_snapshot(task) for task in job.tasks):
        return "thaw"
    return "dump" if all(task.saving is not None and "frozen" in task.saving.stage_times for task in job.tasks) else ""


def _has_no_snapshot(task: Task) -> bool:
    return is_saving_over(task) and (task.saving is None or "stored" not in task.saving.stage_times)


def save_step(entry: ActiveEviction) -> SaveStep:
    """Returns what the tasks of a gang do next, one of which is frozen for its snapshot; empty: they wait.

    Once all of them are frozen they are dumped, once all are stored they end. They go on as soon as one cannot be saved.
    """
    if all(map(is_stored, entry.tasks)):
        return "end"
    if any(_is_unsaved(task) for task in entry.tasks):
        return "thaw"
    return "dump" if all("frozen" in task.stage_times for task in entry.tasks) else ""


def is_stored(task: Task) -> bool:
    """Whether its node has stored or parked it in this eviction, and it has not gone on since."""
    if "parked" in task.stage_times:
        return True
    return "stored" in task.stage_times and "save_failed" not in task.stage_times


def _is_unsaved(task: Task) -> bool:
    """Whether it is not saved any more in this eviction: it cannot be, saves itself, or has ended."""
    if any(stage in task.stage_times for stage in ("save_failed", "acknowledged", "term_sent")):
        return True
    return task.state in EXITED and "stored" not in task.stage_times


def restore_step(job: Job) -> RestoreStep:
    """Returns what the restored tasks of a gang do, which stand still; empty: they wait.

    They continue once all are restored. They start anew as soon as one cannot be, unless all were told to continue.
    """
    if any(task.restored for task in job.tasks):
        return "continue"
    if any(task.restore_failed or task.not_restored for task in job.tasks):
        return "anew"
    return "continue" if all(task.waits and task.state not in EXITED for task in job.tasks) else ""


def keeps_work(state: PoolState, job: Job) -> bool:
    """Whether an eviction of the job loses no work: its node saves it; of tasks that have ended, has saved them."""
    if any(task.state in EXITED for task in job.tasks):
        return all(map(is_stored, job.tasks))
    return is_saved_by_node(state, job)


def why_not_restored(state: PoolState, job: Job, snapshot: JobSnapshot) -> NotRestored:
    """Returns why the job's tasks, where they are placed, cannot all continue from it; empty: it can be tried."""
    kept = {each.task: each for each in snapshot.tasks}
    if [*kept] != [task.index for task in job.tasks]:
        return "other-tasks"
    return next((why for task in job.tasks if (why := _why_not_there(kept[task.index], state.nodes[task.node]))), "")


def _why_not_there(snapshot: StoredSnapshot, node: Node) -> NotRestored:
    same = node.machine_id == snapshot.machine_id
    if snapshot.driver == PARK:
        return "" if has_parked(node, snapshot) else "other-node"
    if not same and (snapshot.checkpoint_store is None or snapshot.checkpoint_store != node.checkpoint_store):
        return "other-folder"
    offers = [offer for offer in node.snapshots if offer.driver == snapshot.driver and not offer.why_not]
    if not offers:
        return "no-driver"
    if same and not snapshot.cpu:
        return ""  # its agent had started again, and had said nothing of its CPU yet
    return "" if any(offer.cpu == snapshot.cpu for offer in offers) else "other-cpu"


def restored_by(job: Job, task: Task) -> tuple[int, StoredSnapshot] | None:
    """Returns the part of the job's snapshot from which the task, which starts, is to continue, and the attempt it is of."""
    kept = (on_disk(job) if task.not_restored else job.snapshot) if task.restores else None
    return next(((kept.attempt, each) for each in kept.tasks if each.task == task.index), None) if kept is not None else None


def too_slow_to_save(state: PoolState, job: Job) -> str:
    """Returns why its grace may be too short to save the memory that it requests on the slowest node; empty: it is not."""
    drivers = [driver for node in state.nodes.values() if (driver := driver_of(node)) is not None]
    rates = [driver.bytes_per_s for driver in drivers if driver.bytes_per_s]
    memory = max(group.memory_bytes for group in job.demand.tasks)
    if not rates or not memory or checkpointing(state.rules, job) not in BY_NODE:
        return ""
    takes, grace = memory * 1_000_000 // min(rates), grace_of(state, job)
    if takes <= grace:
        return ""
    return (
        f"its grace of {duration_text(grace)} may be too short for a snapshot: to save {memory_text(memory)} takes about "
        f"{duration_text(takes)} on the slowest node"
    )
