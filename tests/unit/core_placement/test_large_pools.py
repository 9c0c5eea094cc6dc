"""Searches on large pools: which gangs they are for, what they prove by counting, and the shortlist of nodes."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kits.builders import GIB, MINUTE, Sketch, group, requested_unit
from tests.kits.searches import AT_MOST_ONE_WEB, need, option, policy, problem, victim_names

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Device, Job
from bailiff_core.placement import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, candidates, heterogeneous_gangs, select_victims, shortlist
from bailiff_core.victims.heterogeneous_gangs import HeterogeneousGangSolver, _fits_only_where, _infeasible_in_total
from bailiff_core.victims.price_bounds import Shortlist
from bailiff_core.victims.search import GeneralSolver
from bailiff_core.victims.shortlist import ShortlistSolver, _costs_at_most, search_shortlist

# --- searches on large pools: which gangs they are for, what they prove by counting, and when all jobs are searched instead


H100, A100 = ("h100",), ("a100",)


@pytest.fixture(autouse=True)
def every_pool_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heterogeneous_gangs, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(candidates, "SHORTLIST_COST", 0)  # as among very many jobs, where a shortlist is always cheaper


def two_nodes(**about: Any) -> Sketch:
    """Nodes a and b with two GPUs each, and on each a job that uses them."""
    sketch = Sketch()
    for name, age in (("a", 10 * MINUTE), ("b", 20 * MINUTE)):
        sketch.node(name, gpus=2, **about)
        sketch.running(f"on-{name}", name, range(2), age=age)
    return sketch


# --- which gangs


@pytest.mark.parametrize(
    ("groups", "active", "rules", "solved"),
    [
        ((group(gpus=1), group(gpus=2)), 2, {}, True),
        ((group(gpus=1), group(gpus=2)), 3, {}, False),  # in a smaller pool, all jobs are searched
        ((group(2, gpus=1),), 2, {}, False),  # equal tasks
        ((group(3, gpus=1), group(gpus=2)), 2, {}, True),  # too many, which the solver proves
        ((group(3, gpus=1), group(gpus=2)), 2, {"topology": TopologyRule(topology="dc", required="rack")}, False),
    ],
)
def test_gangs_of_several_kinds_of_tasks_without_topology(
    monkeypatch: pytest.MonkeyPatch, groups: Any, active: int, rules: dict[str, Any], solved: bool
) -> None:
    monkeypatch.setattr(heterogeneous_gangs, "MIN_ACTIVE_JOBS", active)
    sketch = two_nodes()
    sketch.state.policy = policy(topologies=[{"name": "dc", "levels": ["rack"]}])
    preemptor = sketch.job("mixed", *groups, priority=75)
    preemptor.demand = JobDemand(job="mixed", tasks=groups, **rules)
    assert (HeterogeneousGangSolver().solve(problem(sketch, preemptor)) is not None) is solved


@pytest.mark.parametrize(("active", "solved"), [(2, True), (3, False)])
def test_equal_tasks_in_a_pool_that_is_large_enough(monkeypatch: pytest.MonkeyPatch, active: int, solved: bool) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", active)
    sketch = two_nodes()
    found = search_shortlist(problem(sketch, sketch.job("asks", group(gpus=2), priority=75)))
    assert (found is not None) is solved


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("groups", [(group(gpus=2),), (group(gpus=1), group(gpus=2))])
def test_a_rule_that_distinguishes_the_jobs_of_a_class_needs_no_search_over_all_jobs(groups: Any, protected: bool) -> None:
    sketch = two_nodes()
    sketch.state.policy = policy(protections={"min_runtime": {"preempt": "90m"}} if protected else {})
    asked = problem(sketch, sketch.job("asks", *groups, priority=75))
    solver = ShortlistSolver() if len(groups) == 1 else HeterogeneousGangSolver()
    found = solver.solve(asked)
    assert found is not None
    assert (found.victims is None) is protected
    assert not protected or found.proven


# --- gangs of several kinds of tasks


def test_a_kind_of_tasks_that_fits_needs_no_victims() -> None:
    sketch = two_nodes()
    sketch.node("c", gpus=1)
    asked = problem(sketch, sketch.job("mixed", group(gpus=1), group(gpus=2, cpu=1), priority=75))
    assert victim_names(HeterogeneousGangSolver().solve(asked)) == ["on-a"]


def test_one_kind_without_gpus_and_one_with() -> None:
    sketch = two_nodes()
    asked = problem(sketch, sketch.job("mixed", group(cpu=1), group(gpus=2), priority=75))
    assert victim_names(HeterogeneousGangSolver().solve(asked)) == ["on-a"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_pool_is_as_before_after_a_search(tasks: int) -> None:
    sketch = two_nodes()
    asked = problem(sketch, sketch.job("mixed", group(tasks, gpus=1), group(gpus=2), priority=75))
    nodes = asked.trial.cluster.nodes.values()
    before = [(node.unallocated, node.future) for node in nodes]
    assert HeterogeneousGangSolver().solve(asked) is not None
    assert [(node.unallocated, node.future) for node in nodes] == before


def test_evictable_jobs_without_gpus_are_no_candidates_for_gpus() -> None:
    sketch = two_nodes()
    for name, tasks, priority in (("cpus", group(cpu=1), 10), ("leaving", group(cpu=1), 20)):
        sketch.at(sketch.job(name, tasks, priority=priority), ("a", []))
    sketch.state.jobs["leaving"].preemptible = False
    equal = problem(sketch, sketch.job("equal", group(gpus=2), priority=75))
    assert victim_names(ShortlistSolver().solve(equal)) == ["on-a"]
    mixed = problem(sketch, sketch.job("mixed", group(gpus=1), group(gpus=2), priority=75))
    assert victim_names(HeterogeneousGangSolver().solve(mixed)) == ["on-a", "on-b"]


def test_a_gang_is_refused_with_the_reason_of_the_kind_of_tasks_that_fits_nowhere() -> None:
    sketch = two_nodes()
    sketch.node("c", gpus=2, models=A100)
    sketch.running("firm", "c", range(2), preemptible=False)
    preemptor = sketch.job("mixed", group(gpus=1, gpu_models=H100), group(gpus=1, gpu_models=A100), priority=75)
    found = HeterogeneousGangSolver().solve(problem(sketch, preemptor))
    assert found is not None
    assert (found.victims, found.proven) == (None, True)
    assert "it would still need the resources (2 GPUs) of 'firm'" in found.why


@pytest.mark.parametrize("others", [(), (group(cpu=1),)])
@pytest.mark.parametrize(("priority", "too_many"), [(50, False), (75, True)])
def test_slots_of_jobs_that_may_not_be_evicted_do_not_count(priority: int, too_many: bool, others: Any) -> None:
    """One task of one GPU and one of two, where the job on node a may be evicted, or not; beside tasks without GPUs."""
    sketch = two_nodes()
    sketch.state.jobs["on-a"].priority = priority
    found = _infeasible_in_total(problem(sketch, sketch.job("mixed", *others, group(gpus=1), group(gpus=2), priority=75)))
    assert (found is not None) is too_many
    assert found is None or "with all permitted victims evicted at most 2 fit" in found.why


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, True),
        ({"gpu_models": H100}, {}, True),
        ({}, {"gpu_models": H100}, False),
        ({"gpu_models": H100}, {"gpu_models": ("a100", "h100")}, True),
        ({"gpu_models": H100}, {"gpu_models": A100}, False),
        ({"gpu_models": ("a100", "h100")}, {"gpu_models": H100}, False),
        ({"nodes": ("a",)}, {}, True),
        ({}, {"nodes": ("a",)}, False),
        ({"nodes": ("a",)}, {"nodes": ("a", "b")}, True),
        ({"nodes": ("a", "b")}, {"nodes": ("a",)}, False),
        ({"node_labels": {"zone": "x"}}, {}, True),
        ({}, {"node_labels": {"zone": "x"}}, False),
        ({"node_labels": {"zone": "x", "rack": "1"}}, {"node_labels": {"zone": "x"}}, True),
        ({"mig_profile": "1g.10gb"}, {}, False),
        ({"gpu_models": A100, "nodes": ("a",)}, {"gpu_models": H100}, False),
        ({"gpu_models": H100, "nodes": ("a",)}, {"gpu_models": H100, "nodes": ("b",)}, False),
    ],
)
def test_whether_one_kind_of_tasks_fits_only_where_another_does(
    one: dict[str, Any], other: dict[str, Any], expected: bool
) -> None:
    assert _fits_only_where(need(gpus=1, **one), need(gpus=1, **other)) is expected


# --- the shortlist


def full_nodes(*ages: int, gpus: int = 1) -> Sketch:
    """Nodes a, b, … with one job each, which started so many minutes ago."""
    sketch = Sketch()
    for name, age in zip("abcdefgh", ages, strict=False):
        sketch.node(name, gpus=gpus)
        sketch.running(f"on-{name}", name, range(gpus), age=age * MINUTE)
    return sketch


def test_slots_that_are_free_are_not_gained_by_evictions() -> None:
    sketch = full_nodes(9, 8, 7)
    for name in ("x", "y"):
        sketch.node(name, gpus=1)
    found = search_shortlist(problem(sketch, sketch.job("asks", group(3, gpus=1), priority=75)))
    assert (victim_names(found), found is not None and found.proven) == (["on-c"], True)


def test_instead_of_a_set_that_a_disruption_budget_forbids_the_cheapest_that_it_permits() -> None:
    sketch = full_nodes(9, 8, 7)
    sketch.state.policy = policy(protections=AT_MOST_ONE_WEB)
    for name in ("b", "c"):
        job = sketch.state.jobs[f"on-{name}"]
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    assert_few_nodes_are_enough(sketch, sketch.job("asks", group(2, gpus=1), priority=75), "preempt", ["on-a", "on-c"])


def assert_few_nodes_are_enough(sketch: Sketch, preemptor: Job, action: str, victims: list[str]) -> None:
    """These are the victims, with proof, also of the search over all jobs."""
    few = search_shortlist(problem(sketch, preemptor, action))
    every = GeneralSolver().solve(problem(sketch, preemptor, action))
    assert (victim_names(few), few is not None and few.proven) == (victims, True)
    assert (victim_names(every), every is not None and every.proven) == (victims, True)


def of_projects(quotas: dict[str, int], *nodes: tuple[str, tuple[int, ...], int], **rest: Any) -> Sketch:
    """A full node per entry: project, GPUs of its jobs, and minutes since they started. Job `b1` is the second one of node b."""
    sketch = Sketch()
    sketch.state.policy = policy(*({"name": name, "quota": {"gpus": gpus}} for name, gpus in quotas.items()), **rest)
    for name, (project, sizes, minutes) in zip("abcdef", nodes, strict=False):
        sketch.node(name, gpus=sum(sizes))
        for number, gpus in enumerate(sizes):
            first = sum(sizes[:number])
            job = sketch.running(f"{name}{number}", name, range(first, first + gpus), age=minutes * MINUTE, priority=50)
            job.project = project
    return sketch


def owned(sketch: Sketch, project: str, *groups: Any, priority: int = 50) -> Job:
    job = sketch.job("asks", *groups, priority=priority)
    job.project = project
    return job


def test_a_node_whose_project_may_lose_only_one_of_its_jobs_is_left_out_of_a_reclaim() -> None:
    sketch = of_projects({"owner": 2, "near": 1, "far": 0}, ("near", (1, 1), 1), ("far", (1, 1), 2))
    assert_few_nodes_are_enough(sketch, owned(sketch, "owner", group(gpus=2)), "reclaim", ["b0", "b1"])


def test_what_a_project_may_lose_is_taken_on_one_of_several_nodes() -> None:
    """Nodes a to c are the cheapest, and their project may lose one job; so the other task needs node d or e."""
    nodes = [("near", (1,), minutes) for minutes in (1, 2, 3)] + [("far", (1,), minutes) for minutes in (5, 4)]
    sketch = of_projects({"owner": 2, "near": 2, "far": 0}, *nodes)
    assert_few_nodes_are_enough(sketch, owned(sketch, "owner", group(2, gpus=1)), "reclaim", ["a0", "e0"])


@pytest.mark.parametrize(("nodes", "asked"), [((3, 4), group(gpus=2)), ((1, 4, 2), group(2, gpus=1))])
def test_no_victim_is_taken_only_to_balance_what_departments_lose(nodes: tuple[int, ...], asked: Any) -> None:
    """`other` alone would leave department d1 above its share; with `small`, which is not needed, not."""
    sketch = Sketch()
    quotas = {"d1": ("", 6), "owner": ("d1", 2), "sibling": ("d1", 4), "d2": ("", 1)}
    sketch.state.policy = policy(*({"name": n, "parent": p or None, "quota": {"gpus": q}} for n, (p, q) in quotas.items()))
    for name, gpus in zip("abc", nodes, strict=False):
        sketch.node(name, gpus=gpus)
    other, small = (("a", [0, 1]), ("a", [2])) if nodes[0] == 3 else (("c", [0, 1]), ("a", [0]))
    for name, project, (node, devices) in (
        ("other", "d2", other),
        ("small", "sibling", small),
        ("large", "sibling", ("b", [0, 1, 2, 3])),
    ):
        sketch.running(name, node, devices, age=MINUTE, priority=50).project = project
    assert_few_nodes_are_enough(sketch, owned(sketch, "owner", asked), "reclaim", ["large"])


LIMITED = {"preemption": {**DEFAULT_POLICY.model_dump(mode="json")["preemption"], "scope": "pool", "actions": ["preempt"]}}


@pytest.mark.parametrize(
    ("own_jobs", "found_on_few_nodes", "victims"),
    [
        ((2,), True, ["b0"]),  # two more GPUs are dearer than two GPUs of its own project
        ((4,), False, ["a0", "a1", "c0"]),  # it needs one more victim, on a node that it may not use
    ],
)
def test_a_limit_of_the_preemptors_project(own_jobs: tuple[int, ...], found_on_few_nodes: bool, victims: list[str]) -> None:
    sketch = of_projects({"own": -1, "other": 0}, ("other", (1, 1), 1), ("own", own_jobs, 9), ("own", (2,), 5), **LIMITED)
    projects = [
        {"name": "own", "quota": {"gpus": -1}, "limit": {"gpus": sum(own_jobs) + 2}},
        {"name": "other", "quota": {"gpus": 0}},
    ]
    sketch.state.policy = policy(*projects, **LIMITED)
    preemptor = owned(sketch, "own", group(gpus=2, nodes=("a", "b")), priority=75)
    few = search_shortlist(problem(sketch, preemptor))
    every = GeneralSolver().solve(problem(sketch, preemptor))
    assert (few is not None) is found_on_few_nodes
    assert victim_names(every) == victims
    assert few is None or (victim_names(few), few.proven) == (victims, True)


def test_a_next_best_set_that_a_disruption_budget_forbids_is_not_named() -> None:
    sketch = full_nodes(9, 8, 7)
    sketch.state.policy = policy(protections=AT_MOST_ONE_WEB)
    for name in ("a", "c"):
        job = sketch.state.jobs[f"on-{name}"]
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    found = search_shortlist(problem(sketch, sketch.job("asks", group(2, gpus=1), priority=75)))
    assert victim_names(found) == ["on-b", "on-c"]
    assert found is not None
    assert found.runner_up == []


def test_where_gpus_suffice_and_cpus_do_not_no_other_node_can_help() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=4)
    sketch.running("low", "a", range(2))
    sketch.at(sketch.job("firm", group(cpu=3), preemptible=False), ("a", []))
    preemptor = sketch.job("asks", group(gpus=2, cpu=2), priority=75)
    found = search_shortlist(problem(sketch, preemptor))
    assert found is not None
    assert (found.victims, found.proven) == (None, True)
    assert found.why.endswith("still need the resources of 'firm', which is not preemptible")


def test_the_lowest_bound_of_a_node_is_that_of_its_lowest_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node b looks cheaper than the job of high priority on node a, on which there is one of low priority as well."""
    monkeypatch.setattr(shortlist, "INITIAL_SIZE", 0)
    sketch = Sketch(a=2, b=1)
    sketch.running("low", "a", [0], priority=10, age=50 * MINUTE)
    sketch.running("high", "a", [1], priority=30, age=50 * MINUTE)
    sketch.running("young", "b", [0], priority=30, age=MINUTE)
    found = search_shortlist(problem(sketch, sketch.job("asks", group(gpus=1), priority=75)))
    assert (victim_names(found), found is not None and found.proven) == (["low"], True)


