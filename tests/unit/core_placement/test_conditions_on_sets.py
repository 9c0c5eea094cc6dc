"""Conditions on a whole set of victims in the search: which are tested, when, and with which of its victims taken."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.core_placement.tables import AT_MOST_ONE_WEB, preemptor_of_another_project, two_full_nodes
from tests.unit.core_placement.test_general_search import search as search_for
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.placement.gang import NoFit
from bailiff_core.victims import search
from bailiff_core.victims.search import GeneralSearch, _FullSetConstraint, _has_unneeded_victim, _LossConstraint

STEPS: Any = [SimpleNamespace(unit=name) for name in ("first", "second", "third")]


@dataclass(frozen=True)
class Step:
    """A step, and the one before it of the same job."""

    name: str
    before: "Step | None"


def made(action: Any, protections: dict[str, Any] | None = None) -> GeneralSearch:
    sketch = two_full_nodes()
    projects = ({"name": "a"}, {"name": "b", "quota": {"gpus": 8}}) if action == "reclaim" else ()
    sketch.state.policy = policy(*projects, protections=protections or {})
    return search_for(sketch, preemptor_of_another_project(sketch), action)


@pytest.mark.parametrize(("with_relocations", "taken"), [(True, []), (False, None)])
def test_a_growing_set_is_tested_as_a_whole_last_victim_first_and_nothing_counts_as_taken_if_it_may_move(
    with_relocations: bool, taken: list[Any] | None
) -> None:
    tested: list[Any] = []
    constraints: Any = SimpleNamespace(allows=lambda evicted, taken: tested.append((evicted, taken)) or len(evicted) < 2)
    constraint = _FullSetConstraint(constraints, with_relocations=with_relocations)
    assert [constraint.push(step) for step in STEPS[:2]] == [True, False]
    constraint.pop()
    assert not constraint.push(STEPS[2])
    assert tested == [(["first"], taken), (["second", "first"], taken), (["third", "first"], taken)]


@pytest.mark.parametrize(
    ("action", "protections", "with_relocations", "kind"),
    [
        ("preempt", {}, False, type(None)),
        ("preempt", AT_MOST_ONE_WEB, False, _FullSetConstraint),
        ("reclaim", {}, False, _LossConstraint),
        ("reclaim", {}, True, type(None)),  # a victim that moves is no loss
        ("reclaim", AT_MOST_ONE_WEB, False, _FullSetConstraint),
        ("reclaim", AT_MOST_ONE_WEB, True, _FullSetConstraint),
    ],
)
def test_sets_are_tested_while_they_grow_by_what_does_not_depend_on_new_places(
    action: Any, protections: dict[str, Any], with_relocations: bool, kind: type
) -> None:
    assert type(made(action, protections)._set_constraint(with_relocations=with_relocations)) is kind


@pytest.mark.parametrize(
    ("action", "protections", "tested"), [("preempt", {}, False), ("preempt", AT_MOST_ONE_WEB, True), ("reclaim", {}, True)]
)
def test_complete_sets_are_tested_again_only_where_a_condition_concerns_sets(
    monkeypatch: pytest.MonkeyPatch, action: Any, protections: dict[str, Any], tested: bool
) -> None:
    accepts: list[bool] = []

    def search_all(*_: Any, accept: Any, **__: Any) -> tuple[None, bool]:
        accepts.append(accept is not None)
        return None, True

    monkeypatch.setattr(search, "branch_and_bound", search_all)
    found = made(action, protections)
    found._search_among(list(found.candidates.chains.values()), with_relocations=False)
    assert accepts == [tested]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("with_relocations", [True, False])
def test_a_complete_set_is_permitted_if_it_is_allowed_and_in_balance(
    monkeypatch: pytest.MonkeyPatch, allowed: bool, balanced: bool, with_relocations: bool
) -> None:
    found = made("reclaim")
    monkeypatch.setattr(found.constraints, "allows", lambda *_: allowed)
    monkeypatch.setattr(found.constraints, "imbalance", lambda _: None if balanced else "reverses the imbalance")
    monkeypatch.setattr(found, "_fits_with_restored", lambda *_: False)
    steps = found.candidates.chains["one"]
    assert found._acceptable(steps, found.budget, with_relocations=with_relocations) is (allowed and balanced)


@pytest.mark.parametrize(
    ("place", "after", "moves"),
    [("impossible", True, False), ("gave-up", True, True), ([], True, True), ("gave-up", False, False), ([], False, False)],
)
def test_a_rejected_set_stays_rejected_if_no_victim_fits_beside_the_preemptor_or_moving_does_not_help(
    monkeypatch: pytest.MonkeyPatch, place: Any, after: bool, moves: bool
) -> None:
    """after: whether the conditions permit the set once the victims that may move are not taken."""
    found = made("reclaim")
    monkeypatch.setattr(search, "place_jointly", lambda *_: place)
    monkeypatch.setattr(found.constraints, "allows", lambda _units, taken: after and not taken)
    assert found._never_acceptable(found.candidates.chains["one"], found.budget) is not moves


def test_that_a_set_is_never_permitted_is_asked_until_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made("reclaim")
    monkeypatch.setattr(search, "place_unit", lambda *_, **__: NoFit("impossible", "no"))
    monkeypatch.setattr(found.constraints, "allows", lambda *_: False)
    answers = iter((True, False))
    monkeypatch.setattr(found, "_never_acceptable", lambda *_: next(answers))
    found._certain = True  # as before each search
    known = []
    for _ in range(3):
        assert not found._acceptable(found.candidates.chains["one"], found.budget, with_relocations=True)
        known.append(found._certain)
    assert known == [True, False, False]


@pytest.mark.parametrize(("kept", "unneeded"), [((), False), (("core",), True), (("surplus",), False), (("other",), True)])
def test_a_unit_after_which_another_of_its_job_is_evicted_is_needed(kept: tuple[str, ...], unneeded: bool) -> None:
    """kept: what could be restored while the preemptor still fits."""
    surplus = Step("surplus", None)
    core, other = Step("core", surplus), Step("other", None)
    again: list[str] = []
    oracle: Any = SimpleNamespace(reprieve=lambda step: step.name in kept, evict=lambda step: again.append(step.name))
    steps: Any = [surplus, core, other]
    assert _has_unneeded_victim(oracle, steps) is unneeded
    assert again == (list(kept) if unneeded else [])
