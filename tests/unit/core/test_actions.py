"""Stories of the three actions that free resources: which jobs are evicted, shrunk or relocated, and the reasons."""

from collections.abc import Mapping

import pytest
from tests.kits.builders import HOUR, MINUTE, Sketch, group, requested_unit
from tests.kits.searches import verdict

from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Action, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, Stale, select_batch, select_victims


def policy(*projects: Mapping[str, object], classes: tuple = (), **rest: object) -> Policy:
    document = {**dict(DEFAULT_POLICY), "projects": tuple(projects), **rest}
    return Policy.model_validate({**document, "priority_classes": (*DEFAULT_POLICY.priority_classes, *classes)})


def quota(name: str, gpus: int, **rest: object) -> dict[str, object]:
    return {"name": name, "quota": {"gpus": gpus}, **rest}


def elastic(job: Job, minimum: int) -> Job:
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    return job


def of(project: str, job: Job) -> Job:
    job.project = project
    return job


def ask(sketch: Sketch, preemptor: Job, action: Action, steps: int = 20_000) -> Proposal:
    sketch.state.indices.snapshot = None
    return select_victims(SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), action, StepBudget(steps))


def victims(answer: Proposal) -> dict[str, str]:
    assert answer.refused is None, answer.would_need
    return {victim.job: victim.tasks for victim in answer.victims}


@pytest.fixture
def shared() -> Sketch:
    """One node of eight GPUs that two projects share, four each; the first one's training has all eight."""
    sketch = Sketch()
    sketch.state.policy = policy(quota("a", 4), quota("b", 4))
    sketch.node("n")
    return sketch


def training(sketch: Sketch) -> Job:
    job = sketch.job("training", group(8, gpus=1))
    return of("a", sketch.at(job, *[("n", [device]) for device in range(8)]))


def test_reclaim_evicts_a_rigid_gang_whole_even_below_its_share(shared: Sketch) -> None:
    training(shared)
    answer = ask(shared, of("b", shared.job("notebook", group(gpus=4))), "reclaim")
    assert victims(answer) == {"training": ""}
    assert answer.explanation.proven
    assert answer.action == "reclaim"


def test_reclaim_evicts_only_the_surplus_of_an_elastic_gang(shared: Sketch) -> None:
    elastic(training(shared), 4)
    answer = ask(shared, of("b", shared.job("notebook", group(gpus=4))), "reclaim")
    assert victims(answer) == {"training": "4-7"}
    cost = answer.explanation.cost
    assert cost is not None
    assert (cost.jobs_stopped, cost.tasks, cost.classes[0].gpu_milli) == (0, 4, 4000)
    assert answer.victims[0].lost_gpu_ms == 4 * 3660 * 1000


def test_reclaim_ignores_priority_except_that_the_lower_class_is_evicted_first(shared: Sketch) -> None:
    of("a", shared.running("high", "n", range(4), priority=75))
    of("a", shared.running("low", "n", range(4, 8), priority=25))
    answer = ask(shared, of("b", shared.job("preemptor", group(gpus=4), priority=10)), "reclaim")
    assert victims(answer) == {"low": ""}
    assert answer.explanation.runner_up == ("high",)
    assert answer.explanation.runner_up_cost is not None


def test_preempt_stays_within_the_project_unless_the_policy_says_pool(shared: Sketch) -> None:
    of("a", shared.running("theirs", "n", range(4), priority=25))
    of("b", shared.running("ours", "n", range(4, 8), priority=50))
    preemptor = of("b", shared.job("preemptor", group(gpus=4), priority=75))
    assert victims(ask(shared, preemptor, "preempt")) == {"ours": ""}
    freely = {"scope": "pool", "cap_at_fair_share": False}
    shared.state.policy = policy(quota("a", 2), quota("b", 4), preemption=freely)
    assert victims(ask(shared, preemptor, "preempt")) == {"theirs": ""}
    shared.state.policy = policy(quota("a", 2), quota("b", 4), preemption={"scope": "pool"})
    assert victims(ask(shared, preemptor, "preempt")) == {"ours": ""}, (
        "with the room of both, b would be above its fair share of 5"
    )
    shared.state.policy = policy(quota("a", 4), quota("b", 4), preemption={"scope": "pool"})
    answer = ask(shared, preemptor, "preempt")
    assert victims(answer) == {"ours": ""}
    assert [(entry.rule, entry.examples) for entry in answer.explanation.excluded] == [("quota-shields", ("theirs",))]


