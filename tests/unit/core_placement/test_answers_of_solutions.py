"""What an answer says of a solution: places, victims by job, cost by level, and which action's refusal is the answer."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import Sketch, group, requested_unit
from tests.unit.core_placement.test_revalidate import policy
from tests.unit.core_queue.kit import gpus

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Cost, Excluded, Explanation, Proposal
from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.placement import StepBudget
from bailiff_core.placement.gang import GangPlacement, NoFit, TaskPlacement
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, solve
from bailiff_core.victims.batch import MAX_NEED_LENGTH, _merged
from bailiff_core.victims.candidates import CandidateGroups, Candidates
from bailiff_core.victims.constraints import Constraints
from bailiff_core.victims.objective import MAX_CLASSES
from bailiff_core.victims.solver_interface import Problem, Solution

REQUEST = OpenRequest(7, "asks")


def problem(sketch: Sketch, preemptor: Job, action: Any = "preempt") -> Problem:
    snapshot, unit = current_snapshot(sketch.state), requested_unit(preemptor)
    batch = SelectionBatch.on(snapshot)
    constraints = Constraints(snapshot, batch.shares, unit, action)
    return Problem(snapshot, batch.index, unit, action, constraints, {}, StepBudget(20_000), batch.knapsacks)


def two_nodes() -> Sketch:
    """Nodes a and b with two GPUs each, free; and c with a job on both of its GPUs."""
    sketch = Sketch()
    for name in "abc":
        sketch.node(name, gpus=2)
    sketch.running("low", "c", range(2))
    return sketch


# --- places


@pytest.mark.parametrize(("given", "node"), [(None, 0), (1, 1)])
def test_a_place_that_the_solver_determined_is_that_of_the_answer(given: int | None, node: int) -> None:
    sketch = two_nodes()
    asked = problem(sketch, sketch.job("asks", group(gpus=2), priority=75))
    candidates = asked.candidates()
    place = None if given is None else GangPlacement((TaskPlacement(0, given, 0b11),), future=True)
    found = solve._accepted(Proposal(request=1, job="asks"), asked, Solution(candidates, [], place=place))
    assert [(share.node, share.devices) for share in found.placement] == [(node, "0-1")]
    assert not asked.snapshot.cluster.nodes[node].future.devices, "it is taken"


@pytest.mark.parametrize("given", [True, False])
def test_new_places_that_the_solver_determined_are_those_of_the_answer(given: bool) -> None:
    sketch = two_nodes()
    asked = problem(sketch, sketch.job("asks", group(gpus=2, nodes=("c",)), priority=75))
    candidates = asked.candidates()
    moved = {"low": GangPlacement((TaskPlacement(0, 1, 0b11),), future=True)} if given else {}
    solution = Solution(candidates, candidates.chains["low"], relocations=moved)
    found = solve._accepted(Proposal(request=1, job="asks"), asked, solution)
    assert [share.node for share in found.victims[0].moved_to] == [1 if given else 0]


@pytest.mark.parametrize(
    ("found", "why"), [(NoFit("gave-up", "no place within the steps"), "no place within the steps"), ("over", "over")]
)
def test_a_set_for_which_no_place_is_found_is_no_answer(monkeypatch: pytest.MonkeyPatch, found: Any, why: str) -> None:
    sketch = two_nodes()
    asked = problem(sketch, sketch.job("asks", group(gpus=2), priority=75))
    monkeypatch.setattr(asked.constraints, "place", lambda _: found)
    answer = solve._accepted(Proposal(request=1, job="asks"), asked, Solution(asked.candidates(), []))
    assert (answer.refused, answer.would_need, answer.placement) == ("gave-up", why, ())


def test_a_long_reason_is_cut() -> None:
    answer = solve._refused(Proposal(request=1, job="asks"), "impossible", "x" * 2500, Explanation())
    assert answer.would_need == "x" * 2000


# --- victims


def step(job: Job, at: int, *indices: int, whole: bool = False, **cost: int) -> Any:
    """The step `at` of the job."""
    amounts = {"gpu_milli": 0, "lost_gpu_ms": 0, "jobs": 0, "tasks": 0, "reservations": 0, "cpu_milli": 0, **cost}
    return SimpleNamespace(
        job=job, unit=SimpleNamespace(indices=indices), age_key=(-job.seq, job.id, at), whole=whole,
        cost=SimpleNamespace(**amounts), under_share=0, uses=(),
    )  # fmt: skip


def wide(name: str = "wide", seq: int | None = None) -> Job:
    """Four tasks of 1.5 GPUs."""
    return Sketch().job(name, group(4, gpu_milli=1500), seq=seq)


def test_victims_are_named_by_job_oldest_first_with_the_sum_of_their_steps() -> None:
    young, old, same = wide("young", 9), wide("old", 3), wide("even", 9)
    steps = [
        step(young, 0, 3, tasks=1, lost_gpu_ms=5),
        step(old, 0, 3, lost_gpu_ms=10, cpu_milli=4, tasks=1),
        step(same, 0, 3, tasks=1),
        step(old, 1, 1, 2, lost_gpu_ms=20, cpu_milli=3, tasks=2),
    ]
    found = solve.choices(steps, {})
    assert [choice.job for choice in found] == ["old", "even", "young"]
    assert [choice.lost_gpu_ms for choice in found] == [30, 0, 5]
    assert [choice.cpu_milli for choice in found] == [7, 0, 0]
    assert [choice.gpus for choice in found] == [4, 1, 1], "4.5 and 1.5, as whole GPUs"
    assert [choice.tasks for choice in found] == ["1-3", "3", "3"]


@pytest.mark.parametrize(
    ("started", "reserved"), [((0, 0), True), ((1, 0), False), ((0, 1), False), ((1, 1), False)]
)  # fmt: skip
def test_a_victim_of_which_any_task_has_started_is_not_reserved(started: tuple[int, int], reserved: bool) -> None:
    job = wide()
    (choice,) = solve.choices([step(job, at, at, tasks=count) for at, count in enumerate(started)], {})
    assert choice.reserved is reserved


@pytest.mark.parametrize(
    ("whole", "placed", "tasks", "not_relocated"),
    [
        (False, (), "2-3", ""),
        (False, (3,), "2-3", ""),  # of surplus tasks, those that are not placed are seen from the places
        (True, (), "", ""),
        (True, (2, 3), "", ""),
        (True, (3,), "", "2"),
    ],
)
def test_what_of_a_victim_moves(whole: bool, placed: tuple[int, ...], tasks: str, not_relocated: str) -> None:
    job = wide()
    moved = {job.id: GangPlacement(tuple(TaskPlacement(index, 0, 0b11) for index in placed), future=True)} if placed else {}
    (choice,) = solve.choices([step(job, 0, 3), step(job, 1, 2, whole=whole)], moved)
    assert (choice.tasks, choice.relocated_tasks, choice.not_relocated) == (tasks, list(placed), not_relocated)


# --- cost


def test_the_cost_of_a_set_is_the_sum_of_its_steps_by_level_and_priority() -> None:
    sketch = Sketch()
    low, high, none = (sketch.job(f"p{priority}", priority=priority) for priority in (10, 30, 20))
    steps = [
        step(low, 0, 0, gpu_milli=1000, lost_gpu_ms=1, jobs=1, tasks=2, cpu_milli=5),
        step(high, 0, 0, gpu_milli=500, lost_gpu_ms=2, jobs=1, tasks=3, cpu_milli=6),
        step(high, 1, 1, gpu_milli=700, lost_gpu_ms=4, tasks=4, cpu_milli=7),
        step(none, 0, 0, reservations=1),
    ]
    steps[1].under_share, steps[2].under_share = 500, 700
    fragmentation: Any = SimpleNamespace(count=len)
    cost = solve.cost_of(steps, fragmentation)
    assert [(each.priority, each.gpu_milli) for each in cost.classes] == [(30, 1200), (10, 1000)]
    assert cost.model_copy(update={"classes": ()}) == Cost(
        under_share_gpu_milli=1200, lost_gpu_ms=7, jobs_stopped=2, tasks=9, fragmented_nodes=4, cpu_milli=18
    )


def test_of_very_many_priorities_the_highest_are_listed() -> None:
    sketch = Sketch()
    steps = [step(sketch.job(f"p{priority}", priority=priority), 0, 0, gpu_milli=1) for priority in range(MAX_CLASSES + 2)]
    fragmentation: Any = SimpleNamespace(count=len)
    listed = [each.priority for each in solve.cost_of(steps, fragmentation).classes]
    assert listed == list(range(MAX_CLASSES + 1, 1, -1))


# --- the explanation


def explained(solution: Solution, used: int = 0) -> Explanation:
    index: Any = SimpleNamespace(fragmentation=SimpleNamespace(count=lambda _: 0))
    budget = StepBudget(100)
    budget.charge(used)
    asked: Any = SimpleNamespace(index=index, budget=budget)
    return solve._explanation(asked, solution)


@pytest.mark.parametrize("proven", [True, False])
@pytest.mark.parametrize("found", [True, False])
def test_a_lower_bound_is_stated_where_a_set_is_not_proven(proven: bool, found: bool) -> None:
    job = wide()
    victims: Any = [step(job, 0, 0, tasks=2)] if found else None
    bound: Any = [step(job, 0, 0, tasks=1)]
    why = explained(Solution(Candidates(), victims, proven=proven, bound=bound), used=5)
    assert (why.proven, why.steps) == (proven, 5)
    assert why.cost == (Cost(tasks=2) if found else None)
    assert why.lower_bound == (Cost(tasks=1) if found and not proven else None)


def test_the_next_best_set_is_named_by_job_oldest_first_and_priced() -> None:
    young, old = wide("young", 9), wide("old", 3)
    steps: Any = [step(young, 0, 0, lost_gpu_ms=3, tasks=1), step(old, 0, 0, lost_gpu_ms=4, tasks=1), step(young, 1, 1)]
    why = explained(Solution(Candidates(), runner_up=steps))
    assert (why.runner_up, why.runner_up_lost_gpu_ms) == (("old", "young"), 7)
    assert why.runner_up_cost == Cost(lost_gpu_ms=7, tasks=2)
    assert explained(Solution(Candidates())).runner_up_cost is None


def test_no_more_than_so_many_jobs_of_the_next_best_set_are_named() -> None:
    steps: Any = [step(wide(f"j{number}", number), 0, 0) for number in range(solve.MAX_JOBS_NAMED + 1)]
    why = explained(Solution(Candidates(), runner_up=steps))
    assert why.runner_up == tuple(f"j{number}" for number in range(solve.MAX_JOBS_NAMED))


@pytest.mark.parametrize("counted", [True, False])
def test_where_not_all_jobs_were_looked_at_the_counts_are_those_of_the_pool(counted: bool) -> None:
    sketch = Sketch()
    units: Any = [SimpleNamespace(job=sketch.job(name)) for name in ("one", "two", "one")]
    groups = CandidateGroups(candidates=9, excluded={"scope": 4, "peers": 2}, examples={"scope": [(1, "x")], "peers": [(2, "y")]})
    chains: Any = {"a": [], "b": []}
    candidates = Candidates(chains, {"scope": units, "cooldown": units[:1]}, groups if counted else None)
    why = explained(Solution(candidates))
    assert why.candidates == (9 if counted else 2)
    assert [(each.rule, each.jobs, each.examples) for each in why.excluded] == (
        [("peers", 2, ("y",)), ("scope", 4, ("x",))] if counted else [("cooldown", 1, ("one",)), ("scope", 2, ("one", "two"))]
    )


# --- projects within their share


@pytest.mark.parametrize(
    ("quota", "share", "counts"),
    [(1, 2, True), (1, 3, True), (2, 3, False), (3, 3, False), (1, 1, False), (None, 2, True), (-1, 2, False)],
)
def test_gpus_count_as_taken_from_a_project_over_its_quota_and_within_its_share(
    quota: int | None, share: int, counts: bool
) -> None:
    """The project uses two GPUs. A quota without GPUs is one of none; -1 is without end."""
    sketch = Sketch()
    sketch.state.policy = policy({"name": "p"} if quota is None else {"name": "p", "quota": {"gpus": quota}})
    sketch.node("a", gpus=4)
    sketch.running("low", "a", range(2)).project = "p"
    snapshot = current_snapshot(sketch.state)
    shares = {"p": gpus(share)}
    assert solve._under_share(SelectionBatch.on(snapshot, shares))["p"] is counts


# --- whose refusal is the answer


def refusal(action: Any, *, searched: str = "", refused: Any = "impossible", why: str = "") -> Proposal:
    """searched: `candidates` or `excluded`, of which the search had one."""
    excluded = (Excluded(rule="scope", jobs=1),) if searched == "excluded" else ()
    explanation = Explanation(candidates=int(searched == "candidates"), excluded=excluded)
    return Proposal(request=7, job="asks", action=action, refused=refused, would_need=why, explanation=explanation)


@pytest.mark.parametrize(
    ("searched", "action", "attempted"),
    [
        (("candidates", "", ""), "consolidate", []),
        (("candidates", "excluded", ""), "reclaim", ["consolidate"]),
        (("candidates", "excluded", "candidates"), "preempt", ["consolidate", "reclaim"]),
        (("", "", "excluded"), "preempt", []),
        (("", "", ""), "preempt", []),
    ],
)
def test_the_last_action_that_had_candidates_gives_the_refusal(
    searched: tuple[str, ...], action: str, attempted: list[str]
) -> None:
    tried = [refusal(name, searched=each) for name, each in zip(("consolidate", "reclaim", "preempt"), searched, strict=True)]
    found = _merged(REQUEST, None, tried)
    assert (found.action, found.refused) == (action, "impossible")
    assert [each.action for each in found.explanation.attempted_actions] == attempted


@pytest.mark.parametrize(("searched", "answer"), [("candidates", "gave-up"), ("", "impossible")])
def test_a_search_that_gave_up_makes_the_answer_uncertain(searched: str, answer: str) -> None:
    tried = [refusal("reclaim", searched=searched, refused="gave-up"), refusal("preempt", searched="candidates")]
    found = _merged(REQUEST, None, tried)
    assert (found.action, found.refused) == ("preempt", answer)


def test_an_answer_with_victims_lists_the_actions_that_failed_before_it() -> None:
    why = "x" * (MAX_NEED_LENGTH + 1)
    tried = [refusal("consolidate"), refusal("reclaim", searched="candidates", refused="gave-up", why=why)]
    accepted = Proposal(request=7, job="asks", placement=(NodeShare(node=1, tasks="0", devices=""),))
    found = _merged(REQUEST, accepted, tried)
    assert (found.action, found.refused, found.placement) == ("preempt", None, accepted.placement)
    (attempted,) = found.explanation.attempted_actions
    assert (attempted.action, attempted.refused, attempted.candidates) == ("reclaim", "gave-up", 1)
    assert attempted.would_need == why[:-1]


def test_a_job_that_no_action_was_tried_for_is_not_pending_any_more() -> None:
    found = _merged(REQUEST, None, [])
    assert (found.request, found.job, found.refused) == (7, "asks", "impossible")
    assert found.would_need == "the job is no longer pending"
