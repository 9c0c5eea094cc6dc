"""What another policy would cause: who becomes evictable, who would leave now."""

from pathlib import Path

import pytest
from tests.unit.client.kit import MINUTE, AnsweringBus, LogWriter, command_on

from bailiff.cli import policy_confirmation
from bailiff.client import projects
from bailiff.client.errors import ExitCode
from bailiff.client.preview import at
from bailiff.policy.policy_effects import PolicyEffects, policy_effects
from bailiff_core.fold.snapshot import to_snapshot
from bailiff_core.model.policy import DEFAULT_POLICY, Policy


def effects(log_writer: LogWriter, policy: Policy, *, enforce: bool = False) -> PolicyEffects:
    state = log_writer.state
    before = to_snapshot(state)
    found = policy_effects(at(state, log_writer.now), policy, enforce=enforce)
    assert to_snapshot(state) == before  # it is only read
    return found


def with_parts(policy: Policy, **parts: object) -> Policy:
    return Policy.model_validate({**policy.model_dump(mode="json"), **parts}, strict=False)


@pytest.fixture
def pool() -> LogWriter:
    """One node of eight GPUs, on which `mine` runs with four, without a project; `safe` is not preemptible."""
    log_writer = LogWriter()
    log_writer.begin()
    log_writer.node("gpu-01", gpus=8)
    log_writer.submit("mine", gpus=4)
    log_writer.start("mine")
    log_writer.submit("safe", gpus=2, class_="inference")
    log_writer.start("safe")
    log_writer.after(60 * MINUTE)
    return log_writer


def test_the_first_project_makes_a_job_without_a_project_reclaimable(pool: LogWriter) -> None:
    found = effects(pool, projects.with_new(pool.state.rules, "vision", {"quota": {"gpu_milli": 8000}}))
    (became,) = found.became_evictable
    assert became.job == "mine"
    assert "vision" in became.actions["reclaim"]
    assert found.scope == ("pool", "project")
    assert found.harms
    assert "mine would become evictable: it could be reclaimed by a job of vision." in found.sentences()


def test_the_same_policy_changes_nothing(pool: LogWriter) -> None:
    found = effects(pool, pool.state.rules)
    assert not found.harms
    assert found.sentences() == ["It would be rejected: this policy is in force already, since #1."]


def test_a_class_that_becomes_preemptible_makes_its_jobs_evictable(pool: LogWriter) -> None:
    classes = [
        {**entry, "preemptible": True} if entry["name"] == "inference" else entry
        for entry in DEFAULT_POLICY.model_dump(mode="json")["priority_classes"]
    ]
    above = {**classes[0], "name": "top", "value": 1000, "preemptible": False}
    found = effects(pool, with_parts(pool.state.rules, priority_classes=[above, *classes]))
    assert "safe" in [each.job for each in found.became_evictable]


def test_a_job_that_the_policy_no_longer_lets_be_evicted_is_named(pool: LogWriter) -> None:
    found = effects(pool, with_parts(pool.state.rules, preemption={"actions": ["allocate"]}))
    assert found.no_longer == ("mine",)
    assert not found.harms


def test_a_job_that_leaves_at_once_is_named_with_its_preemptor(pool: LogWriter) -> None:
    quiet = with_parts(pool.state.rules, preemption={"actions": ["allocate"]})
    log_writer = LogWriter()
    log_writer.begin(quiet)
    log_writer.node("gpu-01", gpus=4)
    log_writer.submit("mine", gpus=4)
    log_writer.start("mine")
    log_writer.after(60 * MINUTE).submit("urgent", gpus=4, class_="inference")
    found = effects(log_writer, DEFAULT_POLICY)
    assert [(each.job, each.for_job) for each in found.leaving] == [("mine", "urgent")]
    assert "mine would be evicted now, for urgent." in found.sentences()


def test_a_policy_without_a_class_in_use_would_be_rejected(pool: LogWriter) -> None:
    classes = [entry for entry in DEFAULT_POLICY.model_dump(mode="json")["priority_classes"] if entry["name"] != "inference"]
    found = effects(pool, with_parts(pool.state.rules, priority_classes=classes))
    assert "'safe' has the class 'inference'" in found.rejected
    assert not found.harms


def test_project_create_refuses_without_a_terminal_and_asks_on_one(
    pool: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = command_on(lambda: AnsweringBus(pool), monkeypatch, str(tmp_path))
    before = pool.state.policy_revision
    refused = run("project", "create", "vision", "--gpus", "8")
    assert refused.exit_code == ExitCode.USAGE
    assert "mine would become evictable" in refused.stderr
    assert "--yes" in refused.stderr
    assert pool.state.policy_revision == before

    answers = iter([False, True])
    monkeypatch.setattr(policy_confirmation, "on_terminal", lambda: True)
    monkeypatch.setattr(policy_confirmation.typer, "confirm", lambda *_, **__: next(answers))
    declined = run("project", "create", "vision", "--gpus", "8")
    assert "not confirmed" in declined.stderr
    assert (declined.exit_code, pool.state.policy_revision) == (ExitCode.USAGE, before)
    assert run("project", "create", "vision", "--gpus", "8").exit_code == ExitCode.DONE
    assert pool.state.policy_revision > before


def test_yes_applies_without_a_question(pool: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = command_on(lambda: AnsweringBus(pool), monkeypatch, str(tmp_path))
    assert run("project", "create", "vision", "--gpus", "8", "--yes").exit_code == ExitCode.DONE
    assert [each.name for each in pool.state.rules.projects] == ["vision"]


def test_what_does_not_add_up_in_the_quotas_is_said_before_they_count(
    pool: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = command_on(lambda: AnsweringBus(pool), monkeypatch, str(tmp_path))
    created = run("project", "create", "vision", "--gpus", "9", "--limit-gpus", "4", "--yes")
    assert created.exit_code == ExitCode.DONE
    assert "project vision has a GPU limit below its quota: it can use 4 GPUs of 9 GPUs; raise the limit" in created.stderr
    assert "quotas add up to 9 GPUs, the pool has 8 GPUs: they cannot all be satisfied at once" in created.stderr
    assert "add up" not in run("project", "update", "vision", "--weight", "2", "--yes").stderr, "known already"
    grown = run("project", "create", "speech", "--gpus", "3", "--parent", "vision", "--yes").stderr
    assert "limit below" not in grown
    child = run("project", "update", "speech", "--gpus", "10", "--yes").stderr
    assert "quotas below vision add up to 10 GPUs; its own quota is 9 GPUs" in child


def test_policy_check_compares_with_the_pool_where_it_is_asked(
    pool: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = command_on(lambda: AnsweringBus(pool), monkeypatch, str(tmp_path))
    projects = [{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 12, "cpus": 1}, "limit": {"gpus": 1}}]
    file = tmp_path / "policy.yaml"
    file.write_text(with_parts(pool.state.rules, projects=projects).model_dump_json())
    offline, live = run("policy", "check", str(file)), run("policy", "check", "--live", str(file))
    assert offline.exit_code == live.exit_code == ExitCode.DONE
    assert all("project b has a GPU limit below its quota" in each.stdout for each in (offline, live))
    assert "add up" not in offline.stdout
    assert "quotas add up to 16 GPUs, the pool has 8 GPUs" in live.stdout
    assert "project a states no quota of CPU and memory: as large a part of the pool's as 4 GPUs" in offline.stdout
    assert "project b states no quota of memory" in offline.stdout
