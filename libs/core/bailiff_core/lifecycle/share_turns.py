"""What rounding leaves over of GPUs goes in turn (docs/concepts/semantics/quotas.md, "Turns")."""

from collections.abc import Iterator, Sequence

from bailiff_core.fold.past_use import average_use, use_now
from bailiff_core.model.project_tree import DIRECT, ROOT
from bailiff_core.model.share_turn import parent_and_kind
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import whole_job
from bailiff_core.queue import share_turn as rule
from bailiff_core.quota.fair_share import WHOLE_GPU, Contest
from bailiff_core.quota.usage import Usage
from bailiff_core.records.decisions import ProjectGpus, ShareTurnBegan
from bailiff_core.scheduling_snapshot import current_usage

from .timers import timers_of


def share_turns(state: PoolState) -> Iterator[ShareTurnBegan]:
    """Begins the turns that are due."""
    if state.past_use is not None:
        yield from _turns_by_use(state, state.past_use.began)
    yield from (turn for due, turn in _next_turns(state) if due <= state.now)


def next_share_turn(state: PoolState) -> int | None:
    """When the next turn is due, µs; `None` while no job has waited for long enough: its timer is due before.

    With a half-life: when one may be.
    """
    found = [due for due, _ in _next_turns(state)]
    if state.past_use is not None and state.queue:
        moments = (state.past_use.began, *(turn.began for turn in state.share_turns.values()))
        found += [began + rule.length(state) for began in moments]
    return min((due for due in found if due > state.now), default=None)


def _next_turns(state: PoolState) -> Iterator[tuple[int, ShareTurnBegan]]:
    timers = timers_of(state)
    # In most pools nobody is without a step: who has been pending for so long, perhaps thousands of jobs, is not looked at.
    is_due = timers.any_due(state, rule.NAME) and current_usage(state).contests
    return turns_for(state, timers.due(state, rule.NAME)) if is_due else iter(())


def _turns_by_use(state: PoolState, counted_since: int) -> Iterator[ShareTurnBegan]:
    """The turns by which past use begins to count as it is now, where projects ask for more GPUs than there are."""
    usage = current_usage(state)
    for parent, children in usage.tree.children.items():
        last = state.share_turns.get(parent)
        due = (counted_since if last is None else last.began) + rule.length(state)
        if due > state.now or not usage.is_short(parent) or usage.quotas_shrink(parent):
            continue
        if any(use_now(state, name).used for name in children):
            found = [ProjectGpus(project=_named(name), gpu_milli=average_use(state, name)) for name in children]
            owed = tuple(_keeps(usage, parent))
            yield ShareTurnBegan(parent=_named(parent), owed=owed, used=tuple(each for each in found if each.gpu_milli))


def _keeps(usage: Usage, parent: str) -> Iterator[ProjectGpus]:
    """What counts in favour of whoever has several GPUs that were left over for one job: else it might lose them at each turn."""
    contest = usage.contests.get(parent)
    for name, floor in contest.floors.items() if contest is not None else ():
        given = int(usage.entitlements[name].share.gpu_milli - floor)
        if given > WHOLE_GPU:
            yield ProjectGpus(project=_named(name), gpu_milli=rule.KEPT * given)


def turns_for(state: PoolState, jobs: Sequence[Job]) -> Iterator[tuple[int, ShareTurnBegan]]:
    """The next turns for these pending jobs, where they are of projects without a GPU: when each is due, µs, and what it says.

    With a half-life, where quotas shrink, as nothing is used beyond them, and of kinds of GPU, for which past use does not count.
    """
    usage = current_usage(state)
    for key, contest in usage.contests.items():
        parent, model = parent_and_kind(key)
        at = usage.tree.place_of(model)
        if state.past_use is not None and not model and not usage.quotas_shrink(parent):
            continue
        waiting = [job for job in jobs if any(name in contest.without for name in usage.tree.branches[usage.leaf_of(job)].path)]
        waiting = [job for job in waiting if usage.asks_for(job, at)]
        waited = min((due for job in waiting if (due := rule.due(state, job)) is not None), default=None)
        if waited is not None:
            last = state.share_turns.get(key)
            over = 0 if last is None else last.began + rule.TURN
            owed = tuple(ProjectGpus(project=_named(name), gpu_milli=amount) for name, amount in contest.owed.items())
            kept = over if over > state.now else max(over, _kept_until(state, usage, contest, at))
            yield max(waited, kept), ShareTurnBegan(parent=_named(parent), owed=owed, model=model)


def _kept_until(state: PoolState, usage: Usage, contest: Contest, at: int) -> int:
    """Until when whoever has a step that was left over has used it for the time of a turn, µs; at once if it does not use it.

    at: the place of what is divided, in a `ResourceVector`.
    """
    found = []
    for name, floor in contest.floors.items():
        used, until = usage.allocated(name).amount(at), 0
        active = [
            job for job in map(state.jobs.__getitem__, state.active) if name in usage.tree.branches[usage.leaf_of(job)].path
        ]
        for since, job in sorted([(_used_since(state, job), job) for job in active], key=lambda each: (-each[0], each[1].id)):
            if used <= floor:
                break
            until = since + rule.TURN
            used -= usage.allocated_to(whole_job(job)).amount(at)
        found.append(until)
    return min(found)


def _used_since(state: PoolState, job: Job) -> int:
    """One that does not start has its GPUs, too; one that waits for its victims does not have them yet."""
    return job.last_start or job.assigned_at or state.now


def _named(project: str) -> str | None:
    return None if project == ROOT or project.endswith(DIRECT) else project