class Searches:
    """Searches of the nodes of a shortlist, all with this result."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, certain: bool) -> None:
        self.nodes: list[int] = []

        def cheapest(knapsack: Any, *_: Any) -> tuple[None, bool]:
            self.nodes.append(len(knapsack.eligible_nodes))
            return None, certain

        monkeypatch.setattr(shortlist.Knapsack, "cheapest", cheapest)


@pytest.mark.parametrize(("certain", "nodes"), [(False, [1]), (True, [1, 2, 4])])
def test_a_shortlist_is_extended_up_to_all_nodes_while_its_search_is_certain(
    monkeypatch: pytest.MonkeyPatch, certain: bool, nodes: list[int]
) -> None:
    searches = Searches(monkeypatch, certain=certain)
    monkeypatch.setattr(shortlist, "INITIAL_SIZE", 0)
    sketch = full_nodes(9, 8, 7, 6)
    found = search_shortlist(problem(sketch, sketch.job("asks", group(gpus=1), priority=75)))
    assert (found is not None and found.proven) is certain
    assert searches.nodes == nodes


@pytest.mark.parametrize(("gpus", "most", "searched"), [(0, 16, False), (2, 1, False), (2, 2, True)])
def test_nodes_that_may_gain_too_many_slots_are_not_for_the_shortlist(
    monkeypatch: pytest.MonkeyPatch, gpus: int, most: int, searched: bool
) -> None:
    """gpus: how many the preemptor lacks. With none, a limit of its project is in its way."""
    monkeypatch.setattr(shortlist, "MOST_GAINS", most)
    searches = Searches(monkeypatch, certain=False)
    sketch = full_nodes(9, 8, gpus=2)
    sketch.node("c", gpus=2)
    assert search_shortlist(problem(sketch, sketch.job("asks", group(2 + gpus, gpus=1), priority=75))) is None
    assert bool(searches.nodes) is searched


@pytest.mark.parametrize(("tasks", "completed"), [(1, False), (2, True), (3, True)])
def test_where_more_than_one_slot_is_missing_the_nodes_of_gangs_are_searched_together(
    monkeypatch: pytest.MonkeyPatch, tasks: int, completed: bool
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(shortlist, "_add_connected", lambda *_: calls.append(1))
    sketch = full_nodes(9, 8, 7, 6)
    search_shortlist(problem(sketch, sketch.job("asks", group(tasks, gpus=1), priority=75)))
    assert bool(calls) is completed


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_gang_of_victims_counts_with_all_its_nodes(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    """The gang on a and b is cheaper than the two jobs; the shortlist begins with one node."""
    monkeypatch.setattr(shortlist, "INITIAL_SIZE", 1 - tasks)
    sketch = Sketch(a=1, b=1, c=1, d=1)
    sketch.at(sketch.job("gang", group(2, gpus=1)), ("a", [0]), ("b", [0]), age=5 * MINUTE)
    for name in ("c", "d"):
        sketch.running(f"on-{name}", name, [0], age=7 * MINUTE)
    found = search_shortlist(problem(sketch, sketch.job("asks", group(tasks, gpus=1), priority=75)))
    assert victim_names(found) == (["on-d"] if tasks == 1 else ["gang"])


@pytest.mark.parametrize(
    ("weight", "ages", "expected"),
    [
        (9, (1, 2, 3), True),
        (10, (5,), True),
        (10, (4,), True),
        (10, (6,), False),  # the youngest of the others is younger
        (10, (4, 5), True),
        (10, (3, 4, 5), False),  # more jobs
        (11, (0,), False),
    ],
)
def test_an_option_costs_at_most_a_bound_level_by_level(weight: int, ages: Sequence[int], expected: bool) -> None:
    assert _costs_at_most(option(1, weight, *ages), (10, 2, 5)) is expected


def test_nodes_that_cannot_gain_the_slots_are_not_chosen() -> None:
    sketch = full_nodes(9, 8, 7)
    for name in ("a", "c"):
        sketch.state.jobs[f"on-{name}"].preemptible = False
    sketch.job("asks", group(gpus=1), priority=75)
    snapshot = current_snapshot(sketch.state)
    made = Shortlist(snapshot.allocation_index, snapshot.cluster, need(gpus=1), [50])
    bounds = made.price_bounds(1, sketch.state.now, sketch.state.rules.preemption)
    assert bounds is not None
    for size in (1, 2, 3, 8):
        assert [node.name for node in made.first(size, bounds)] == ["b"]


def test_once_all_jobs_were_scanned_they_are_searched() -> None:
    sketch = full_nodes(9, 8)
    asked = problem(sketch, sketch.job("asks", group(gpus=1), priority=75))
    asked.candidates()
    assert search_shortlist(asked) is None


# --- gangs of several task types on large pools: each type is solved for itself, beside what the others take


def ask(sketch: Sketch, preemptor: Job) -> Proposal:
    sketch.state.indices.snapshot = None
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    return select_victims(batch, requested_unit(preemptor), "preempt", StepBudget(20_000))


def elastic(sketch: Sketch, name: str, *places: tuple[str, range], minimum: int = 1) -> Job:
    """A running job that needs only `minimum` of these tasks of four GPUs."""
    job = sketch.at(sketch.job(name, group(len(places), gpus=4)), *places)
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    return job


def one_of_each_type(sketch: Sketch) -> Job:
    """Two tasks of four GPUs, one of which has a CPU, too."""
    return sketch.job("mixed", group(gpus=4), group(gpus=4, cpu=1), priority=75)


def test_two_types_take_two_surplus_tasks_of_one_job() -> None:
    """For each type alone the last task suffices: for the second of them it is gone."""
    sketch = Sketch(a=4, b=4, c=4)
    elastic(sketch, "wide", ("a", range(4)), ("b", range(4)), ("c", range(4)))
    answer = ask(sketch, one_of_each_type(sketch))
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("wide", "1-2")]
    assert [share.node for share in answer.placement] == [1, 2]


def test_after_the_surplus_of_a_job_the_next_type_takes_another_job() -> None:
    sketch = Sketch(a=4, b=4, c=4)
    elastic(sketch, "wide", ("a", range(4)), ("b", range(4)))
    sketch.running("other", "c", range(4), age=0)
    answer = ask(sketch, one_of_each_type(sketch))
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("wide", "1"), ("other", "")]


def test_surplus_tasks_are_reprieved_in_the_reverse_order_of_their_eviction() -> None:
    """One type needs a node of its own and takes both surplus tasks; the other finds free GPUs."""
    sketch = Sketch(a=4, b=4, c=4)
    elastic(sketch, "wide", ("a", range(4)), ("b", range(4)), ("c", range(4)))
    preemptor = sketch.job("mixed", group(gpus=4, nodes=("b",)), group(gpus=4, cpu=1), priority=75)
    answer = ask(sketch, preemptor)
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("wide", "1-2")]


def test_a_task_that_may_run_elsewhere_does_not_count_where_only_the_other_type_may_run() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1, labels={"zone": "x"})
    sketch.node("b", gpus=1)
    sketch.running("on-a", "a", [0])
    sketch.running("on-b", "b", [0])
    answer = ask(sketch, sketch.job("mixed", group(gpus=1), group(gpus=1, cpu=1, node_labels={"zone": "x"}), priority=75))
    assert sorted(choice.job for choice in answer.victims) == ["on-a", "on-b"]


def test_a_task_on_a_mig_device_does_not_count_among_those_on_whole_gpus() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=2)
    node.devices[1] = Device(1, "m", "h100", 10 * GIB, kind="mig", profile="1g.10gb")
    sketch.running("on-gpu", "a", [0])
    small = group(gpus=1, mig_profile="1g.10gb")
    sketch.at(sketch.job("on-mig", small), ("a", [1]))
    answer = ask(sketch, sketch.job("mixed", group(gpus=1), small, priority=75))
    assert sorted(choice.job for choice in answer.victims) == ["on-gpu", "on-mig"], answer


def test_where_each_type_fits_alone_but_not_both_all_victims_are_searched() -> None:
    """Two tasks of two GPUs fit on the node, as the count of slots says, and one of three; not one of each."""
    sketch = Sketch(a=4)
    for number in range(4):
        sketch.running(f"r{number}", "a", [number])
    answer = ask(sketch, sketch.job("mixed", group(gpus=3), group(gpus=2), priority=75))
    assert (answer.refused, answer.explanation.proven, answer.explanation.candidates) == ("impossible", True, 4)


# --- the nodes that a shortlist begins with, and the problems that it leaves to other searches or decides by counting


@pytest.fixture(autouse=True)
def every_pool_has_a_shortlist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(candidates, "SHORTLIST_COST", 0)


def nodes_in_use(*priorities: int) -> Sketch:
    """Nodes a, b, … of one GPU, with a job each, which are all as old."""
    sketch = Sketch()
    for name, priority in zip("abcd", priorities, strict=False):
        sketch.node(name, gpus=1)
        sketch.running(f"on-{name}", name, [0], age=MINUTE, priority=priority)
    return sketch


@pytest.mark.parametrize(("size", "chosen"), [(1, "d"), (2, "cd"), (3, "bcd"), (4, "abcd"), (5, "abcd")])
def test_of_nodes_with_equal_bounds_those_with_the_youngest_jobs_come_first(size: int, chosen: str) -> None:
    sketch = nodes_in_use(50, 50, 50, 50)
    snapshot = current_snapshot(sketch.state)
    made = Shortlist(snapshot.allocation_index, snapshot.cluster, TaskRequirements.of(group(gpus=1)), [50])
    bounds = made.price_bounds(1, sketch.state.now, sketch.state.rules.preemption) or []
    assert [node.name for node in made.first(size, bounds)] == list(chosen)


@pytest.mark.parametrize(("priorities", "victims"), [((90,), []), ((90, 50), ["on-b"]), ((90, 75), [])])
def test_jobs_of_priorities_that_may_not_be_evicted_free_nothing(priorities: tuple[int, ...], victims: list[str]) -> None:
    sketch = nodes_in_use(*priorities)
    found = search_shortlist(problem(sketch, sketch.job("asks", group(gpus=1), priority=75)))
    assert victim_names(found) == victims
    assert found is not None
    assert found.proven


@pytest.mark.parametrize(
    ("migrations", "lacking"),
    [
        (None, "needs 2 GPUs in total, 0 are free or releasing: relocating jobs does not change that"),
        (0, "nothing may be moved: the policy does not allow migrations (policy field preemption.max_migrations is 0)"),
    ],
)
def test_a_reclaim_that_could_only_move_jobs_is_refused_by_counting(migrations: int | None, lacking: str) -> None:
    """Nobody borrows, so whoever is not moved may not be reclaimed; the search over all jobs agrees."""
    sketch = two_nodes()
    projects = [{"name": "owner", "quota": {"gpus": 2}}, {"name": "other", "quota": {"gpus": -1}}]
    sketch.state.policy = policy(projects=projects, preemption={"max_migrations": migrations})
    for name in ("on-a", "on-b"):
        sketch.state.jobs[name].project = "other"
    preemptor = sketch.job("asks", group(gpus=2), priority=50)
    preemptor.project = "owner"
    few = search_shortlist(problem(sketch, preemptor, "reclaim"))
    every = GeneralSolver().solve(problem(sketch, preemptor, "reclaim"))
    assert few is not None
    assert every is not None
    assert (few.victims, few.proven, few.candidates.count) == (None, True, 2)
    assert (every.victims, every.proven, every.candidates.count) == (None, True, 2)
    assert few.why == f"project other uses no more than its fair share and its quota; {lacking}"
