"""The work lost when tasks stop: GPUs and time since the last checkpoint (docs/concepts/semantics/victims.md)."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from bailiff_core.humanize import cost_text

from .claims import believed
from .demand import TaskGroup
from .gpu_shares import devices_of, share_of, shares_devices, units_of
from .mig import mig_gpu_milli
from .parking import parks
from .placement_ranges import numbers
from .proposal import VictimChoice
from .snapshots import checkpointing, keeps_work
from .state import Job, PoolState, Task
from .units import stopped_tasks


def allocated_gpu_milli(state: PoolState, job: Job, tasks: Iterable[Task]) -> int:
    """Returns the GPUs of the tasks, in thousandths, rounded down."""
    total: int | Fraction = 0
    for task in tasks:
        group = job.group(task.index)
        if group.mig_profile is not None:
            total += mig_gpu_milli(group.mig_profile, state.rules.devices.mig_weights) * devices_of(group)
            continue
        if not shares_devices(group):
            total += group.gpu_milli
            continue
        for device in state.nodes[task.node].devices:
            if task.devices >> device.number & 1:
                total += Fraction(1000 * share_of(group, device), units_of(device))
    return int(total)


def allocated_by_model(state: PoolState, job: Job, tasks: Iterable[Task]) -> dict[str, int]:
    """Returns `allocated_gpu_milli` by the model of the GPUs, sorted; what rounding takes from them is the first one's."""
    found: dict[str, int | Fraction] = {}
    for task in tasks:
        group = job.group(task.index)
        devices = [device for device in state.nodes[task.node].devices if task.devices >> device.number & 1]
        whole = 0 if shares_devices(group) else allocated_gpu_milli(state, job, (task,))
        if whole and not devices:  # of an attempt whose places are not known any more
            found[""] = found.get("", 0) + whole
        for device in devices:
            part = Fraction(whole, len(devices)) if whole else Fraction(1000 * share_of(group, device), units_of(device))
            found[device.model] = found.get(device.model, 0) + part
    rounded = {model: int(found[model]) for model in sorted(found)}
    for model in rounded:
        rounded[model] += int(sum(found.values())) - sum(rounded.values())
        break
    return {model: amount for model, amount in rounded.items() if amount}


def counted_gpu_milli(state: PoolState, job: Job, tasks: Iterable[Task]) -> int:
    """Returns what the objective counts for the tasks, in thousandths of a GPU: their GPUs; of tasks without GPUs, their CPUs.

    `preemption.cpus_per_gpu` CPUs count as one GPU, rounded up per task, and at least one thousandth.
    """
    tasks = list(tasks)
    return allocated_gpu_milli(state, job, tasks) + cpus_as_gpu_milli(state, job, tasks)


