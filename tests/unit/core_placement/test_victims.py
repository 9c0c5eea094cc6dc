"""Stories of victim selection: who goes, who is spared, what is said."""

import pytest
from tests.builders import HOUR, MINUTE, Sketch, asking, group

from bailiff_core.model.answer import Answer
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, OpenRequest, Plan
from bailiff_core.model.units import whole
from bailiff_core.placement import Budget, Rooms, from_shares
from bailiff_core.placement.gang import GangPlace
from bailiff_core.protections import excluded_by
from bailiff_core.queue.order import shares_now
from bailiff_core.scene import scene_of
from bailiff_core.victims import Accepted, Batch, Stale, check_answer, select, select_batch, spared_by


def ask(sketch: Sketch, asker: Job, steps: int = 20_000, verb: Verb = "preempt") -> Answer:
    sketch.pool.scene = None
    scene = scene_of(sketch.pool)
    before = [(node.unheld, node.later) for node in scene.rooms.nodes.values()]
    answer = select(Batch.on(scene), asking(asker), verb, Budget(steps), request=7)
    assert [(node.unheld, node.later) for node in scene.rooms.nodes.values()] == before
    assert (answer.request, answer.job) == (7, asker.id)
    return answer


def names(answer: Answer) -> list[str]:
    return [choice.job for choice in answer.victims]


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a")
    made.node("b")
    return made


def test_the_lower_class_goes_before_the_one_that_loses_less(sketch: Sketch) -> None:
    sketch.running("low", "a", range(8), priority=25, age=HOUR)
    sketch.running("high", "b", range(8), priority=50, age=0)
    answer = ask(sketch, sketch.job("asker", group(gpus=8), priority=75))
    assert names(answer) == ["low"]
    assert answer.victims[0].lost_gpu_ms == 8 * 3660 * 1000
    assert answer.explanation.proven
    assert answer.explanation.runner_up == ("high",)
    assert answer.explanation.runner_up_lost_gpu_ms == 8 * 60 * 1000


def test_least_work_lost_and_never_checkpointing_buys_no_immunity(sketch: Sketch) -> None:
    sketch.running("hour", "a", range(8), age=HOUR)
    sketch.running("week", "b", range(8), age=168 * HOUR)
    assert names(ask(sketch, sketch.job("asker", group(gpus=8), priority=75))) == ["week"], "equal; week is younger"
    sketch.pool.jobs["hour"].last_start += MINUTE
    assert names(ask(sketch, sketch.pool.jobs["asker"])) == ["hour"]


def test_fewest_jobs_then_fewest_tasks_then_whole_nodes_then_the_youngest(sketch: Sketch) -> None:
    for device in range(4):
        sketch.running(f"small-{device}", "a", [device])
    sketch.running("big", "b", range(4))
    sketch.at(sketch.job("pair", group(2, gpus=2)), ("b", [4, 5]), ("b", [6, 7]))
    sketch.running("young", "a", range(4, 8))
    assert names(ask(sketch, sketch.job("asker", group(gpus=4), priority=75))) == ["young"]


def test_a_victim_that_leaves_a_whole_node_is_preferred() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=8)
    sketch.running("whole", "a", range(4))
    sketch.running("other", "b", range(4), preemptible=False)
    sketch.running("part", "b", range(4, 8))
    assert names(ask(sketch, sketch.job("asker", group(gpus=2), priority=75))) == ["whole"]


def test_a_gang_of_victims_goes_whole_and_none_goes_in_vain(sketch: Sketch) -> None:
    sketch.at(sketch.job("pair", group(2, gpus=4)), ("a", range(4)), ("b", range(4)))
    sketch.running("left", "a", range(4, 8))
    sketch.running("right", "b", range(4, 8))
    answer = ask(sketch, sketch.job("asker", group(2, gpus=4), priority=75))
    assert names(answer) == ["pair"]
    assert answer.victims[0].gpus == 8
    assert len(answer.explanation.runner_up) == 2


def test_a_gang_that_has_not_started_costs_nothing_and_is_taken_first(sketch: Sketch) -> None:
    sketch.running("promised", "a", range(8), priority=74, phase="reserved")
    sketch.running("runs", "b", range(8), priority=1, age=0)
    answer = ask(sketch, sketch.job("asker", group(gpus=8), priority=75))
    assert names(answer) == ["promised"]
    assert answer.victims[0].reserved
    assert answer.victims[0].lost_gpu_ms == 0


