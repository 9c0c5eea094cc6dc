"""`bailiff budget`, and where other commands show budgets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on

from bailiff import InvalidRequest, Rejected, aio, connect
from bailiff.client.client import Client
from bailiff.client.live_plan import predict
from bailiff.doctor.checks import budget_checks
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.permissions import Requester
from bailiff_core.records.facts import PolicyApplied

HOUR = 3_600_000_000
ROWS = [
    {"name": "vision", "project": "vision", "gpu_hours": 8, "at_limit": "stop-admitting"},
    {"name": "spare", "priority_class": "build", "gpu_hours": 10},
]


class ClientThen(Client):
    """Its clock is that of the log."""

    then: Callable[[], int]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.now = type(self).then


@pytest.fixture
def made() -> LogWriter:
    """Vision has used 4 of its 8 GPU-hours, and uses four in an hour."""
    made = LogWriter()
    data = {**DEFAULT_POLICY.model_dump(mode="json"), "projects": [{"name": "vision"}], "budgets": ROWS}
    made.begin(Policy.model_validate(data, strict=False))
    made.node("gpu-01")
    made.submit("train", gpus=4, project="vision")
    made.start("train")
    made.after(HOUR).submit("next", gpus=8, project="vision")
    return made


@pytest.fixture
def bailiff(made: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    bus = AnsweringBus(made)
    monkeypatch.setattr("bailiff.client.client.Client", ClientThen)
    monkeypatch.setattr(ClientThen, "then", lambda: made.now, raising=False)
    return command_on(lambda: bus, monkeypatch, str(tmp_path / "cache"))


def test_the_list_says_what_is_used_and_left(bailiff: Run) -> None:
    rows = json.loads(bailiff("budget", "list", "-o", "json").output)
    assert [(each["budget"], each["hours"], each["level"]) for each in rows] == [("vision", 8, "within"), ("spare", 10, "within")]
    assert rows[0]["used_hours"] == 4
    head, vision, spare = bailiff("budget", "list").output.splitlines()
    assert " ".join(head.split()) == "BUDGET OF MONTH HOURS TOPPED UP TRANSFERRED USED LEFT LEVEL AT LIMIT"
    assert vision.split()[:3] == ["vision", "project", "vision"]
    assert spare.split()[:3] == ["spare", "class", "build"]


def test_hours_are_added_and_moved_by_request(bailiff: Run, made: LogWriter) -> None:
    added = bailiff("budget", "top-up", "vision", "20", "--reason", "paper")
    assert added.exit_code == 0, added.output
    assert added.output.startswith("vision has 20 GPU-hours more until the end of the month")
    moved = bailiff("budget", "transfer", "spare", "vision", "3", "--reason", "a gift")
    assert moved.output.startswith("3 GPU-hours of spare are with vision until the end of the month")
    rows = {each["budget"]: each["hours"] for each in json.loads(bailiff("budget", "list", "-o", "json").output)}
    assert rows == {"vision": 31, "spare": 7}


def test_a_reason_is_required_and_too_much_is_rejected(bailiff: Run) -> None:
    assert bailiff("budget", "top-up", "vision", "20").exit_code != 0
    refused = bailiff("budget", "transfer", "spare", "vision", "11", "--reason", "x")
    assert "the budget spare has 10.0 GPU-h left in this month (not-enough-budget)" in refused.output


def test_projects_and_doctor_name_budgets_that_are_used(bailiff: Run, made: LogWriter) -> None:
    assert "budget vision" in bailiff("project", "describe", "vision").output
    assert budget_checks(made.state) == []
    made.after(HOUR).submit("last", gpus=8, project="vision")
    said = "The budget vision has used 8.0 GPU-h of 8 GPU-h"
    assert said in bailiff("project", "list").output
    (check,) = budget_checks(made.state)
    assert check["found"].startswith(said)
    assert "no more of its jobs start" in bailiff("explain", "last").output


def test_the_python_client_lists_adds_and_moves(bailiff: Run, made: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command does, and with the same words where something is wrong."""
    monkeypatch.setattr("bailiff.client.client.bus_of", lambda settings: AnsweringBus(made))
    with connect() as b:
        vision, spare = b.budgets.list()
        assert (vision.name, vision.hours, vision.used_hours, vision.left_hours, vision.level) == ("vision", 8, 4, 4, "within")
        assert (spare.project, spare.priority_class) == (None, "build")
        before = made.state.seq
        assert b.budgets.top_up("vision", 20, reason="paper").seq > before
        b.budgets.transfer("spare", "vision", 3, reason="a gift")
        assert [(each.topped_up_hours, each.transferred_hours, each.hours) for each in b.budgets.list()] == [
            (20, 3, 31),
            (0, -3, 7),
        ]
        with pytest.raises(Rejected, match=r"has 7\.0 GPU-h left in this month"):
            b.budgets.transfer("spare", "vision", 8, reason="x")
        seq = made.state.seq
        for hours in (0, 10_000_001, 2**53, 1.5, "many"):
            with pytest.raises(InvalidRequest, match="gpu_hours"):
                b.budgets.top_up("vision", hours, reason="x")  # type: ignore[arg-type]
        assert made.state.seq == seq, "nothing was sent"


async def test_the_asynchronous_client_does_too(bailiff: Run, made: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff.client.client.bus_of", lambda settings: AnsweringBus(made))
    async with aio.connect() as b:
        await b.budgets.top_up("vision", 1, reason="paper")
        assert [each.hours for each in await b.budgets.list()] == [9, 10]


def test_a_plan_says_what_is_left_of_the_budgets_of_the_job_and_its_user(made: LogWriter) -> None:
    """As `bailiff plan --live` and the console do; a budget of somebody else is none of the job's."""
    rows = [*ROWS, {"name": "ada", "user": "ada", "gpu_hours": 100, "at_limit": "stop-admitting"}]
    data = {**made.state.rules.model_dump(mode="json"), "budgets": rows}
    made.cycle(PolicyApplied(policy=Policy.model_validate(data, strict=False)))
    demand = JobDemand(job="asked", tasks=(TaskGroup(gpu_milli=2000),), project="vision", priority_class="train")
    _, sentences = predict(made.state, demand, made.state.now, Requester("ada"))
    said = ["the budget vision has 4.0 GPU-h of 8 GPU-h left this month: with 2 GPUs they last 2h"]
    assert [each for each in sentences if "budget" in each][:1] == said
    assert any(each.startswith("the budget ada has 100.0 GPU-h of 100 GPU-h left") for each in sentences)
    _, sentences = predict(made.state, demand, made.state.now, Requester("bob"))
    assert [each for each in sentences if "budget" in each] == said
