"""What an attacker puts into budgets, quotas by model, begins and rules of snapshots. All of it was tried on `make up` first."""

import pytest
from pydantic import ValidationError
from tests.kits.asked import ask, refused, submit
from tests.kits.log_builder import DAY, Story, policy

from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.records.budget_requests import TopUpBudget, TransferBudget
from bailiff_core.records.facts import BudgetToppedUp

BUDGETS = [{"name": "vision", "project": "vision", "gpu_hours": 100}, {"name": "speech", "project": "speech", "gpu_hours": 100}]
LONG = "m" * 10_000


@pytest.fixture
def story() -> Story:
    made = Story(policy(projects=[{"name": "vision"}, {"name": "speech"}], budgets=BUDGETS, identity={"operators": ["ops"]}))
    made.node("n1")
    return made


@pytest.mark.parametrize("auth", ["none", "signed"])
@pytest.mark.parametrize("actor", ["eve", "", "<img src=x onerror=alert(1)>", "ops/eve"])
def test_nobody_but_an_operator_gives_or_moves_hours(story: Story, actor: str, auth: str) -> None:
    for body in (
        TopUpBudget(budget="vision", gpu_hours=1, reason="please"),
        TransferBudget(budget="speech", to="vision", gpu_hours=1, reason="please"),
    ):
        assert refused(story, body, "not-permitted", actor=actor, auth=auth).reason


def test_250_requests_for_the_most_hours_leave_a_budget_at_its_most(story: Story) -> None:
    """Also of an operator whose key was stolen."""
    accepted = 0
    for number in range(250):
        found = ask(
            story,
            TopUpBudget(budget="vision", gpu_hours=40_000, reason=str(number)),
            id=f"q-{number}",
            actor="ops",
            auth="signed",
        )
        if isinstance(found, list):
            (fact,) = found
            assert isinstance(fact, BudgetToppedUp)
            story.cycle(fact)
            accepted += 1
    assert accepted == (10_000_000 - 100) // 40_000
    assert story.state.budgets["vision"].topped_up == accepted * 40_000


@pytest.mark.parametrize(
    "quota",
    [{"models": {LONG: 8}}, {"models": {f"m{number}": 8 for number in range(1_000)}}],
    ids=["a name of 10 kB", "1,000 models"],
)
def test_a_quota_names_few_models_and_briefly(quota: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        policy(projects=[{"name": "a", "quota": quota}])


@pytest.mark.parametrize("begin", [MAX_INTEGER, 367 * DAY])
def test_a_job_begins_within_a_year(story: Story, begin: int) -> None:
    assert "begin" in refused(story, submit(project="vision", begin=max(begin, story.time + 367 * DAY)), "malformed").reason


@pytest.mark.parametrize("kept", [{"kept_for": MAX_INTEGER}, {"kept_for": 0}, {"quota": 0}, {"quota": -1}])
def test_a_project_s_snapshots_are_kept_within_reason(kept: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        policy(projects=[{"name": "a", "snapshots": kept}])