def test_room_on_its_way_out_is_used_and_its_owner_not_evicted_again(sketch: Sketch) -> None:
    sketch.running("leaving", "a", range(8), phase="evicting")
    sketch.running("runs", "b", range(8))
    asker = sketch.job("asker", group(2, gpus=8), priority=75)
    answer = ask(sketch, asker)
    assert names(answer) == ["runs"]
    assert [(entry.rule, entry.jobs, entry.examples) for entry in answer.explanation.excluded] == [
        ("already-leaving", 1, ("leaving",))
    ]


def test_no_victims_where_the_gang_fits_as_it_is(sketch: Sketch) -> None:
    sketch.running("runs", "b", range(8))
    answer = ask(sketch, sketch.job("asker", group(gpus=8), priority=75))
    assert not answer.victims
    assert answer.refused is None
    assert answer.placement[0].node == 0


def test_a_refusal_names_the_nearest_thing_that_would_have_worked(sketch: Sketch) -> None:
    sketch.running("serve-1", "a", range(8), priority=125, preemptible=False)
    sketch.running("peer", "b", range(8), priority=75)
    answer = ask(sketch, sketch.job("asker", group(gpus=8), priority=75))
    assert answer.refused == "impossible"
    assert answer.would_need == (
        "needs a node with 8 free GPUs, none has them; with all permitted victims gone it would still need "
        "the room (with 8 GPUs) of 'peer', which does not have lower priority"
    )
    assert {entry.rule: entry.examples for entry in answer.explanation.excluded} == {
        "lower-priority-only": ("peer",),
        "not-preemptible": ("serve-1",),
    }
    answer = ask(sketch, sketch.job("huge", group(3, gpus=8), priority=200))
    assert answer.would_need == "even if every job left: needs 3 nodes with 8 free GPUs each, 2 have them"


def test_a_refusal_after_others_had_their_answer_says_so(sketch: Sketch) -> None:
    """Together they would need three nodes: the second is told what is true of it, after the first."""
    sketch.running("low", "a", range(8))
    sketch.running("lower", "b", range(8), priority=25)
    sketch.job("first", group(gpus=8), priority=75)
    sketch.job("second", group(2, gpus=8), priority=75)
    first, second = select_batch(sketch.pool, [OpenRequest(1, "first"), OpenRequest(2, "second")], 20_000)
    assert [victim.job for victim in first.victims] == ["lower"]
    assert second.refused == "impossible"
    assert second.would_need == (
        "after what was just decided for others, even if every job that stays left: "
        "needs 2 nodes with 8 free GPUs each, 1 has them"
    )


def test_a_class_that_may_not_preempt_displaces_nobody(sketch: Sketch) -> None:
    sketch.running("x", "a", range(8))
    asker = sketch.job("asker", group(2, gpus=8), priority=75)
    asker.may_preempt = False
    assert ask(sketch, asker).would_need == "its class does not let it displace others"


