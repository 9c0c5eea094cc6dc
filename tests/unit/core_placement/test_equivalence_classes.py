"""Active jobs by what protections look at: the classes follow the state, and have their oldest members first."""

from collections.abc import Callable

import pytest
from tests.builders import Sketch

from bailiff_core.model.state import PoolState
from bailiff_core.placement.equivalence_classes import EquivalenceClasses

FIRM = ("running", 75, "train", True)
PLAIN = ("running", 50, "train", True)


@pytest.fixture
def sketch() -> Sketch:
    """Of three jobs of one class the one that was submitted first became active last."""
    made = Sketch()
    made.node("a")
    for number, (name, seq, priority) in enumerate((("b", 20, 50), ("c", 30, 50), ("a", 10, 50), ("d", 40, 75))):
        made.running(name, "a", [number], priority=priority, seq=seq).project = "train"
    made.job("waits", seq=50).project = "train"
    return made


def test_the_oldest_member_is_the_first(sketch: Sketch) -> None:
    found = EquivalenceClasses(sketch.state)
    assert found.groups == {PLAIN: [(10, "a"), (20, "b"), (30, "c")], FIRM: [(40, "d")]}
    assert found.priorities() == [50, 75]
    assert [found.group_of(name) for name in ("a", "d", "waits", "unknown")] == [PLAIN, FIRM, None, None]


def ends(state: PoolState, name: str) -> None:
    state.jobs[name].phase = "succeeded"
    del state.active[name]


def raised(state: PoolState, name: str) -> None:
    state.jobs[name].priority = 75


def starts(state: PoolState, name: str) -> None:
    state.jobs[name].phase = "starting"
    state.active[name] = None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: ends(state, "b"), id="one of several ends"),
        pytest.param(lambda state: ends(state, "d"), id="the only member ends"),
        pytest.param(lambda state: raised(state, "a"), id="one joins those of another class"),
        pytest.param(lambda state: raised(state, "c"), id="one joins them that is older"),
        pytest.param(lambda state: starts(state, "waits"), id="one becomes active"),
        pytest.param(lambda state: (ends(state, "a"), raised(state, "b"), starts(state, "waits")), id="several"),
        pytest.param(lambda state: None, id="nothing"),
    ],
)
def test_the_classes_after_a_change_are_those_of_the_state(sketch: Sketch, change: Callable[[PoolState], None]) -> None:
    found = EquivalenceClasses(sketch.state)
    change(sketch.state)
    found.refresh(sketch.state, ["unknown", "a", "b", "c", "d", "waits"])
    anew = EquivalenceClasses(sketch.state)
    assert found.groups == anew.groups
    assert [found.group_of(name) for name in sketch.state.jobs] == [anew.group_of(name) for name in sketch.state.jobs]
    assert found.priorities() == anew.priorities()