def test_limits_are_checked_without_the_victims(shared: Sketch) -> None:
    shared.state.policy = policy(quota("a", 4, limit={"gpus": 4}))
    of("a", shared.running("low", "n", range(3), priority=25))
    of("a", shared.running("other", "n", [3], priority=50))
    preemptor = of("a", shared.job("preemptor", group(gpus=3), priority=75))
    answer = ask(shared, preemptor, "preempt")
    assert victims(answer) == {"low": ""}, "it fits beside them, but for the limit"
    assert isinstance(verdict(shared, preemptor, answer), Accepted)


def test_the_core_of_an_elastic_job_stays_as_long_as_it_has_surplus() -> None:
    sketch = Sketch(n=4)
    job = elastic(sketch.job("job", group(4, gpus=1)), 2)
    sketch.at(job, *[("n", [device]) for device in range(4)])
    assert victims(ask(sketch, sketch.job("one", group(gpus=1), priority=75), "preempt")) == {"job": "3"}
    assert victims(ask(sketch, sketch.job("two", group(gpus=2), priority=75), "preempt")) == {"job": "2-3"}
    assert victims(ask(sketch, sketch.job("three", group(gpus=3), priority=75), "preempt")) == {"job": ""}


def test_surplus_is_evicted_for_several_preemptors_of_one_batch_before_any_whole_job() -> None:
    sketch = Sketch(n=4)
    job = elastic(sketch.job("job", group(4, gpus=1)), 2)
    sketch.at(job, *[("n", [device]) for device in range(4)])
    for name in ("first", "second", "third"):
        sketch.job(name, group(gpus=1), priority=75)
    proposals = select_batch(sketch.state, [OpenRequest(n, name) for n, name in enumerate(("first", "second", "third"))], 20_000)
    assert [victims(answer) for answer in proposals] == [{"job": "3"}, {"job": "2"}, {"job": ""}]
    assert [place.devices for answer in proposals for place in answer.placement] == ["3", "2", "0"]


@pytest.fixture
def fragmented() -> Sketch:
    """Two nodes of four GPUs, each half taken."""
    sketch = Sketch(a=4, b=4)
    sketch.running("left", "a", [0, 1], age=HOUR)
    sketch.running("right", "b", [0, 1], age=MINUTE)
    sketch.state.policy = policy(preemption={"max_migrations": 1})
    return sketch


def test_consolidate_moves_the_one_that_loses_least(fragmented: Sketch) -> None:
    preemptor = fragmented.job("preemptor", group(gpus=4))
    answer = ask(fragmented, preemptor, "consolidate")
    assert victims(answer) == {"right": ""}
    assert [(place.node, place.devices) for place in answer.victims[0].moved_to] == [(0, "2-3")]
    assert [place.node for place in answer.placement] == [1]
    assert answer.explanation.proven
    assert isinstance(verdict(fragmented, preemptor, answer), Accepted)
    fragmented.running("late", "a", [2], age=0)
    stale = verdict(fragmented, preemptor, answer)
    assert isinstance(stale, Stale)
    assert stale.reason == "there is no new place for 'right': task 0 does not fit on a"


def test_consolidate_cannot_make_more_than_there_is(fragmented: Sketch) -> None:
    answer = ask(fragmented, fragmented.job("preemptor", group(gpus=4), group(gpus=1)), "consolidate")
    assert answer.refused == "impossible"
    assert answer.would_need == "needs 5 GPUs in total, 4 are free or releasing: relocating jobs does not change that"


def test_consolidate_is_tried_for_all_preemptors_before_any_job_is_evicted(fragmented: Sketch) -> None:
    fragmented.node("c", gpus=4)
    fragmented.running("whole", "c", range(4))
    fragmented.job("urgent", group(gpus=4), priority=100)
    fragmented.job("calm", group(gpus=4), priority=75)
    proposals = select_batch(fragmented.state, [OpenRequest(1, "urgent"), OpenRequest(2, "calm")], 20_000)
    assert [answer.action for answer in proposals] == ["consolidate", "preempt"]
    assert victims(proposals[0]) == {"right": ""}
    assert victims(proposals[1]) == {"whole": ""}, "the one that moved is left alone"