def test_one_victim_where_one_suffices_in_a_crowd() -> None:
    sketch = Sketch()
    for node in range(10):
        sketch.node(f"n{node}")
        for device in range(8):
            sketch.running(f"j{node}-{device}", f"n{node}", [device], age=(node * 8 + device) * MINUTE // 2)
    answer = ask(sketch, sketch.job("asker", group(gpus=1), priority=75))
    assert names(answer) == ["j0-0"]
    answer = ask(sketch, sketch.job("wide", group(gpus=8), priority=75))
    assert names(answer) == [f"j0-{device}" for device in range(8)]
    assert answer.explanation.proven


def test_a_batch_counts_on_the_answers_before(sketch: Sketch) -> None:
    sketch.running("one", "a", range(8))
    sketch.running("two", "b", range(8), priority=60)
    for name in ("first", "second", "third"):
        sketch.job(name, group(gpus=8), priority=75)
    requests = [OpenRequest(seq, name) for seq, name in enumerate(("first", "second", "third", "nobody"))]
    answers = select_batch(sketch.pool, requests, 20_000)
    assert [names(answer) for answer in answers] == [["one"], ["two"], [], []]
    assert [answer.refused for answer in answers] == [None, None, "impossible", "impossible"]
    assert "does not wait" in answers[3].would_need


@pytest.mark.parametrize(
    ("phase", "priority", "preemptible", "rule"),
    [
        ("running", 50, True, None),
        ("starting", 50, True, None),
        ("reserved", 50, True, None),
        ("evicting", 50, True, "already-leaving"),
        ("reserved", 75, True, "held"),
        ("reserved", 50, False, "held"),
        ("running", 50, False, "not-preemptible"),
        ("running", 75, True, "lower-priority-only"),
    ],
)
def test_each_protection_by_name(sketch: Sketch, phase, priority: int, preemptible: bool, rule: str | None) -> None:
    other = sketch.running("x", "a", [0], phase=phase, priority=priority, preemptible=preemptible)
    assert excluded_by(sketch.pool, "preempt", sketch.job("asker", priority=75), whole(other)) == rule


@pytest.fixture
def answered(sketch: Sketch) -> tuple[Sketch, Job, Answer]:
    sketch.running("one", "a", range(4))
    sketch.running("two", "a", range(4, 8))
    sketch.running("stays", "b", range(8), priority=75)
    asker = sketch.job("asker", group(gpus=8), priority=75)
    answer = ask(sketch, asker)
    assert names(answer) == ["one", "two"]
    return sketch, asker, answer


def verdict(sketch: Sketch, asker: Job, answer: Answer) -> Accepted | Stale:
    sketch.pool.scene = None
    scene = scene_of(sketch.pool)
    return check_answer(scene, shares_now(scene), asker, answer)


def test_an_answer_holds_on_an_unchanged_pool(answered) -> None:
    sketch, asker, answer = answered
    found = verdict(sketch, asker, answer)
    assert found == Accepted(asking(asker), answer.victims, (), answer.placement)


def test_a_victim_that_left_by_itself_is_dropped(answered) -> None:
    sketch, asker, answer = answered
    node, job = sketch.pool.nodes[0], sketch.pool.jobs["one"]
    node.held.devices, node.held.slots = 0xF0, 1
    job.tasks, job.phase = [], "succeeded"
    found = verdict(sketch, asker, answer)
    assert isinstance(found, Accepted)
    assert [choice.job for choice in found.victims] == ["two"]
    assert found.dropped == ("one",)


def test_what_no_longer_holds_is_stale(answered) -> None:
    sketch, asker, answer = answered
    jobs = sketch.pool.jobs
    jobs["one"].preemptible = False
    assert verdict(sketch, asker, answer) == Stale("victim 'one' is shielded by the rule 'not-preemptible' now")
    jobs["one"].preemptible = True
    sketch.pool.nodes[0].quarantined = 1
    assert "may not stand" in verdict(sketch, asker, answer).reason
    sketch.pool.nodes[0].state = "unreachable"
    assert verdict(sketch, asker, answer) == Stale("node 0 takes no tasks now")
    sketch.pool.nodes[0].state, sketch.pool.nodes[0].quarantined = "ready", 0
    other = answer.model_copy(update={"victims": answer.victims[:1]})
    assert verdict(sketch, asker, other) == Stale("there is no room for task 0 on a")
    nonsense = answer.model_copy(update={"placement": ()})
    assert "makes no sense" in verdict(sketch, asker, nonsense).reason
    asker.phase = "cancelled"
    assert "does not wait" in verdict(sketch, asker, answer).reason


def test_a_victim_too_many_is_dropped(answered) -> None:
    sketch, asker, _ = answered
    small = sketch.job("small", group(gpus=4), priority=75)
    answer = ask(sketch, small)
    both = ask(sketch, asker).victims
    found = verdict(sketch, small, answer.model_copy(update={"victims": both}))
    assert isinstance(found, Accepted)
    assert [choice.job for choice in found.victims] == names(answer)


def test_victims_of_a_dropped_promise_are_spared_where_nobody_needs_their_room(sketch: Sketch) -> None:
    sketch.at(sketch.job("v1", group(gpus=8)), ("a", range(8)), phase="evicting", plan=5)
    sketch.at(sketch.job("v2", group(gpus=8)), ("b", range(8)), phase="evicting", plan=5)
    promised = sketch.at(
        sketch.job("promised", group(2, gpus=8), priority=60), ("a", range(8)), ("b", range(8)), phase="reserved"
    )
    promised.plan, sketch.pool.plans[5] = 5, Plan(5, "promised", ["v1", "v2"])
    asker = sketch.job("asker", group(gpus=8), priority=75)
    answer = ask(sketch, asker)
    assert names(answer) == ["promised"]
    rooms = Rooms.of(sketch.pool)
    rooms.evict(whole(promised))
    rooms.place(whole(asker), GangPlace(tuple(from_shares(asker, answer.placement)), later=True))
    assert spared_by(sketch.pool, rooms, [promised]) == ["v2"]
