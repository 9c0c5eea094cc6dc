"""Each request of a batch sees the pool as the answers before it leave it: new places of victims, and what is broken."""

import pytest
from tests.builders import HOUR, Sketch, group

from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import OpenRequest
from bailiff_core.victims import select_batch


def answers(sketch: Sketch, *names: str) -> list[Proposal]:
    sketch.state.indices.snapshot = None
    return select_batch(sketch.state, [OpenRequest(at, name) for at, name in enumerate(names, 1)], 20_000)


@pytest.mark.parametrize("order", [("small", "gang"), ("gang", "small")])
def test_a_victim_moves_to_what_another_victim_frees_and_nobody_else_gets_it(order: tuple[str, ...]) -> None:
    sketch = Sketch()
    for name, gpus in (("wide", 2), ("narrow", 1)):
        sketch.node(name, gpus=gpus)
    for name in order:
        if name == "small":
            sketch.running("small", "wide", [0])
        else:
            sketch.at(sketch.job("gang", group(2, gpus=1)), ("wide", [1]), ("narrow", [0]))
    sketch.job("first", group(gpus=2), priority=75)
    sketch.job("second", group(gpus=1), priority=75)
    first, second = answers(sketch, "first", "second")
    assert {victim.job: [share.node for share in victim.moved_to] for victim in first.victims} == {"small": [1], "gang": []}
    assert second.refused == "impossible", "the GPU that the gang frees on `narrow` is the new place of `small`"


def test_a_node_on_which_an_earlier_answer_placed_a_job_is_broken_by_the_next_eviction() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=2)
    sketch.running("leaving", "a", [0], phase="evicting")
    sketch.running("alone", "a", [1], age=2 * HOUR)
    sketch.running("older", "b", [0], age=2 * HOUR)
    sketch.running("younger", "b", [1], age=2 * HOUR)
    sketch.job("second", group(gpus=1), priority=75)
    (answer,) = answers(sketch, "second")
    assert answer.victims == (), "it fits on what is being freed"
    sketch.job("first", group(gpus=1), priority=100)
    first, second = answers(sketch, "first", "second")
    assert [share.node for share in first.placement] == [0]
    assert [victim.job for victim in second.victims] == ["younger"], "each of the three breaks a node, so the youngest is evicted"


def test_where_there_is_nobody_to_search_among_the_refusal_is_that_of_the_last_action() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.job("large", group(gpus=4), priority=75)
    (answer,) = answers(sketch, "large")
    assert (answer.refused, answer.action, answer.explanation.candidates) == ("impossible", "preempt", 0)


def test_where_an_action_had_candidates_the_refusal_is_that_of_the_last_such_action() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("low", "a", [0])
    sketch.job("large", group(gpus=4), priority=75)
    (answer,) = answers(sketch, "large")
    assert (answer.refused, answer.action, answer.explanation.candidates) == ("impossible", "preempt", 1)


def test_after_an_answer_took_the_surplus_of_a_job_the_next_one_takes_what_is_left_of_it() -> None:
    """Both look for one GPU. To free that on a, both tasks would have to go before the first answer; after it, only one."""
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=1)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    for name in ("first", "second"):
        sketch.job(name, group(gpus=1), priority=75)
    first, second = answers(sketch, "first", "second")
    assert [(choice.job, choice.tasks, choice.gpus) for choice in first.victims] == [("wide", "1", 1)]
    assert [(choice.job, choice.tasks, choice.gpus) for choice in second.victims] == [("wide", "", 1)]


@pytest.mark.parametrize("moves", [True, False])
def test_a_job_of_which_a_part_gets_a_new_place_is_not_evicted_further(moves: bool) -> None:
    sketch = Sketch()
    for name in ("a", "b", *(["c"] if moves else [])):
        sketch.node(name, gpus=1)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    for name, node in (("first", "b"), ("second", "a")):
        sketch.job(name, group(gpus=1, nodes=(node,)), priority=75)
    first, second = answers(sketch, "first", "second")
    assert [(choice.tasks, choice.relocated) for choice in first.victims] == [("1", moves)]
    assert second.refused == ("impossible" if moves else None)
