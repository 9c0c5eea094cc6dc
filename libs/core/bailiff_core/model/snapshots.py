"""Who saves a job's work when it is evicted, and where a snapshot that a node has stored can be restored.

A snapshot is the state of a task as the platform saves it; a checkpoint is what the job itself saves.
"""

from bailiff_core.humanize import duration_text, memory_text

from .demand import Checkpointing, JobDemand
from .evictions import ActiveEviction
from .grace import grace_of
from .job_spec import ADDED_LABELS
from .policy import Policy
from .snapshot_offer import NotRestored, SnapshotOffer
from .state import Job, Node, PoolState, StoredSnapshot, Task


def checkpointing(policy: Policy, job: Job) -> Checkpointing:
    """Returns who saves the job's work: what it says, else its class; the job itself where no node could do it."""
    entry = policy.find_class(job.class_name)
    stated = job.demand.checkpoint or (entry.checkpoint if entry is not None else "job")
    return "job" if stated in ("snapshot", "auto") and not_saved(job.demand) else stated


def not_saved(demand: JobDemand) -> str:
    """Returns why no node saves such a job; empty: nodes with a driver do."""
    if sum(group.count for group in demand.tasks) > 1:
        return "it has more than one task, and only jobs of one task are saved"
    if any(label.startswith(ADDED_LABELS) for group in demand.tasks for label in group.node_labels):
        return "it runs in a container or a pod, and only processes are saved"
    return ""


def driver_of(node: Node) -> SnapshotOffer | None:
    """Returns the first driver that works on the node."""
    return next((offer for offer in node.snapshots if not offer.why_not), None)


def is_saved_by_node(state: PoolState, job: Job) -> bool:
    """Whether the node of the job's task would save it in an eviction, as far as is known: its last snapshot did not fail."""
    if job.unsaved_seq is not None or checkpointing(state.rules, job) not in ("snapshot", "auto"):
        return False
    return all(driver_of(state.nodes[task.node]) is not None for task in job.tasks)


def saved_by(state: PoolState, entry: ActiveEviction) -> Checkpointing:
    """Returns how the evicted tasks are saved: by their nodes only where these can, and where the job starts again."""
    job = entry.job
    stated = checkpointing(state.rules, job)
    if stated in ("job", "none"):
        return stated
    comes_back = not job.cancelled and entry.eviction.cause != "time-limit" and job.demand.on_eviction != "end"
    able = all(driver_of(state.nodes[task.node]) is not None for task in entry.tasks)
    return stated if comes_back and able and not entry.eviction.stuck else "job"


def keeps_work(state: PoolState, job: Job) -> bool:
    """Whether an eviction of the job loses no work: its node saves it; of tasks that have ended, has saved them."""
    if any(task.state in ("exited", "released") for task in job.tasks):
        return all("stored" in task.stage_times for task in job.tasks)
    return is_saved_by_node(state, job)


def why_not_restored(snapshot: StoredSnapshot, node: Node) -> NotRestored:
    """Returns why the snapshot cannot be restored on the node; empty: it can be tried."""
    same = node.machine_id == snapshot.machine_id
    if not same and (snapshot.checkpoint_store is None or snapshot.checkpoint_store != node.checkpoint_store):
        return "other-folder"
    offers = [offer for offer in node.snapshots if offer.driver == snapshot.driver and not offer.why_not]
    if not offers:
        return "no-driver"
    return "" if any(offer.cpu == snapshot.cpu for offer in offers) else "other-cpu"


def restored_by(job: Job, task: Task) -> StoredSnapshot | None:
    """Returns the snapshot from which the task, which starts, is to continue."""
    return job.snapshot if task.restores and job.snapshot is not None and job.snapshot.task == task.index else None


def too_slow_to_save(state: PoolState, job: Job) -> str:
    """Returns why its grace may be too short to save the memory that it requests on the slowest node; empty: it is not."""
    drivers = [driver for node in state.nodes.values() if (driver := driver_of(node)) is not None]
    rates = [driver.bytes_per_s for driver in drivers if driver.bytes_per_s]
    memory = job.demand.tasks[0].memory_bytes
    if not rates or not memory or checkpointing(state.rules, job) not in ("snapshot", "auto"):
        return ""
    takes, grace = memory * 1_000_000 // min(rates), grace_of(state, job)
    if takes <= grace:
        return ""
    return (
        f"its grace of {duration_text(grace)} may be too short for a snapshot: to save {memory_text(memory)} takes about "
        f"{duration_text(takes)} on the slowest node"
    )
