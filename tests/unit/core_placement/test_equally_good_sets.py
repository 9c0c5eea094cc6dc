"""Among very many candidates, sets that cost the same are equally good: which of them is taken does not change."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_placement.test_general_search import search as search_for
from tests.unit.core_placement.test_general_search_parts import evicted, names, step

from bailiff_core.victims import search, set_weights
from bailiff_core.victims.search import GeneralSearch
from bailiff_core.victims.set_weights import SetWeights


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> GeneralSearch:
    """`one` and `two` cost the same, on a node each."""
    monkeypatch.setattr(set_weights, "MAX_TIE_BROKEN", 0)
    sketch = Sketch()
    for node, name in (("a", "one"), ("b", "two")):
        sketch.node(node, gpus=2)
        sketch.running(name, node, range(2))
    return search_for(sketch, sketch.job("preemptor", group(gpus=2), priority=75), "preempt")


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_of_two_next_best_sets_the_one_found_first_is_named(
    monkeypatch: pytest.MonkeyPatch, made: GeneralSearch, order: tuple[str, str]
) -> None:
    oracle = evicted(made)
    steps = [step(made, name) for name in ("one", "two")]
    weights = SetWeights.of_steps(steps, made.fragmentation)
    found = iter(order)
    monkeypatch.setattr(made, "_runner_up_without", lambda *_: [step(made, next(found))])
    assert names(made._runner_up(oracle, steps, steps, weights, lambda *_: True)) == [order[0]]


def test_a_next_best_set_takes_the_place_of_one_that_is_not_proven(monkeypatch: pytest.MonkeyPatch, made: GeneralSearch) -> None:
    oracle = evicted(made)
    found = iter(("two", "one"))
    monkeypatch.setattr(search, "IMPROVEMENTS", 1)
    monkeypatch.setattr(search, "branch_and_bound", lambda *_, **__: (None, False))
    monkeypatch.setattr(made, "_first", lambda *_: [step(made, "one")])
    monkeypatch.setattr(made, "_runner_up", lambda *_: [step(made, next(found))])
    chains: Any = list(made.candidates.chains.values())
    solution = made._best(oracle, chains, with_relocations=False)
    assert (names(solution.victims), names(solution.runner_up)) == (["two"], ["one"])


class Candidate:
    """A step of weight 1."""

    def __init__(self, number: int) -> None:
        self.weight, self.age_key = 1, (number,)


@pytest.mark.parametrize(("candidates", "broken"), [(2_000, True), (2_001, False)])
def test_ties_are_broken_among_two_thousand_candidates(candidates: int, broken: bool) -> None:
    steps: Any = [Candidate(number) for number in range(candidates)]
    fragmentation: Any = SimpleNamespace(per_node=1)
    weights = SetWeights.of_steps(steps, fragmentation)
    assert (weights.per_node > 1) is broken
    assert len(set(weights.of_step.values())) == (candidates if broken else 1)