def cpus_as_gpu_milli(state: PoolState, job: Job, tasks: Iterable[Task]) -> int:
    """Returns what the CPUs of tasks without GPUs count, in thousandths of a GPU."""
    cpus_per_gpu = state.rules.preemption.cpus_per_gpu
    return sum(max(1, -(-cpu_milli // cpus_per_gpu)) for cpu_milli in _cpus_of_tasks_without_gpus(job, tasks))


def counted_cpu_milli(job: Job, tasks: Iterable[Task]) -> int:
    """Returns the CPUs, in thousandths, that `counted_gpu_milli` counts as GPUs: those of tasks without GPUs."""
    return sum(_cpus_of_tasks_without_gpus(job, tasks))


def uses_gpus(group: TaskGroup) -> bool:
    """Whether its tasks use whole GPUs, parts of them, or MIG devices."""
    return group.gpu_milli > 0 or group.mig_profile is not None or shares_devices(group)


def _cpus_of_tasks_without_gpus(job: Job, tasks: Iterable[Task]) -> list[int]:
    if all(map(uses_gpus, job.demand.tasks)):
        return []
    groups = (job.group(task.index) for task in tasks)
    return [group.cpu_milli for group in groups if not uses_gpus(group)]


class Loss(NamedTuple):
    """What stopping tasks loses, in GPU-ms: work, and what it costs to restart, are shown and counted apart.

    Attributes:
        work: Work since the last checkpoint, or since the start.
        assumed: What the policy assumes that a restart costs (`preemption.restart_cost`).
        measured: Instead, what it took to save and restore the jobs that their nodes save.
    """

    work: int
    assumed: int
    measured: int = 0

    @property
    def restart(self) -> int:
        """What the restarts cost, assumed or measured."""
        return self.assumed + self.measured

    def __str__(self) -> str:
        parts = [f"{cost_text(self.work)} of work"]
        parts += [f"{cost_text(self.assumed)} to restart (assumed)"] if self.assumed or not self.measured else []
        parts += [f"{cost_text(self.measured)} to save and restore (measured)"] if self.measured else []
        return f"{', '.join(parts[:-1])} and {parts[-1]}"

    def plus(self, other: "Loss") -> "Loss":
        """Returns the figures of the two losses, each summed."""
        return Loss(self.work + other.work, self.assumed + other.assumed, self.measured + other.measured)


NO_LOSS = Loss(0, 0)


def won_by_payback(state: PoolState, gpu_milli: int) -> int | None:
    """Returns what so much is worth within the policy's `preemption.payback`, in GPU-ms; `None`: the policy sets no time."""
    payback = state.rules.preemption.payback
    return None if payback is None else gpu_milli * payback // 1_000_000


def loss_now(state: PoolState, job: Job, gpu_milli: int, *, for_good: bool = False, moved: bool = False) -> Loss:
    """Returns what is lost if so much of the job stops now.

    Args:
        gpu_milli: As `counted_gpu_milli` counts it.
        for_good: The job ends, so its checkpoint is of no use, and nothing starts again.
        moved: To a place that is reserved for it, so it is not parked.
    """
    lost = lost_gpu_ms(state, job, gpu_milli, for_good=for_good, moved=moved)
    measured = not for_good and restart_is_measured(state, job, moved=moved)
    return recorded_loss(state, gpu_milli, lost, for_good=for_good, measured=measured)


def lost_gpu_ms(state: PoolState, job: Job, gpu_milli: int, *, for_good: bool = False, moved: bool = False) -> int:
    """Returns the sum of the figures of `loss_now`, which decisions compare and record.

    Of a job that is believed less, less running time counts. Where its node saves it, no work is lost.
    """
    if for_good:
        return gpu_milli * unsaved_time(state, job, for_good=True) // 1_000_000
    measured = restart_time_of(state, job, moved=moved)
    if measured is not None:
        return gpu_milli * measured // 1_000_000
    lost_time = 0 if keeps_work(state, job) else unsaved_time(state, job)
    return gpu_milli * (lost_time + state.rules.preemption.restart_cost) // 1_000_000


def restart_is_measured(state: PoolState, job: Job, *, moved: bool = False) -> bool:
    """Whether the job's last snapshot says what its eviction costs: its nodes save it, and one was restored; or it is parked."""
    return restart_time_of(state, job, moved=moved) is not None


def restart_time_of(state: PoolState, job: Job, *, moved: bool = False) -> int | None:
    """Returns how long saving and restoring the job takes, as the last time, µs; `None`: its nodes do not save it, or never have.

    It never costs more than the loss of all that it has not saved: no job protects itself by memory that it does not need. To
    park it takes less than to save it, and is assumed to take nothing the first time.
    """
    if not moved and parks(state, job):
        return min(job.park_time or 0, state.rules.preemption.restart_cost)
    if job.restart_time is None or not keeps_work(state, job):
        return None
    most = unsaved_time(state, job) + state.rules.preemption.restart_cost
    return job.restart_time if job.restart_time <= most else None


def unsaved_time(state: PoolState, job: Job, *, for_good: bool = False, until: int | None = None) -> int:
    """Returns how long the job has worked since its start, or since it was last saved if that is of use, µs; at most what counts.

    Args:
        until: Log time, µs; None: now.
    """
    if job.last_start is None:
        return 0
    is_of_use = not for_good and checkpointing(state.rules, job) != "none"
    since = max(job.last_start, job.last_checkpoint or 0, job.saved_until or 0) if is_of_use else job.last_start
    before = job.unsaved_before if since == job.last_start else 0
    worked = max(0, (state.now if until is None else until) - since) + before
    return min(worked, believed(job, state.rules.preemption.max_counted_loss))


def eviction_loss(state: PoolState, job: Job, evicted: Sequence[Task], *, whole: bool, moved: bool = False) -> Loss:
    """Returns what is lost if these tasks are evicted now: by them, and by all that stop with them (`stopped_tasks`).

    Args:
        whole: All of the job is evicted.
        moved: To a place that is reserved for it.
    """
    gpu_milli = counted_gpu_milli(state, job, stopped_tasks(job, evicted, whole=whole))
    return loss_now(state, job, gpu_milli, for_good=ends_for_good(job, whole=whole, moved=moved), moved=moved)


def ends_for_good(job: Job, *, whole: bool, moved: bool = False) -> bool:
    """Whether the job does not come back once it is evicted.

    Args:
        moved: It has a place reserved for its next attempt.
    """
    return whole and not moved and job.demand.on_eviction == "end"


def recorded_loss(state: PoolState, gpu_milli: int, lost_gpu_ms: int, *, for_good: bool = False, measured: bool = False) -> Loss:
    """Returns the figures of a recorded `lost_gpu_ms`, which is their sum: a level of the victims' cost.

    Args:
        state: Has the policy that was in force.
        gpu_milli: What stopped, as `counted_gpu_milli` counts it.
        lost_gpu_ms: Of a victim, a `JobRequeued`, a `JobShrunk` or a `JobEnded`.
        for_good: The job ends and does not start again.
        measured: What it costs to restart was measured, as the record says; no work is lost.
    """
    if measured:
        return Loss(0, 0, lost_gpu_ms)
    restart = 0 if for_good else min(lost_gpu_ms, gpu_milli * state.rules.preemption.restart_cost // 1_000_000)
    return Loss(lost_gpu_ms - restart, restart)


def victim_loss(state: PoolState, choice: VictimChoice) -> Loss | None:
    """Returns the loss of a chosen victim, as it was recorded; `None` once the state has no tasks of that attempt.

    One that was measured is known from the record alone.
    """
    job = state.jobs.get(choice.job)
    if choice.reserved or choice.extends:
        return NO_LOSS
    if choice.measured:
        return Loss(0, 0, choice.lost_gpu_ms)
    if job is None or job.attempt != choice.attempt or not job.tasks:
        return None
    started = [task for task in job.tasks if task.state not in ("reserved", "released") or task.finished]
    if choice.tasks:
        members = dict.fromkeys((*numbers(choice.tasks), *numbers(choice.restarts)))
        started = [task for task in started if task.index in members]
        if not started:
            return None
    gpu_milli = counted_gpu_milli(state, job, started)
    return recorded_loss(state, gpu_milli, choice.lost_gpu_ms, for_good=choice.ends)


def victims_loss(state: PoolState, victims: Iterable[VictimChoice]) -> Loss | None:
    """Returns the loss of all these victims; `None` if that of one is not known any more."""
    total = NO_LOSS
    for choice in victims:
        loss = victim_loss(state, choice)
        if loss is None:
            return None
        total = total.plus(loss)
    return total


def past_loss(
    state: PoolState, job: Job, lost_gpu_ms: int, stopped: Sequence[Task] = (), *, for_good: bool = False, measured: bool = False
) -> Loss | None:
    """Returns the figures of a loss that was recorded earlier; `None` if the number of GPUs that stopped is not known now.

    Args:
        stopped: The tasks that stopped, with their devices if they share them; none: all of a job that is not elastic.
        for_good: The job ended.
        measured: As of `recorded_loss`.
    """
    if measured:
        return Loss(0, 0, lost_gpu_ms)
    ended = stopped or ([Task(index, 0, 0, "released") for index in range(job.size)] if job.minimum == job.size else ())
    if not ended or any(not task.devices and shares_devices(job.group(task.index)) for task in ended):
        return None
    return recorded_loss(state, counted_gpu_milli(state, job, ended), lost_gpu_ms, for_good=for_good)


def loss_text(loss: Loss | None, lost_gpu_ms: int) -> str:
    """Returns both figures as text; without them, that `lost_gpu_ms` is their sum."""
    return str(loss) if loss is not None else f"{cost_text(lost_gpu_ms)} of work and assumed restart together"


def note_loss(
    state: PoolState, job: Job, ended: Iterable[Task], lost_gpu_ms: int, *, for_good: bool = False, measured: bool = False
) -> None:
    """Keeps the loss of these tasks for `loss_of_end`. Called by the fold, before it removes them."""
    ended = list(ended)
    loss = recorded_loss(state, counted_gpu_milli(state, job, ended), lost_gpu_ms, for_good=for_good, measured=measured)
    state.indices.loss = job.id, loss, allocated_by_model(state, job, ended)


def loss_of_end(state: PoolState, job: str) -> Loss:
    """Returns the loss of the attempt, or the part of it, that the job's newest `JobRequeued`, `JobShrunk` or `JobEnded` ended.

    Args:
        state: Right after that record.
    """
    return Loss(*_newest_loss(state, job)[0])


def newest_loss(state: PoolState, job: str, lost_gpu_ms: int) -> Loss | None:
    """Returns `loss_of_end` if the state is right after a record of that job and that sum; else `None`."""
    noted = state.indices.loss
    return Loss(*noted[1]) if noted is not None and noted[0] == job and sum(noted[1]) == lost_gpu_ms else None


def gpus_of_end(state: PoolState, job: str) -> dict[str, int]:
    """Returns the GPUs of the attempt, or the part of it, that `loss_of_end` is about, in thousandths by model."""
    return _newest_loss(state, job)[1]


def _newest_loss(state: PoolState, job: str) -> tuple[tuple[int, int, int], dict[str, int]]:
    found = state.indices.loss
    assert found is not None
    assert found[0] == job
    return found[1], found[2]
