"""Parts of the general search: what it proves with and without new places of victims, and which sets it does not look into."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.builders import Sketch, requested_unit
from tests.unit.core_placement.tables import AT_MOST_ONE_WEB, preemptor_of_another_project, two_full_nodes
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch
from bailiff_core.victims.constraints import Constraints
from bailiff_core.victims.search import GeneralSearch
from bailiff_core.victims.solver_interface import Problem, Solution


@pytest.fixture
def sketch() -> Sketch:
    return two_full_nodes()


@pytest.fixture
def preemptor(sketch: Sketch) -> Job:
    return preemptor_of_another_project(sketch)


def search(sketch: Sketch, preemptor: Job, action: Action) -> GeneralSearch:
    snapshot, unit = current_snapshot(sketch.state), requested_unit(preemptor)
    batch = SelectionBatch.on(snapshot)
    constraints = Constraints(snapshot, batch.shares, unit, action)
    return GeneralSearch(Problem(snapshot, batch.index, unit, action, constraints, {}, StepBudget(20_000), batch.knapsacks))


@pytest.mark.parametrize(
    ("without", "relocating", "proven"), [(True, True, True), (False, True, False), (True, False, False), (False, False, False)]
)
def test_relocated_victims_are_the_cheapest_only_if_it_is_certain_that_nothing_less_does(
    sketch: Sketch, preemptor: Job, monkeypatch: pytest.MonkeyPatch, without: bool, relocating: bool, proven: bool
) -> None:
    sketch.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}})
    made = search(sketch, preemptor, "reclaim")
    victims = made.candidates.chains["one"]
    found: Mapping[bool, Solution] = {
        False: Solution(made.candidates, proven=without),
        True: Solution(made.candidates, victims, proven=relocating),
    }

    def search_among(_chains: Any, *, with_relocations: bool) -> Solution:
        return found[with_relocations]

    monkeypatch.setattr(made, "_relaxed", lambda: None)
    monkeypatch.setattr(made, "_search_among", search_among)
    solution = made.run()
    assert (solution.victims, solution.proven) == (victims, proven)


@pytest.mark.parametrize("with_relocations", [False, True])
def test_a_set_that_a_disruption_budget_forbids_is_not_looked_into(
    sketch: Sketch, preemptor: Job, with_relocations: bool
) -> None:
    sketch.state.policy = policy(protections=AT_MOST_ONE_WEB)
    made = search(sketch, preemptor, "preempt")
    constraint = made._set_constraint(with_relocations=with_relocations)
    assert constraint is not None
    one, two = (made.candidates.chains[name][0] for name in ("one", "two"))
    assert (constraint.push(one), constraint.push(two)) == (True, False)
    constraint.pop()
    constraint.pop()
    assert constraint.push(two)
