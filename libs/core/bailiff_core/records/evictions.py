"""Facts about evictions: proposed, started, and how far each task came."""

from typing import Literal

from bailiff_core.model.document import Count, Document, Duration, Hash, JobName, MeasuredBytes, Reason, Seq, SnapshotDriver, Text
from bailiff_core.model.proposal import Proposal

from .payload import Fact
from .tasks import Checkpoint, TaskFact


class ProposalReceived(Fact):
    """Proposals of victim selection for selection `selection`, computed on the state at `computed_at` (a seq).

    They are claims. That state has the requests and, in its policy, the step budget, so anybody can search again.
    """

    selection: Count
    computed_at: Seq
    logic: Count
    proposals: tuple[Proposal, ...]


class EvictionStarted(Fact):
    """The executor starts the eviction: agents are notified from here on."""

    job: JobName
    attempt: Count
    decided_by: Seq


class PreemptionAbandoned(Fact):
    """The executor found that the preemption is not needed any more."""

    preemption: Seq
    reason: Text


EvictionStage = Literal[
    "noticed",
    "acknowledged",
    "step_confirmed",
    "step_agreed",
    "checkpoint_started",
    "saving_in_flight",
    "checkpoint_committed",
    "yielding",
    "term_sent",
    "kill_sent",
    "frozen",
    "dumped",
    "stored",
    "save_failed",
    "parked",
    "park_failed",
    "park_lost",
]
"""`frozen` to `save_failed` are of a snapshot by the node: the task stands still, its state is written, it is complete on disk;
or this failed, and the task goes on. `parked`: it stays in memory, stopped, and has released all else. `park_failed`: it is not
parked, but saved as without parking. `park_lost`: a parked task is gone."""


class Stage(Document):
    """How far a task's eviction came. `elapsed` is µs since the notice, on the agent's boot-time clock.

    Attributes:
        step: Step of the stage; with `noticed`, the last one that the task published.
        attached: With `noticed`: the task listens for notices, so TERM follows `term_after` µs after the notice instead of with
            it; KILL follows `kill_after` µs after the notice.
        step_rate_milli: Steps in 1,000 s; 0: unknown.
        stuck_in: With `term_sent` and `kill_sent`: the last stage before it; `noticed` means that the task never acknowledged.
        driver: Of a snapshot: what saves the task.
        bytes: With `dumped` and `stored`: size of the snapshot. With `parked`: memory that the task holds.
        sha256: With `stored`: of its manifest, which has the SHA-256 of every file. With `parked`: a name of the parked task.
        reason: With `save_failed`, `park_failed` and `park_lost`.
    """

    stage: EvictionStage
    elapsed: Duration = 0
    step: Count | None = None
    attached: bool = False
    term_after: Duration | None = None
    kill_after: Duration | None = None
    step_rate_milli: Count = 0
    checkpoint: Checkpoint | None = None
    stuck_in: EvictionStage | None = None
    driver: SnapshotDriver | None = None
    bytes: MeasuredBytes | None = None
    sha256: Hash | None = None
    reason: Reason = ""


class EvictionStageReached(TaskFact, Stage):
    """A stage of the task's eviction was reached."""


class SnapshotStageReached(TaskFact, Stage):
    """A stage of a snapshot of the running task was reached: `elapsed` is µs since it was ordered. `save_failed`: it goes on."""


class ParkedTaskStageReached(TaskFact, Stage):
    """A stage of a parked task of an earlier attempt, by the node that keeps it: of its snapshot, or `park_lost`.

    `stored`: it is an ordinary snapshot now. `save_failed`: it stays parked.

    Attributes:
        lost_gpu_ms: With `park_lost`: the work that only the parked task had.
    """

    lost_gpu_ms: Count = 0


class TaskEvictionCancelled(TaskFact):
    """The agent confirms that the task's eviction is cancelled."""


class TaskCancelEvictionRefused(TaskFact):
    """The task had acknowledged, or got TERM, before the cancellation arrived; its eviction continues."""
