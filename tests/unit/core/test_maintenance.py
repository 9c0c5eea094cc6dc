"""Maintenance of nodes: who gets them before, who leaves when, and that they come back by themselves."""

from typing import Any

import pytest
from tests.kits.builders import group
from tests.kits.log_builder import HOUR, MINUTE, NEW_YEAR, SECOND, Story, policy

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.explain.not_placed import what_it_lacks
from bailiff_core.explain.reservations import leaves_for_maintenance
from bailiff_core.records import facts
from bailiff_core.views import maintenance_views

LEAD = 210 * SECOND  # the default grace and margin


def pool(nodes: int = 1, **parts: Any) -> Story:
    story = Story(policy(**parts))
    for number in range(1, nodes + 1):
        story.node(f"n{number}", gpus=8)
    return story


def asked(story: Story, node: str, begin: int) -> Any:
    fields = {"node": node, "begin": story.time + begin, "duration": 4 * HOUR, "reason": "new fans"}
    return admit(Context(story.state, PERMITTED, story.request()), facts.DrainNode.model_validate(fields))


def plan(story: Story, node: str = "n1", begin: int = 10 * HOUR) -> None:
    found = asked(story, node, begin)
    assert not isinstance(found, Rejected), found
    story.cycle(found)


def evicted(story: Story) -> list[tuple[str, int, int]]:
    """Who was evicted for maintenance, when, and with which grace."""
    return [
        (each.data.job, each.time - NEW_YEAR, each.data.grace)
        for each in story.records
        if type(each.data).__name__ == "EvictionDecided" and each.data.cause == "drain"
    ]


def test_the_example_of_the_documentation() -> None:
    story = pool()
    story.time = NEW_YEAR + 22 * HOUR
    story.runs("train", gpus=4)
    plan(story)
    (leaves,) = leaves_for_maintenance(story.state, story.job("train"))
    assert leaves.text == "It leaves at 2026-01-02 07:56 UTC, before the maintenance of n1, 2026-01-02 08:00 to 12:00 UTC."
    story.submit("short", gpus=4, cls="build", run_time_limit=HOUR)
    story.expect("JobPlaced", job="short")
    story.ends("short")
    story.submit("build", gpus=4, cls="build")
    assert story.job("build").phase == "pending"
    assert "it could not be gone before the maintenance of n1" in (what_it_lacks(story.state, story.job("build")) or "")
    story.wait(10 * HOUR - LEAD - SECOND)
    assert story.job("train").phase == "running"
    story.wait(2 * SECOND)
    assert evicted(story) == [("train", 32 * HOUR - LEAD, 150 * SECOND)]
    story.yields("train", after=140 * SECOND)
    assert story.job("train").phase == "pending", "it would have to leave at once"
    story.wait(2 * MINUTE)
    (began,) = story.decisions("MaintenanceBegan")
    assert (began.begin, began.leaving) == (NEW_YEAR + 32 * HOUR, ())
    assert not story.state.nodes[story.state.node_numbers["n1"]].schedulable
    story.wait(4 * HOUR)
    assert [type(each).__name__ for each in story.decisions("MaintenanceEnded")] == ["MaintenanceEnded"]
    assert {story.job("train").phase, story.job("build").phase} == {"starting"}
    assert not story.state.maintenance
    assert not story.state.draining
    story.holds()


def test_a_node_without_maintenance_takes_the_job_instead() -> None:
    story = pool(nodes=2)
    plan(story)
    story.submit("build", gpus=8, cls="build")
    story.expect("JobPlaced", job="build")
    assert {task.node for task in story.job("build").tasks} == {story.state.node_numbers["n2"]}
    story.submit("other", gpus=8, cls="build")
    assert story.job("other").phase == "pending"


def test_what_still_runs_when_it_begins_is_on_record_and_leaves() -> None:
    story = pool()
    story.runs("build", gpus=8, cls="build")
    plan(story, begin=MINUTE)
    assert evicted(story) == [("build", story.time - NEW_YEAR, 30 * SECOND)], "half of the margin is left, and no more"
    story.wait(MINUTE)
    (began,) = story.decisions("MaintenanceBegan")
    assert began.leaving == ("build",)


def where(story: Story, job: str) -> set[str]:
    """The nodes on which the job has tasks, or reserved places."""
    found = story.job(job)
    return {story.state.nodes[task.node].name for task in (*found.tasks, *found.reservation)}


def test_nobody_is_evicted_on_a_node_that_the_preemptor_would_have_to_leave() -> None:
    story = pool(nodes=2)
    for node in ("n1", "n2"):
        story.runs(f"on-{node}", group(gpus=8, nodes=(node,)), after=MINUTE)
    plan(story, "n2", begin=HOUR)
    story.submit("build", gpus=8, cls="build", preemptible=False)
    story.propose()
    decision = story.expect("PreemptionDecided")
    assert [victim.job for victim in decision.victims] == ["on-n1"], "the other has run for less"


def test_no_job_moves_to_a_node_that_it_would_have_to_leave() -> None:
    story = pool(nodes=3)
    story.runs("here", group(gpus=4, nodes=("n1",)))
    story.runs("mover", gpus=2)
    assert where(story, "mover") == {"n1"}
    story.runs("there", group(gpus=4, nodes=("n3",)))
    plan(story, "n3", begin=4 * MINUTE)
    story.migrate("mover")
    assert [share.node for share in story.expect("MigrationDecided").placement] == [story.state.node_numbers["n2"]]


