"""Single amounts of a resource: what exceeds a bound, what borrows, and what one project may lose in some order."""

from random import Random
from typing import Any

import pytest
from tests.builders import MINUTE, Sketch
from tests.unit.core_protections.kit import rules

from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.quota.project_cooldown import _borrows, next_cooldown_end
from bailiff_core.quota.quota_checks import _exceeded_resource, exceeds
from bailiff_core.quota.reclaim import _can_be_taken, _ProjectLosses

Amounts = tuple[int, int, int]


def vector(amounts: Amounts) -> ResourceVector:
    return ResourceVector(*amounts)


@pytest.mark.parametrize(
    ("used", "demand", "bound", "exceeded"),
    [
        ((0, 0, 0), (1, 1, 1), (1, 1, 1), None),
        ((0, 0, 0), (1, 1, 1), (0, 0, 0), 0),
        ((0, 0, 0), (0, 1, 1), (0, 0, 0), 1),
        ((0, 0, 0), (0, 0, 1), (0, 0, 0), 2),
        ((5, 5, 5), (0, 0, 0), (0, 0, 0), None),
        ((5, 5, 5), (1, 1, 1), (UNLIMITED, 6, 5), 2),
        ((5, 5, 5), (1, 1, 1), (UNLIMITED, UNLIMITED, UNLIMITED), None),
    ],
)
def test_a_bound_counts_for_what_is_requested_be_it_one_unit(
    used: Amounts, demand: Amounts, bound: Amounts, exceeded: Any
) -> None:
    assert _exceeded_resource(vector(used), vector(demand), vector(bound)) == exceeded
    assert _borrows(vector(used), vector(demand), vector(bound)) is (exceeded is not None)


@pytest.mark.parametrize(
    ("used", "bound", "above"),
    [((2, 0, 0), (1, 1, 1), True), ((0, 0, 2), (1, 1, 1), True), ((1, 1, 1), (1, 1, 1), False), ((9, 0, 0), (-1, 0, 0), False)],
)
def test_use_is_above_a_bound_in_any_resource(used: Amounts, bound: Amounts, above: bool) -> None:
    assert exceeds(vector(used), vector(bound)) is above


@pytest.mark.parametrize(
    ("lost", "end"), [({}, None), ({"a": 5}, 15), ({"a": 5, "b": 3}, 13), ({"a": 5, "b": 0}, 15), ({"a": 0}, None)]
)
def test_when_the_next_cooldown_ends(lost: dict[str, int], end: int | None) -> None:
    state = Sketch().state
    state.policy = rules(protections={"cooldown": {"project": "10m"}})
    state.now = 10 * MINUTE
    state.reclaimed_at = {name: at * MINUTE for name, at in lost.items()}
    assert next_cooldown_end(state) == (None if end is None else end * MINUTE)


def some_order_is_permitted(chains: list[list[ResourceVector]], margin: Any, lost: ResourceVector = ZERO) -> bool:
    """Tries every order that keeps that of each chain: each unit needs a resource of which less was lost than the margin."""
    if not any(chains):
        return True
    for at, chain in enumerate(chains):
        if chain and any(
            bound is not None and amount > 0 and before < bound
            for amount, before, bound in zip(chain[0], lost, margin, strict=True)
        ):
            rest = [*chains[:at], chain[1:], *chains[at + 1 :]]
            if some_order_is_permitted(rest, margin, lost.plus(chain[0])):
                return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_what_a_project_loses_is_permitted_where_some_order_of_its_units_is(seed: int) -> None:
    """Units are added one by one as long as they are permitted, later units of a job first, and then undone."""
    random = Random(seed)
    for _ in range(8):
        margin = tuple(random.choice((None, 0, 1, 2, 3, 4)) for _ in range(3))
        losses, chains = _ProjectLosses(margin), [[] for _ in range(random.randint(1, 3))]  # type: ignore[var-annotated]
        taken: list[int] = []
        for _ in range(6):
            at = random.randrange(len(chains))
            unit = ResourceVector(*random.choice(((1, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 1), (0, 0, 1), (1, 2, 1), (0, 0, 0))))
            chains[at].insert(0, unit)
            losses.take(f"j{at}", unit)
            expected = some_order_is_permitted(chains, margin)
            assert losses.permitted() is expected, (margin, chains)
            assert _can_be_taken(chains, margin) is expected, (margin, chains)
            if expected:
                taken.append(at)
            else:
                chains[at].pop(0)
                losses.undo(f"j{at}")
        for at in reversed(taken):
            losses.undo(f"j{at}")
        assert (losses._taken, losses._chains, losses._lasts, losses._without) == (ZERO, {}, {}, [0, 0, 0])
