"""Wording of CLI output that confused new users."""

import json

import pytest
from tests.unit.client.kit import LogWriter, Run

from bailiff.render.record_text.phrases import demand_text
from bailiff_bus.validation_errors import describe_errors
from bailiff_core.explain.victims import REFUSAL_REASONS
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.records import facts
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.keys import new_private_key
from bailiff_log.seals import VerificationFailed, check_seal, make_seal


@pytest.fixture
def log_writer() -> LogWriter:
    """One node with 8 GPUs; an elastic job of four tasks with 2 GPUs each, shrunk to two tasks; a job that has ended."""
    made = LogWriter()
    made.begin()
    made.node("gpu-01")
    made.submit("done", gpus=1)
    made.start("done")
    made.finish("done")
    made.submit("elastic", gpus=2, tasks=4, min_tasks=2)
    made.start("elastic")
    made.submit("urgent", gpus=4, class_="inference")
    made.propose()
    for task in [task for task in made.state.jobs["elastic"].tasks if task.eviction is not None]:
        at = {"job": "elastic", "attempt": 1, "task": task.index, "node": "gpu-01"}
        made.cycle(facts.EvictionStarted(job="elastic", attempt=1, decided_by=task.eviction.decided_seq))
        made.cycle(facts.TaskExited(**at, exit_code=85))
        made.cycle(facts.TaskReleased(**at))
    made.start("urgent")
    return made


def row_of(output: str, job: str) -> list[str]:
    return next(line.split() for line in output.splitlines() if job in line.split())


@pytest.mark.slow
def test_an_elastic_job_shows_allocated_and_requested_gpus(bailiff: Run) -> None:
    listed = bailiff("list").output
    assert "4/8" in row_of(listed, "elastic")
    assert "4" in row_of(listed, "urgent")
    found = {row["job"]: row for row in json.loads(bailiff("list", "-o", "json").output)}
    assert (found["elastic"]["gpus_text"], found["elastic"]["placed_gpus_text"]) == ("8", "4")
    assert "2/4 placed, at least 2" in bailiff("describe", "elastic").output


def test_a_success_is_printed_once(bailiff: Run) -> None:
    (line,) = bailiff("events", "--type", "Succeeded").output.splitlines()
    assert line.lower().count("succeeded") == 1


def test_policy_show_prints_yes_off_and_defaults(bailiff: Run) -> None:
    shown = " ".join(bailiff("policy", "show").output.split())
    assert "scope pool (default: project if there are projects)" in shown
    assert "quota_shields yes" in shown
    assert "eviction_cap off" in shown


def test_the_doctor_prints_counts_with_units(bailiff: Run) -> None:
    printed = " ".join(bailiff("doctor").output.split())
    assert "1 node, 3 jobs" in printed


def test_equal_tasks_with_one_resource_need_no_brackets() -> None:
    assert demand_text(JobDemand(job="j", tasks=(TaskGroup(count=4, gpu_milli=1000),))) == "4 × 1 GPU"
    assert demand_text(JobDemand(job="j", tasks=(TaskGroup(count=4, gpu_milli=1000, cpu_milli=1000),))) == "4 × (1 GPU, 1 CPU)"


def test_not_needed_does_not_claim_that_a_pending_job_needs_no_resources() -> None:
    assert "did not need room" not in REFUSAL_REASONS["not-needed"]


@pytest.mark.parametrize(
    ("limit", "bound", "expected"),
    [
        ("le", 315_360_000_000_000, "at most 3650d"),
        ("ge", 86_400_000_000, "at least 1d"),
        ("le", 3_600_000_000, "at most 1h"),
        ("ge", 0, "a whole number ≥ 0"),
        ("le", 1 << 53, "a whole number ≤ 9007199254740992"),
    ],
)
def test_a_limit_of_a_duration_is_printed_in_days_or_hours(limit: str, bound: int, expected: str) -> None:
    error = {"type": "less_than_equal", "loc": ("grace",), "input": "7", "ctx": {limit: bound}, "msg": ""}
    assert describe_errors([error]) == f'grace: expected {expected}, found "7"'  # type: ignore[list-item]


def test_a_seal_over_one_record_uses_the_singular() -> None:
    tree = Frontier()
    tree.append(leaf_hash(b"0" * 32))
    seal = make_seal(new_private_key(), "pool-a", "0" * 64, tree, "0" * 64, sealed_at=1)
    with pytest.raises(VerificationFailed, match=r"^the seal over 1 record: its signature is not valid for key"):
        check_seal(seal.model_copy(update={"sealed_at": 2}), "pool-a")