@pytest.mark.parametrize("jointly", [False, True])
def test_no_victim_is_moved_to_a_node_that_it_would_have_to_leave(jointly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if jointly:
        monkeypatch.setattr("bailiff_core.victims.consolidation.relocate", lambda *_: None)
    story = pool(nodes=3, preemption={"actions": ["allocate", "consolidate"], "max_migrations": None})
    story.runs("mover", gpus=2)
    assert where(story, "mover") == {"n1"}
    for node, gpus in (("n2", 6), ("n3", 4)):
        story.runs(f"fills-{node}", group(gpus=gpus, nodes=(node,)))
    plan(story, "n2", begin=4 * MINUTE)
    story.submit("wide", group(gpus=8, nodes=("n1",)))
    story.propose()
    decision = story.expect("PreemptionDecided", action="consolidate")
    ((moved,),) = [[share.node for share in victim.moved_to] for victim in decision.victims]
    assert moved == story.state.node_numbers["n3"]


def test_a_proposal_from_before_the_request_is_stale() -> None:
    story = pool()
    story.runs("train", gpus=8)
    story.submit("build", gpus=8, cls="build", preemptible=False)
    before = story.proposal()
    plan(story, begin=HOUR)
    story.cycle(before)
    assert not list(story.decisions("PreemptionDecided"))
    assert story.job("train").eviction is None


def test_a_place_that_is_reserved_is_dropped_once_maintenance_comes_too_soon() -> None:
    story = pool()
    story.runs("train", gpus=8)
    story.submit("build", gpus=8, cls="build", preemptible=False)
    story.propose()
    assert where(story, "build") == {"n1"}
    plan(story, begin=HOUR)
    story.expect("ReservationDropped", job="build", reason="drain")
    story.propose_all()
    assert where(story, "build") == set()
    story.holds()


def test_of_a_job_on_several_nodes_only_the_surplus_leaves() -> None:
    story = pool(nodes=2)
    story.runs("train", gpus=8, tasks=2, min_tasks=1)
    plan(story, begin=HOUR)
    story.wait(HOUR - LEAD + SECOND)
    (decision,) = story.decisions("EvictionDecided")
    assert decision.tasks in ("0", "1")


@pytest.mark.parametrize("begun", [False, True])
def test_undrain_cancels_it(begun: bool) -> None:
    story = pool()
    plan(story, begin=HOUR)
    story.wait(HOUR + SECOND if begun else MINUTE)
    assert bool(story.state.draining) == begun
    found = admit(Context(story.state, PERMITTED, story.request()), facts.UndrainNode(node="n1"))
    assert not isinstance(found, Rejected)
    story.cycle(found)
    assert not story.state.maintenance
    assert not story.state.draining
    story.submit("build", gpus=8, cls="build")
    story.expect("JobPlaced", job="build")
    story.wait(6 * HOUR)
    assert not list(story.decisions("MaintenanceEnded"))
    assert len(list(story.decisions("MaintenanceBegan"))) == begun


def test_a_cancelled_one_evicts_nobody() -> None:
    story = pool()
    story.runs("train", gpus=8)
    plan(story, begin=HOUR)
    story.undrain("n1")
    story.wait(HOUR)
    assert story.job("train").phase == "running"


def test_an_operators_drain_outlasts_it() -> None:
    story = pool()
    plan(story, begin=HOUR)
    story.drain("n1")
    story.wait(2 * HOUR)
    story.wait(4 * HOUR)
    assert [each.drained for each in story.decisions("MaintenanceEnded")] == ["quick"]
    assert list(story.state.draining) == [story.state.node_numbers["n1"]]


def test_a_pool_that_stood_still_records_both_edges() -> None:
    story = pool()
    plan(story, begin=HOUR)
    story.wait(9 * HOUR)
    story.wait(SECOND)
    assert len(list(story.decisions("MaintenanceBegan"))) == len(list(story.decisions("MaintenanceEnded"))) == 1
    assert not story.state.draining


def test_the_view() -> None:
    story = pool(nodes=2)
    plan(story, "n2", begin=2 * HOUR)
    plan(story, "n1", begin=3 * HOUR)
    rows = maintenance_views(story.state)
    assert [(row["node"], row["duration_s"], row["now"], row["reason"]) for row in rows] == [
        ("n2", 4 * 3600, False, "new fans"),
        ("n1", 4 * 3600, False, "new fans"),
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"duration": None},
        {"begin": None},
        {"mode": "fast"},
        {"deadline": HOUR},
        {"begin": 1 << 52},
        {"duration": 31 * 24 * HOUR},
        {"begin": NEW_YEAR - 10 * HOUR},
    ],
)
def test_malformed(more: dict[str, Any]) -> None:
    story = pool()
    body = facts.DrainNode.model_validate({"node": "n1", "begin": story.time + HOUR, "duration": HOUR, **more})
    found = admit(Context(story.state, PERMITTED, story.request()), body)
    assert isinstance(found, Rejected)
    assert found.code == "malformed"
