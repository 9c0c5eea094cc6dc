"""Usage and requests of each project, updated incrementally, with trial changes and rollback."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import NamedTuple

from bailiff_core.budgets.effects import without_quota
from bailiff_core.fold.past_use import average_use
from bailiff_core.model.gpu_kinds import FIRST
from bailiff_core.model.gpu_shares import devices_of, task_resources
from bailiff_core.model.mig import gpu_kinds_of, mig_gpu_milli, mig_weights_of
from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import NO_BOUNDS, ProjectTree, gpus_of_kind
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector, shortened
from bailiff_core.model.resources import add
from bailiff_core.model.share_turn import parent_and_kind, turn_of
from bailiff_core.model.state import ENDED, Job, PoolState, Resources, ShareTurn, Task
from bailiff_core.model.undecoded import alike
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of

from .counted_capacity import Accepted, AcceptedSizes, CountedCapacity, Needs
from .demand_vector import Placed, by_bytes, exact, of_members, of_places, size_of, size_of_kind
from .fair_share import Contest, Division, Entitlements, Steps, entitlements, in_proportion
from .holdings import Holdings
from .quotas_in_full import quotas_in_full

MAX_JOURNAL = 10_000
NO_TASKS: frozenset[int] = frozenset()
KEPT_NEEDS = 1_000  # scheduling classes
TaskResources = tuple[int, int, int, Mapping[int, int]]


class _JobUsage(NamedTuple):
    """Usage and requests of one job.

    Attributes:
        leaf: The project charged.
        uncounted: Tasks that are releasing and have no other place.
        claims: Requirements of its tasks, if it runs or could.
        sizes: What one device counts as of each of its tasks, in thousandths of a GPU.
        unmet: What it asks for and could not get of an empty pool.
        kind_sizes: As `sizes`, by the place of each kind of GPU that the task accepts.
        of_one_kind: As `requested`, of each kind only what it has of it, and what can be of no other.
    """

    leaf: str
    preemptible: bool
    allocated: ResourceVector
    requested: ResourceVector
    uncounted: frozenset[int] = NO_TASKS
    claims: tuple[TaskRequirements, ...] = ()
    sizes: tuple[Amount, ...] = ()
    unmet: ResourceVector = ZERO
    kind_sizes: tuple[tuple[int, Amount], ...] = ()
    of_one_kind: ResourceVector = ZERO


class Usage:
    """Amounts by project, of its own jobs and of all projects below it; `""` is the whole pool.

    Attributes:
        allocated: Amounts of tasks that are reserved, starting or running, and of reservations; releasing ones do not count.
        requested: Allocated amounts plus those of pending tasks.
        smallest: Measures requests in bytes by the smallest GPU that the task accepts.
        largest: Measures requests in bytes by the largest GPU that the task accepts.
        asking: As `smallest`, but what accepts several kinds of GPU asks for each of them.
    """

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._journal: list[str] = []
        self._discarded = 0
        self._trials: list[tuple[str, bool, ResourceVector]] = []
        self._trial_places: dict[tuple[str, int], TaskPlacement] = {}
        self._holdings: Holdings | None = None
        self._entitlements: Entitlements | None = None
        self._turns: Mapping[str, ShareTurn]
        self._in_full: tuple[tuple[ResourceVector, Amount], Mapping[str, ResourceVector]] | None = None
        self._count_all(state)

    @classmethod
    def of(cls, state: PoolState) -> "Usage":
        """Current usage of the pool's jobs."""
        return cls(state)

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Roll back every trial; reload these jobs and the nodes that changed."""
        self.rollback(0)
        self._trial_places.clear()
        self._state = state
        if len(self._journal) > MAX_JOURNAL:
            self._discarded += len(self._journal)
            self._journal.clear()
        if state.policy is not self._policy:  # the tree, the weights of MIG devices, and which jobs are preemptible may differ
            self._count_all(state)
            return
        if not jobs and not state.indices.changed_nodes:
            return
        if self._holdings is not None:
            self._holdings.refresh(state, jobs, state.indices.changed_nodes)
        self._entitlements = None
        moved = [*state.indices.changed_nodes, *self._note_stuck(jobs)]
        recounted = dict.fromkeys([*jobs, *self._affected(moved)])
        for name in recounted:
            self._count(name)

    @property
    def total(self) -> ResourceVector:
        """The capacity of the pool that counts for shares (`CountedCapacity`)."""
        return self._capacity.total

    @property
    def schedulable(self) -> ResourceVector:
        """The capacity of all nodes that take tasks."""
        return self._capacity.schedulable

    @property
    def holdings(self) -> Holdings:
        """Which GPUs jobs hold, and until when; kept up to date from when it is first asked for. Trials do not change it."""
        if self._holdings is None:
            self._holdings = Holdings(self._state, self.tree)
        return self._holdings

    @property
    def entitlements(self) -> Entitlements:
        """What each project is entitled to now. Trials do not change it."""
        if self._entitlements is None or self._turns is not self._state.share_turns:
            self._turns = self._state.share_turns
            self._entitlements = self.entitlements_if(self.requests, self._divided)
        return self._entitlements

    @property
    def contests(self) -> dict[str, Contest]:
        """By parent, the siblings of whom rounding leaves some without a GPU now; of a kind of GPU, by parent and kind."""
        if not self.entitlements:
            return {}
        return {
            turn_of(name, self.tree.kinds[at - FIRST] if at else ""): contest
            for name, found in self._divided.items()
            for at, contest in found.contests.items()
        }

    def past_use(self, project: str) -> ResourceVector:
        """What the project used beyond its quota, on average over the past; CPU and memory follow the GPUs."""
        return in_proportion(average_use(self._state, project), self._capacity.total)

    def is_short(self, parent: str) -> bool:
        """Whether some child of the project has a share of fewer GPUs than it asks for, within its limit."""
        for name in self.tree.children[parent]:
            share, limit = self.entitlements[name].share.gpu_milli, self.tree.branches[name].limit.gpu_milli
            asked = self.requests.get(name, ZERO).gpu_milli
            if share < (asked if limit == UNLIMITED else min(asked, limit)):
                return True
        return False

    def quotas_shrink(self, parent: str) -> bool:
        """Whether the children's quotas of GPUs exceed what there is, so that nothing is divided beyond them."""
        found = (self.entitlements[name] for name in self.tree.children[parent])
        return any(each.quota.gpu_milli != each.full.gpu_milli for each in found)

    def of_kinds(self, demand: ResourceVector) -> bool:
        """Whether all GPUs of this demand are of kinds that the policy names."""
        weights = self.smallest.mig_weights
        whole = {at: mig_gpu_milli(profile, weights) for profile, at in self.kinds.profiles.items()}
        return sum(demand[at] * whole.get(at, 1000) for at in range(FIRST, len(demand))) == 1000 * demand.gpu_milli

    def asks_for(self, job: Job, at: int) -> bool:
        """Whether the job accepts the kind of GPU at this place; 0: any."""
        return not at or any(at in self.asking.kinds_for(group) for group in job.demand.tasks)

    @property
    def shrunk_quotas(self) -> dict[str, ResourceVector]:
        """The quotas in force that are not what is stated: they follow the GPUs, or more is asked for than there is."""
        branches = self.tree.branches
        return {name: found.quota for name, found in self.entitlements.items() if name and found.quota != branches[name].quota}

    def entitlements_if(self, requests: Mapping[str, ResourceVector], divided: dict[str, Division] | None = None) -> Entitlements:
        """What each project would be entitled to with these requests.

        Args:
            divided: Cache of `entitlements`.
        """
        counted: tuple[ResourceVector, Amount] = (self._capacity.total, self._capacity.gpus)
        if self._in_full is None or self._in_full[0] != counted:
            self._in_full = counted, without_quota(self._state, self.tree, quotas_in_full(self.tree, *counted))
        owed: dict[str, dict[str, int]] = {}  # by kind
        used: dict[str, int] = {}
        for key, turn in self._state.share_turns.items():
            owed.setdefault(parent_and_kind(key)[1], {}).update(turn.owed)
            used.update(turn.used)
        of_kinds = {at: owed[kind] for at, kind in enumerate(self.tree.kinds, start=FIRST) if kind in owed}
        steps, by_kind = self._steps, self._steps_by_kind
        full = self._in_full[1]
        if self.kinds:
            requests = {name: amounts.minus(self._beyond_limits(name)) for name, amounts in requests.items()}
        return entitlements(self.tree, self.total, full, requests, steps, divided, owed.get("", {}), used, by_kind, of_kinds)

    def _beyond_limits(self, project: str) -> ResourceVector:
        """The GPUs that the project asks for and can never get, as they can only be of a kind of which it has a lower limit."""
        limit, only = self.tree.branches[project].limit, self._of_one_kind.get(project, ZERO)
        places = [at for at in range(FIRST, len(only)) if limit.bound(at) != UNLIMITED]
        beyond = [gpus_of_kind(self.kinds.names[at - FIRST], max(0, only[at] - limit[at])) for at in places]
        return ResourceVector(sum(beyond, start=0))

    def allocated(self, project: str) -> ResourceVector:
        return self._allocated.get(project, ZERO)

    def non_preemptible(self, project: str) -> ResourceVector:
        """Usage of the project's jobs that are not preemptible."""
        return self._non_preemptible.get(project, ZERO)

    def requested(self, project: str) -> ResourceVector:
        """Usage and pending requests of the project, without trials, also what an empty pool could not give."""
        return exact(self.requests.get(project, ZERO).plus(self._unmet.get(project, ZERO)))

    def all_allocated(self) -> dict[str, ResourceVector]:
        """Current `allocated` of all projects that ever had usage."""
        return dict(self._allocated)

    def leaf_of(self, job: Job) -> str:
        """The project at which the job is counted."""
        return self.tree.leaf_of(job.project)

    def allocated_to(self, unit: Unit) -> ResourceVector:
        """Usage of the unit's tasks in their current placement."""
        job = unit.job
        job_usage = self._usage_by_job.get(job.id)
        if job_usage is not None and not job_usage.uncounted and len(unit.indices) == len(job.tasks):
            return job_usage.allocated
        uncounted = job_usage.uncounted if job_usage is not None else ()
        indices = unit.indices if not uncounted else tuple(index for index in unit.indices if index not in uncounted)
        if not self.by_place(job):
            return of_members(job, indices, self.smallest)
        places = (job.task(index) or self._trial_places.get((job.id, index)) for index in indices)
        return of_places(self._state, job, [place for place in places if place is not None], self.smallest)

    def usage_at(self, unit: Unit, place: GangPlacement) -> ResourceVector:
        return of_places(self._state, unit.job, place.tasks, self.smallest)

    def by_place(self, job: Job) -> bool:
        """Whether what the job counts as depends on the devices of its places."""
        return by_bytes(job) or bool(self.kinds and any(map(devices_of, job.demand.tasks)))

    @property
    def position(self) -> int:
        """The current position in the journal, for `changes_since`."""
        return self._discarded + len(self._journal)

    def changes_since(self, position: int) -> list[str] | None:
        """Projects whose `allocated` changed since `position`, with duplicates.

        `None`: the journal no longer reaches back to `position`; any project may have changed.
        """
        start = position - self._discarded
        return self._journal[start:] if start >= 0 else None

    def mark(self) -> int:
        """A savepoint for `rollback`."""
        return len(self._trials)

    def rollback(self, mark: int) -> None:
        """Undo all changes since `mark`, last first."""
        while len(self._trials) > mark:
            leaf, preemptible, amounts = self._trials.pop()
            self._add_usage(leaf, preemptible, ZERO.minus(amounts))

    def evict(self, unit: Unit) -> None:
        """Subtract the unit's usage from its project."""
        self._add_trial(unit.job, ZERO.minus(self.allocated_to(unit)))

    def restore(self, unit: Unit) -> None:
        """Undo `evict` of this unit."""
        self._add_trial(unit.job, self.allocated_to(unit))

    @contextmanager
    def without(self, units: Iterable[Unit]) -> Iterator[None]:
        """Within the context the units' usage is subtracted. `changes_since` does not report it."""
        mark, reported = self.mark(), len(self._journal)
        for unit in units:
            self.evict(unit)
        yield
        self.rollback(mark)
        del self._journal[reported:]

    def reservation_usage(self, job: Job) -> ResourceVector:
        """Usage of the job's reservation, for the whole job or for some of its tasks."""
        return of_places(self._state, job, job.reservation, self.smallest)

    def drop_reservation(self, job: Job) -> None:
        """Subtract the job's reservation."""
        self._add_trial(job, ZERO.minus(self.reservation_usage(job)))

    def restore_reservation(self, job: Job) -> None:
        """Undo `drop_reservation` of this job."""
        self._add_trial(job, self.reservation_usage(job))

    def place(self, unit: Unit, place: GangPlacement) -> None:
        """Add the unit's usage in this placement to its project."""
        if self.by_place(unit.job):
            self._trial_places.update(((unit.job.id, task.index), task) for task in place.tasks)
        self._add_trial(unit.job, self.usage_at(unit, place))

    def _add_trial(self, job: Job, amounts: ResourceVector) -> None:
        change = (self.leaf_of(job), job.preemptible, amounts)
        self._trials.append(change)
        self._add_usage(*change)

    def _add_usage(self, leaf: str, preemptible: bool, change: ResourceVector) -> None:
        path = self.tree.branches[leaf].path
        _add(self._allocated, path, change)
        if not preemptible:
            _add(self._non_preemptible, path, change)
        self._journal.extend(path)

    def _count_all(self, state: PoolState) -> None:
        """Count all jobs under the policy in force."""
        self._discarded += len(self._journal) + 1
        self._journal.clear()
        self._policy: Policy | None = state.policy
        self.tree = ProjectTree(state.policy.projects if state.policy is not None else ())
        self.requests: dict[str, ResourceVector] = {}
        self._holdings = None
        self._entitlements = None
        self._turns = state.share_turns
        self._in_full = None
        self._divided: dict[str, Division] = {}
        self._steps = Steps()
        self._of_one_kind: dict[str, ResourceVector] = {}
        self._unmet: dict[str, ResourceVector] = {}
        self._allocated: dict[str, ResourceVector] = {}
        self._non_preemptible: dict[str, ResourceVector] = {}
        self._usage_by_job: dict[str, _JobUsage] = {}
        self._by_bytes: dict[str, None] = {}
        self._needs: dict[str, Needs] = {}
        self._most_tasks: dict[TaskRequirements, tuple[int, Accepted]] = {}
        self._stuck: dict[str, list[tuple[int, TaskResources]]] = {}
        self.kinds = gpu_kinds_of(state.policy)
        self._steps_by_kind = {at: Steps() for at in range(FIRST, FIRST + len(self.kinds.names))}
        self._capacity = CountedCapacity(self.kinds)
        weights = mig_weights_of(state.policy)
        self.smallest = AcceptedSizes(self._capacity, weights, largest=False)
        self.largest = AcceptedSizes(self._capacity, weights, largest=True)
        self.asking = AcceptedSizes(self._capacity, weights, largest=False, any_kind=True)
        self._note_stuck(state.evicting)
        self._affected(state.nodes)
        by_leaf: dict[str, list[tuple[_JobUsage, int]]] = {}
        for job, names in alike(state.jobs):
            if job.phase in ENDED:
                continue
            job_usage = self._usage_of(job)
            self._usage_by_job.update(dict.fromkeys(names, job_usage))
            if by_bytes(job):
                self._by_bytes.update(dict.fromkeys(names))
            self._claim(job_usage, len(names))
            by_leaf.setdefault(job_usage.leaf, []).append((job_usage, len(names)))
        for leaf, usages in by_leaf.items():
            path = self.tree.branches[leaf].path
            _add(self.requests, path, _sum((job_usage.requested, count) for job_usage, count in usages))
            _add(self._allocated, path, _sum((job_usage.allocated, count) for job_usage, count in usages))
            non_preemptible = [(job_usage.allocated, count) for job_usage, count in usages if not job_usage.preemptible]
            if non_preemptible:
                _add(self._non_preemptible, path, _sum(non_preemptible))

    def _count(self, name: str) -> None:
        job = self._state.jobs.get(name)
        before = self._usage_by_job.pop(name, None)
        now = self._usage_of(job) if job is not None and job.phase not in ENDED else None
        if now is not None:
            self._usage_by_job[name] = now
        if job is not None and now is not None and by_bytes(job):
            self._by_bytes[name] = None
        else:
            self._by_bytes.pop(name, None)
        if before is not None and now is not None and before[:2] + before[5:] == now[:2] + now[5:]:
            self._charge(now, now.allocated.minus(before.allocated), now.requested.minus(before.requested))
            return
        if before is not None:
            self._charge(before, ZERO.minus(before.allocated), ZERO.minus(before.requested))
            self._claim(before, -1)
        if now is not None:
            self._charge(now, now.allocated, now.requested)
            self._claim(now, 1)

    def _charge(self, job_usage: _JobUsage, allocated: ResourceVector, requested: ResourceVector) -> None:
        if allocated != ZERO:
            self._add_usage(job_usage.leaf, job_usage.preemptible, allocated)
        if requested != ZERO:
            _add(self.requests, self.tree.branches[job_usage.leaf].path, requested)

    def _claim(self, job_usage: _JobUsage, jobs: int) -> None:
        self._capacity.claim(job_usage.claims, jobs)
        path = self.tree.branches[job_usage.leaf].path
        self._steps.count(path, job_usage.sizes, jobs)
        if job_usage.of_one_kind != ZERO:
            _add(self._of_one_kind, path, job_usage.of_one_kind.times(jobs))
        for at, size in job_usage.kind_sizes:
            self._steps_by_kind[at].count(path, (size,), jobs)
        if job_usage.unmet != ZERO:
            _add(self._unmet, path, job_usage.unmet.times(jobs))

    def _usage_of(self, job: Job) -> _JobUsage:
        leaf = self.leaf_of(job)
        if job.phase in ("paused", "waiting"):
            return _JobUsage(leaf, job.preemptible, ZERO, ZERO)
        needs = self._needs_of(job)
        placed = dict.fromkeys([task.index for task in (*job.tasks, *job.reservation)])
        charged = [task for task in job.tasks if counts(job, task)]
        allocated = self._allocated_to(job, [*charged, *job.reservation])
        pending = [index for index in range(job.size) if index not in placed] if placed else range(job.size)
        requested = allocated
        if pending and (placed or self._could_start(leaf, job, needs)):
            requested = exact(allocated.plus(self._satisfiable(job, pending, needs)))
        unmet = exact(allocated.plus(of_members(job, pending, self.asking)).minus(requested))
        claims = tuple(needs.all) if requested != ZERO or charged else ()
        sizes = tuple(dict.fromkeys(self._sizes_of(job))) if claims else ()
        charged_indices = dict.fromkeys(task.index for task in charged)
        reserved = dict.fromkeys(task.index for task in job.reservation)
        uncounted = [task.index for task in job.tasks if task.index not in charged_indices and task.index not in reserved]
        return _JobUsage(
            leaf,
            job.preemptible,
            allocated,
            requested,
            frozenset(uncounted) if uncounted else NO_TASKS,  # Python makes each empty one anew, of 216 bytes
            claims,
            sizes,
            unmet,
            tuple(dict.fromkeys(self._kind_sizes(job))) if claims and self.kinds else (),
            allocated.plus(of_members(job, pending, self.smallest)) if claims and self.kinds else ZERO,
        )

    def _sizes_of(self, job: Job) -> Iterable[Amount]:
        """What the job needs of GPUs at once: to divide less than that over time would let it wait for ever. Else of a device."""
        if self._state.past_use is not None and job.demand.min_tasks is None and not job.demand.sub_groups:
            return (of_members(job, range(job.size), self.smallest).gpu_milli,)
        return [size_of(group, self.smallest) for group in job.demand.tasks]

    def _kind_sizes(self, job: Job) -> Iterator[tuple[int, Amount]]:
        for group in job.demand.tasks:
            for at in self.asking.kinds_for(group) if devices_of(group) else ():
                if at:
                    yield at, size_of_kind(group, self.smallest, at)

    def _allocated_to(self, job: Job, places: Sequence[Placed]) -> ResourceVector:
        if len(places) == job.size and len(job.demand.tasks) == 1 and not self.by_place(job):
            return of_members(job, range(job.size), self.smallest)
        return of_places(self._state, job, places, self.smallest) if places else ZERO

    def _needs_of(self, job: Job) -> Needs:
        found = self._needs.get(job.scheduling_class) if job.scheduling_class else None
        if found is None:
            found = Needs.of(job.demand)
            if len(self._needs) >= KEPT_NEEDS:
                self._needs.clear()
            self._needs[job.scheduling_class] = found
        for need, count in found.all.items():
            most, accepted = self._most_tasks.get(need) or (0, self._capacity.accepted(need))
            if count > most:
                self._most_tasks[need] = count, accepted
        return found

    def _could_start(self, leaf: str, job: Job, needs: Needs) -> bool:
        """Whether the job would fit on the empty nodes that count, and within the limits of its projects if they used nothing.

        Each kind of task is tested by itself.
        """
        if any(self._capacity.accepted(need).tasks < count for need, count in needs.core.items()):
            return False
        limits = [self.tree.branches[project].limit for project in self.tree.branches[leaf].path]
        bounded = [limit for limit in limits if limit != NO_BOUNDS]
        if not bounded:
            return True
        unit = next_unit(job)
        core = ZERO if unit is None else of_members(job, unit.indices, self.largest)
        return all(most == UNLIMITED or amount <= most for limit in bounded for amount, most in zip(core, limit, strict=False))

    def _satisfiable(self, job: Job, pending: Sequence[int], needs: Needs) -> ResourceVector:
        """What these tasks ask for, without those for which there would be no place on the empty nodes."""
        if all(self._capacity.accepted(need).tasks >= count for need, count in needs.all.items()):
            return of_members(job, pending, self.asking)
        left = {need: self._capacity.accepted(need).tasks for need in needs.all}
        kept = []
        taken = requirements_of(job.demand)
        for need, indices in taken.items():
            waiting = dict.fromkeys(pending)
            missing = [index for index in indices if index in waiting]
            kept += missing[: max(0, left[need] - (len(indices) - len(missing)))]
        return of_members(job, kept, self.asking)

    def _affected(self, nodes: Iterable[int]) -> Iterable[str]:
        """Take over these nodes; returns the jobs whose usage or requests may have changed thereby."""
        stuck: dict[int, Resources] = {}
        for of_job in self._stuck.values():
            for number, resources in of_job:
                add(stuck.setdefault(number, Resources()), *resources)
        weights = self.smallest.mig_weights
        changed = [self._capacity.set_node(self._state.nodes[number], stuck.get(number), weights) for number in nodes]
        if not any(changed):
            return ()
        by_size: dict[str, None] = {}
        everyone = len(self._most_tasks) > KEPT_NEEDS
        for need, (most, before) in self._most_tasks.items():
            now = self._capacity.accepted(need)
            self._most_tasks[need] = most, now
            everyone = everyone or now.models != before.models
            everyone = everyone or (now.tasks != before.tasks and min(before.tasks, now.tasks) < most)
            if (before.smallest, before.largest) != (now.smallest, now.largest):
                by_size = self._by_bytes
        if not everyone:
            return list(by_size)
        self._most_tasks.clear()
        return list(self._usage_by_job)

    def _note_stuck(self, jobs: Iterable[str]) -> list[int]:
        """Take over what evictions of these jobs that are stuck keep; returns the nodes concerned."""
        nodes: dict[int, None] = {}
        for name in jobs:
            before = self._stuck.pop(name, [])
            job = self._state.jobs.get(name) if name in self._state.evicting else None
            now = [] if job is None else self._stuck_of(job)
            if now:
                self._stuck[name] = now
            if now != before:
                nodes.update((number, None) for number, _ in (*before, *now))
        return list(nodes)

    def _stuck_of(self, job: Job) -> list[tuple[int, TaskResources]]:
        found = []
        groups = job.groups()
        for task in job.tasks:
            stuck = any(eviction is not None and eviction.stuck for eviction in (job.eviction, task.eviction))
            if stuck and task.state != "released" and task.node in self._state.nodes:
                resources = task_resources(self._state.nodes[task.node], groups[task.index], task.devices)
                found.append((task.node, resources))
        return found


def counts(job: Job, task: Task) -> bool:
    """Whether its project is charged for the task: it has a placement and is not being evicted."""
    if task.state in ("released", "exited"):
        return False
    return not any(eviction is not None and eviction.cancel_seq is None for eviction in (job.eviction, task.eviction))


def _sum(amounts: Iterable[tuple[ResourceVector, int]]) -> ResourceVector:
    """The sum of amounts that count as often as said."""
    columns = zip_longest(*[vector if count == 1 else vector.times(count) for vector, count in amounts], fillvalue=0)
    return shortened(map(sum, columns))


def _add(amounts: dict[str, ResourceVector], path: tuple[str, ...], change: ResourceVector) -> None:
    for project in path:
        amounts[project] = exact(amounts.get(project, ZERO).plus(change))