def test_a_gang_bound_to_one_rack_takes_the_cheaper_one() -> None:
    sketch = Sketch()
    sketch.state.policy = policy(topologies=({"name": "racks", "levels": ("rack",)},))
    for rack in "xy":
        for number in range(2):
            sketch.node(f"{rack}{number}", gpus=4, labels={"rack": rack})
    ages = {"x0": HOUR, "x1": MINUTE, "y0": 20 * MINUTE, "y1": 20 * MINUTE}
    for name, age in ages.items():
        sketch.running(f"on-{name}", name, range(4), age=age)
    preemptor = sketch.job("gang", group(2, gpus=4), priority=75)
    assert victims(ask(sketch, preemptor, "preempt")) == {"on-x1": "", "on-y1": ""}
    preemptor.demand = preemptor.demand.model_copy(update={"topology": TopologyRule(topology="racks", required="rack")})
    answer = ask(sketch, preemptor, "preempt")
    assert victims(answer) == {"on-y0": "", "on-y1": ""}
    assert answer.explanation.proven
    sketch.state.nodes[3].labels = {"rack": "z"}
    stale = verdict(sketch, preemptor, answer)
    assert stale == Stale("the tasks are no longer in one domain at level 'rack'")


def test_a_disruption_budget_leads_to_the_next_best_victims() -> None:
    sketch = Sketch()
    budgets = ({"name": "one-at-a-time", "labels": {"team": "x"}, "max_disruptions": 1},)
    sketch.state.policy = policy(protections={"budgets": budgets})
    sketch.node("n")
    for device in range(4):
        job = sketch.running(f"x-{device}", "n", [device], age=0)
        job.demand = job.demand.model_copy(update={"labels": {"team": "x"}})
    sketch.running("dear", "n", range(4, 8), age=HOUR)
    answer = ask(sketch, sketch.job("preemptor", group(gpus=2), priority=75), "preempt")
    assert victims(answer) == {"dear": ""}
    assert answer.explanation.proven


def test_tasks_on_a_shared_device_are_evicted_for_another_share() -> None:
    sketch = Sketch(n=1)
    for name, milli in (("half", 500), ("quarter", 250), ("last", 250)):
        sketch.at(sketch.job(name, group(gpu_share_milli=milli)), ("n", [0]), age=HOUR)
    answer = ask(sketch, sketch.job("preemptor", group(gpu_share_milli=500), priority=75), "preempt")
    assert victims(answer) == {"half": ""}, "as many GPUs as the two others, and one job fewer"
    cost = answer.explanation.cost
    assert cost is not None
    assert cost.classes[0].gpu_milli == 500


def test_an_unproven_result_states_its_bound() -> None:
    sketch = Sketch()
    for node in range(6):
        sketch.node(f"n{node}", gpus=8, cpu=16)
    for number in range(24):
        node, devices = number // 4, range(number % 4 * 2, number % 4 * 2 + 2)
        job = sketch.job(f"j{number}", group(gpus=2, cpu=1 + number % 3), priority=25 + number % 2)
        sketch.at(job, (f"n{node}", devices), age=number * MINUTE)
    preemptor = sketch.job("preemptor", group(3, gpus=4, cpu=5), group(2, gpus=2, cpu=7), priority=75)
    exact = ask(sketch, preemptor, "preempt", steps=200_000)
    hasty = ask(sketch, preemptor, "preempt", steps=2)
    assert hasty.refused is None
    assert not hasty.explanation.proven
    assert hasty.explanation.lower_bound is not None
    assert exact.explanation.cost is not None
    least = hasty.explanation.lower_bound.classes
    assert not least or least[0].gpu_milli <= exact.explanation.cost.classes[0].gpu_milli


def test_an_explanation_stays_small_whatever_the_number_of_victims() -> None:
    sketch = Sketch()
    for node in range(60):
        sketch.node(f"n{node}")
        for device in range(8):
            sketch.running(f"job-with-quite-a-long-name-{node}-{device}", f"n{node}", [device], age=device * MINUTE)
            sketch.state.jobs[f"job-with-quite-a-long-name-{node}-{device}"].preemptible = node < 50
    answer = ask(sketch, sketch.job("preemptor", group(40, gpus=8), priority=75), "preempt")
    assert len(answer.victims) == 320
    assert len(answer.explanation.model_dump_json()) < 8_000
    assert answer.explanation.candidates == 400
    assert [(entry.rule, entry.jobs, len(entry.examples)) for entry in answer.explanation.excluded] == [
        ("not-preemptible", 80, 5)
    ]
