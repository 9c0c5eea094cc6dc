"""What another policy would cause on a state: who becomes evictable, who would leave now. Pure: nothing is read or sent.

Whether a job is evictable is asked of the core's own rules, with a job that might be submitted in each project as the preemptor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bailiff.client.preview import PREVIEW_REQUEST, Forecast, baseline, forecast
from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.humanize import count_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import Action, Policy, PriorityClass
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import whole_job
from bailiff_core.plan.build import NOTHING, append_facts
from bailiff_core.protections import Shields
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.reclaim import Reclaim
from bailiff_core.records import decisions, facts
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.trial import action_not_permitted

MAX_PROJECTS = 100  # from which a preemptor is tried
MAX_NAMED = 8
ACTIONS: tuple[Action, ...] = ("preempt", "reclaim")
PREEMPTOR = "policy-effects-{}"
RUNNING = ("reserved", "starting", "running")


@dataclass(frozen=True, slots=True)
class Evictable:
    """A running job that another job could evict. projects: of those that could, by action; '' is no project."""

    job: str
    actions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Leaving:
    """A job that would be evicted at once.

    Attributes:
        for_job: The preemptor; empty: none.
    """

    job: str
    for_job: str


@dataclass(frozen=True, slots=True)
class PolicyEffects:
    """What applying a policy would change at once.

    Attributes:
        rejected: Why admission would reject the policy; empty if it would not.
        scope: `preemption.scope` before and after.
        became_evictable: Jobs that could not be evicted before, or not by this action.
        no_longer: Jobs that could be evicted before, and no longer can.
        leaving: Jobs that are evicted at once.
        starting: Nodes of the jobs that start, by job.
        growing: Nodes of the tasks that running jobs get in addition, by job.
        stuck: Jobs that could start before, and no longer can.
    """

    rejected: str
    scope: tuple[str, str]
    became_evictable: tuple[Evictable, ...] = ()
    no_longer: tuple[str, ...] = ()
    leaving: tuple[Leaving, ...] = ()
    starting: Mapping[str, tuple[str, ...]] | None = None
    stuck: tuple[str, ...] = ()
    growing: Mapping[str, tuple[str, ...]] | None = None

    @property
    def harms(self) -> bool:
        """Whether a job becomes evictable or would leave: the person who applies it is asked."""
        return bool(self.became_evictable or self.leaving)

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            **asdict(self),
            "starting": dict(self.starting or {}),
            "growing": dict(self.growing or {}),
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """What would happen, worst first."""
        if self.rejected:
            return [f"It would be rejected: {self.rejected}."]
        found = [f"{each.job} would be evicted now{f', for {each.for_job}' if each.for_job else ''}." for each in self.leaving]
        found += [_evictable_text(each) for each in self.became_evictable]
        if self.scope[0] != self.scope[1]:
            whose = "jobs of their own project only" if self.scope[1] == "project" else "jobs of the whole pool"
            found.append(f"Jobs could preempt {whose} (preemption.scope would be {self.scope[1]}).")
        found += [f"{job} could no longer be evicted." for job in self.no_longer]
        found += [f"{job} could start on {', '.join(nodes[:5])}." for job, nodes in (self.starting or {}).items()]
        found += [f"{job} could get more tasks on {', '.join(nodes[:5])}." for job, nodes in (self.growing or {}).items()]
        found += [f"{job} could no longer start." for job in self.stuck]
        return found or ["No job would become evictable, leave, start or stop at once."]


def policy_effects(state: PoolState, policy: Policy, *, enforce: bool = False) -> PolicyEffects:
    """What would follow if the policy were applied to this state, which is only read and between two cycles."""
    scope = (state.rules.scope, policy.scope)
    applied_policy = admit(Context(state, PERMITTED, PREVIEW_REQUEST), ApplyPolicy(policy=policy, enforce=enforce))
    if isinstance(applied_policy, Rejected):
        return PolicyEffects(applied_policy.text, scope)
    applied, usual = forecast(state, applied_policy), baseline(state)
    before, after = _evictable(state, None), _evictable(state, policy)
    gained = [
        Evictable(job, actions)
        for job, found in after.items()
        if (actions := {action: whose for action, whose in found.items() if action not in before.get(job, {})})
    ]
    placed, placed_before = applied.placed(), usual.placed()
    return PolicyEffects(
        "",
        scope,
        tuple(gained),
        tuple(job for job in before if before[job] and not after.get(job)),
        tuple(_leaving(state, applied, usual)),
        {job: tuple(nodes) for job, nodes in placed.items() if job not in placed_before},
        tuple(job for job in placed_before if job not in placed),
        {job: tuple(nodes) for job, nodes in applied.grown().items() if job not in usual.grown()},
    )


def _leaving(state: PoolState, applied: Forecast, usual: Forecast) -> Iterable[Leaving]:
    """Jobs that run now and whose eviction the policy alone causes."""
    preemptors = {
        victim.job: decision.preemptor.job
        for decision in (*applied.now, *applied.then)
        if isinstance(decision, decisions.PreemptionDecided)
        for victim in decision.victims
    }
    for name in state.active:
        job = state.jobs[name]
        if job.phase in RUNNING and _left(applied.state, job) and not _left(usual.state, job):
            yield Leaving(name, preemptors.get(name, ""))


def _left(after: PoolState, before: Job) -> bool:
    job = after.jobs.get(before.id)
    return job is None or job.phase not in RUNNING or job.attempt != before.attempt or job.eviction is not None


def _evictable(state: PoolState, policy: Policy | None) -> dict[str, dict[str, tuple[str, ...]]]:
    """By running job and action, the projects whose jobs could evict it. policy: applied first; None: the one in force."""
    trial = from_snapshot(to_snapshot(state))
    if policy is not None:
        append_facts(trial, facts.PolicyApplied(policy=policy.complete()))
    highest = _highest_class(trial.rules)
    running = [trial.jobs[name] for name in trial.active if trial.jobs[name].phase in RUNNING]
    if highest is None or not running:
        return {}
    found: dict[str, dict[str, list[str]]] = {job.id: {} for job in running}
    for project in _projects(trial, running):
        preemptor = _submitted(trial, highest, project)
        for action in ACTIONS:
            for job in _victims(trial, action, preemptor, running):
                found[job.id].setdefault(action, []).append(project)
    return {job: {action: tuple(whose) for action, whose in by.items()} for job, by in found.items()}


def _highest_class(policy: Policy) -> PriorityClass | None:
    able = [entry for entry in policy.priority_classes if entry.preemption_policy == "PreemptLowerPriority"]
    return max(able, key=lambda entry: (entry.value, entry.name), default=None)


def _projects(state: PoolState, running: Iterable[Job]) -> list[str]:
    """From which a preemptor is tried: those with running jobs first, as they matter under scope `project`."""
    named = [*(job.project for job in running), *(each.name for each in state.rules.projects)]
    return list(dict.fromkeys(named))[:MAX_PROJECTS] or [""]


def _submitted(trial: PoolState, entry: PriorityClass, project: str) -> Job:
    """A job of one GPU that might be submitted."""
    name = next(name for number in range(len(trial.jobs) + 1) if (name := PREEMPTOR.format(number)) not in trial.jobs)
    group = TaskGroup(gpu_milli=1000, cpu_milli=1000, memory_bytes=1 << 20)
    demand = JobDemand(job=name, tasks=(group,), priority_class=entry.name, project=project or None)
    append_facts(trial, facts.JobSubmitted(request=PREVIEW_REQUEST, demand=demand, spec_digest=NOTHING))
    return trial.jobs[name]


def _victims(trial: PoolState, action: Action, preemptor: Job, running: Iterable[Job]) -> list[Job]:
    snapshot = current_snapshot(trial)
    shares, unit = shares_now(snapshot), whole_job(preemptor)
    if action_not_permitted(snapshot, shares, unit, action) is not None:
        return []
    shields = Shields(trial, action, preemptor)
    reclaim = Reclaim(snapshot, shares, unit) if action == "reclaim" else None
    return [
        job
        for job in running
        if shields.excluded_by(whole_job(job)) is None
        and (reclaim is None or any((amount or 0) > 0 for amount in reclaim.margin(job)))
    ]


def _evictable_text(each: Evictable) -> str:
    parts = [
        f"{'preempted' if action == 'preempt' else 'reclaimed'} by {_whose(whose)}" for action, whose in each.actions.items()
    ]
    return f"{each.job} would become evictable: it could be {' and '.join(parts)}."


def _whose(projects: tuple[str, ...]) -> str:
    if projects == ("",):
        return "a job of a higher class"
    names = [name or "no project" for name in projects[:MAX_NAMED]]
    more = len(projects) - len(names)
    others = f" and {count_text(more, 'other project')}" if more > 0 else ""
    return f"a job of {', '.join(names)}{others}"
