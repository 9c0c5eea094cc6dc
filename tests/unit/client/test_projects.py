"""`bailiff project`: output, changes, and concurrent changes of the policy."""

import json
from pathlib import Path

import pytest
from tests.kits.claims import complete
from tests.kits.memory_bus import MemoryBus
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on

from bailiff.client import projects
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.model.policy import DEFAULT_POLICY, FairnessRules, Limits, Policy
from bailiff_core.records.facts import PolicyApplied

TREE = [
    {"name": "research", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "research", "quota": {"gpus": 4}, "limit": {"gpus": 8}, "description": "eyes"},
    {"name": "speech", "parent": "research", "quota": {"gpus": 4}},
    {"name": "students"},
]


def with_projects(*listed: dict[str, object]) -> Policy:
    return Policy.model_validate({**DEFAULT_POLICY.model_dump(mode="json"), "projects": listed}, strict=False)


@pytest.fixture
def log_writer() -> LogWriter:
    """vision uses 8 GPUs with a quota of 4; speech is pending with a quota of 4; students run one job."""
    made = LogWriter()
    made.begin(with_projects(*TREE))
    made.node("gpu-01")
    made.node("gpu-02", gpus=2)
    made.submit("train", gpus=8, project="vision")
    made.start("train")
    made.submit("play", gpus=1, project="students")
    made.submit("listen", gpus=4, project="speech")
    return made


def test_project_list_is_a_tree_with_usage_over_quota(bailiff: Run) -> None:
    lines = [line.split() for line in bailiff("project", "list").output.splitlines()]
    assert lines == [
        ["PROJECT", "GPUS", "FAIR", "SHARE", "LIMIT", "PRIO", "RUNNING", "PENDING"],
        ["research", "8/8", "9", "-", "-", "1", "1"],
        ["vision", "8/4", "over", "quota", "5", "8", "-", "1", "-"],
        ["speech", "0/4", "4", "-", "-", "-", "1"],
        ["students", "1/0", "over", "quota", "1", "-", "-", "1", "-"],
    ]


def test_quota_and_use_are_shown_by_gpu_model_where_the_policy_names_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = LogWriter()
    made.begin(with_projects({"name": "vision", "quota": {"models": {"h100": 4}}, "limit": {"models": {"h100": 8}}}))
    made.node("gpu-01", model="h100")
    made.submit("train", gpus=8, project="vision")
    made.start("train")
    bailiff = command_on(lambda: AnsweringBus(made), monkeypatch, str(tmp_path / "cache"))
    listed = [line.split() for line in bailiff("project", "list").output.splitlines()]
    assert listed[0][:3] == ["PROJECT", "GPUS", "H100"]
    assert listed[1][:8] == ["vision", "8/4", "over", "quota", "8/4", "over", "quota", "8"]
    (row,) = json.loads(bailiff("project", "list", "-o", "json").output)
    amounts = {"used": 8.0, "quota": 4.0, "quota_in_force": 4.0, "limit": 8.0, "fair_share": 8.0}
    assert row["kinds"] == [{"kind": "h100", **amounts}]
    assert "8/4 over quota, fair share 8, limit 8" in bailiff("project", "describe", "vision").output


def test_project_list_names_limits_that_are_near(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, rules = LogWriter(), with_projects(*TREE)
    limits = rules.limits.model_copy(update={"project": Limits(open_jobs=1)})
    made.begin(rules.model_copy(update={"limits": limits}))
    made.submit("train", gpus=1, project="vision")
    bailiff = command_on(lambda: AnsweringBus(made), monkeypatch, str(tmp_path / "cache"))
    assert "Project vision: 1 of 1 open jobs (limits.project.open_jobs)" in bailiff("project", "list").output


def test_past_use_is_listed_where_it_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, rules = LogWriter(), with_projects({"name": "vision"}, {"name": "speech"})
    made.begin(rules.model_copy(update={"fairness": FairnessRules(half_life=86_400_000_000)}))
    made.node("gpu-01")
    made.submit("train", gpus=8, project="vision")
    made.start("train")
    made.after(86_400_000_000).submit("listen", gpus=8, project="speech")
    bailiff = command_on(lambda: AnsweringBus(made), monkeypatch, str(tmp_path / "cache"))
    head, vision, speech, *said = bailiff("project", "list").output.splitlines()
    assert ("PAST USE" in head, vision.split()[4], speech.split()[2]) == (True, "3.989", "0")
    used = "Project vision used twice its part beyond quotas over time: 3.989 GPUs on average, by a half-life of 1d"
    assert " ".join(said).startswith(f"{used}; so project speech goes first.")
    assert ["past", "use", "3.989", "GPUs,"] in [
        line.split()[:4] for line in bailiff("project", "describe", "vision").output.splitlines()
    ]


def test_json_output_has_every_amount(bailiff: Run) -> None:
    rows = {row["project"]: row for row in json.loads(bailiff("project", "list", "-o", "json").output)}
    vision = rows["vision"]
    assert (vision["parent"], vision["depth"], vision["usage_text"]) == ("research", 1, "8/4 over quota")
    assert vision["used"] == {"gpus": 8, "cpu_milli": 2000, "memory_bytes": 8 * 2**30}
    assert vision["borrowed"] == {"gpus": 4, "cpu_milli": 0, "memory_bytes": 0}
    assert (vision["quota"]["gpus"], vision["quota"]["cpu_milli"], vision["limit"]["gpus"]) == (4, 51_200, 8), "4 of 10 GPUs"
    assert (rows["research"]["jobs_running"], rows["research"]["jobs_pending"]) == (1, 1)


def test_an_idle_pool_shows_what_unstated_quotas_will_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = LogWriter()
    made.begin(with_projects(*TREE))
    made.node("gpu-01")
    made.node("gpu-02", gpus=2)
    run = command_on(lambda: AnsweringBus(made), monkeypatch, str(tmp_path / "cache"))
    idle = json.loads(run("project", "describe", "vision", "-o", "json").output)["summary"]["quota"]
    made.submit("train", gpus=1, project="vision")
    busy = json.loads(run("project", "describe", "vision", "-o", "json").output)["summary"]["quota"]
    assert idle == busy
    assert busy["cpu_milli"] == 51_200, "4 of 10 GPUs"


def test_jobs_without_a_project_have_their_own_row(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.submit("stray", gpus=1)
    output = bailiff("project", "list").output
    (row,) = (line.split() for line in output.splitlines() if "(none)" in line)
    assert row == ["(none)", "0/0", "0", "-", "-", "-", "1"]
    assert "owed: 0.667 GPUs to jobs without a project" in " ".join(output.split())
    assert json.loads(bailiff("project", "list", "-o", "json").output)[-1]["project"] == ""


def test_describe_shows_borrowed_resources_and_jobs(bailiff: Run) -> None:
    printed = " ".join(bailiff("project", "describe", "vision").output.split())
    assert "GPUs 8/4 over quota" in printed
    assert "borrowed 4 GPUs, 0 CPU, 0B" in printed
    assert "parent research description eyes" in printed
    assert "train train 50 running 8 gpu-01" in printed
    assert "listen" not in printed
    assert "vision 8/4 over quota" in " ".join(bailiff("project", "describe", "research").output.split())


def test_describe_shows_a_limit_of_open_jobs_that_is_near(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits = {"project": {"open_jobs": 2}}
    made = LogWriter()
    made.begin(Policy.model_validate({**with_projects(*TREE).model_dump(mode="json"), "limits": limits}, strict=False))
    made.submit("one", gpus=1, project="students")
    made.submit("two", gpus=1, project="students")
    run = command_on(lambda: AnsweringBus(made), monkeypatch, str(tmp_path / "cache"))
    output = " ".join(run("project", "describe", "students").output.split())
    assert "Project students: 2 of 2 open jobs (limits.project.open_jobs)" in output
    assert "open jobs" not in run("project", "describe", "speech").output


def test_an_unknown_project_is_reported(bailiff: Run) -> None:
    found = bailiff("project", "describe", "marketing")
    assert found.exit_code == ExitCode.NOT_FOUND
    assert "research, vision, speech, students" in found.stderr.replace("\n", " ")


def test_create_update_delete(bailiff: Run, log_writer: LogWriter) -> None:
    options = ["--gpus", "4", "--memory", "64GiB", "--limit-gpus", "none", "--weight", "3", "--parent", "research"]
    made = bailiff("project", "create", "robots", *options, "--safe-from-reclaim", "10m", "--description", "arms")
    assert made.stdout == f"project robots created  (pool-a#{log_writer.state.policy_revision})\n"
    assert made.stderr.startswith("quotas below research add up to 12 GPUs; its own quota is 8 GPUs; raise it or lower theirs")
    robots = projects.find(log_writer.state.rules, "robots")
    assert (robots.parent, robots.quota.gpu_milli, robots.quota.memory_bytes) == ("research", 4000, 64 * 2**30)
    assert (robots.limit.gpu_milli, robots.over_quota_weight.gpu, robots.min_runtime.reclaim) == (-1, 3, 600_000_000)

    assert (
        bailiff("project", "update", "robots", "--gpus", "0.5", "--priority", "2", "--parent", "none").exit_code == ExitCode.DONE
    )
    robots = projects.find(log_writer.state.rules, "robots")
    assert (robots.parent, robots.quota.gpu_milli, robots.quota.memory_bytes) == (
        None,
        500,
        64 * 2**30,
    )  # other fields do not change
    assert (robots.priority, robots.description) == (2, "arms")

    assert bailiff("project", "delete", "robots").exit_code == ExitCode.DONE
    assert [project.name for project in log_writer.state.rules.projects] == ["research", "vision", "speech", "students"]


def test_quotas_and_limits_by_model_are_set_one_by_one(bailiff: Run, log_writer: LogWriter) -> None:
    def by_model() -> tuple[dict[str, int], dict[str, int], int | None]:
        (robots,) = (each for each in log_writer.state.rules.projects if each.name == "robots")
        return robots.quota.by_model, robots.limit.by_model, robots.quota.gpu_milli

    def done(*args: str) -> None:
        found = bailiff("project", *args, "--yes")
        assert found.exit_code == ExitCode.DONE, found.output

    done("create", "robots", "--model", "h100=2,a100=0.5", "--model", "1g.10gb=7", "--limit-model", "h100=4")
    assert by_model() == ({"1g.10gb": 7000, "a100": 500, "h100": 2000}, {"h100": 4000}, None)
    done("update", "robots", "--model", "h100=3,a100=none", "--gpus", "4")
    assert by_model() == ({"1g.10gb": 7000, "h100": 3000}, {"h100": 4000}, 4000)
    done("update", "robots", "--limit-model", "h100=none")
    assert by_model() == ({"1g.10gb": 7000, "h100": 3000}, {}, 4000)
    for text in ("h100", "=3", "h100=many", "h100=-2", "h100=1,h100=2", f"h100={2**60}", "h100=0.0001"):
        found = bailiff("project", "update", "robots", "--model", text)
        assert found.exit_code == ExitCode.USAGE, (text, found.output)
    assert by_model() == ({"1g.10gb": 7000, "h100": 3000}, {}, 4000)


def test_a_change_records_its_reason(bailiff: Run, log_writer: LogWriter) -> None:
    for change in (["create", "robots", "--gpus", "4"], ["update", "robots", "--gpus", "2"], ["delete", "robots", "--yes"]):
        done = bailiff("project", *change, "--reason", f"{change[0]} for the fair")
        assert done.exit_code == ExitCode.DONE, done.output
        applied = [record.data for record in log_writer.records if isinstance(record.data, PolicyApplied)]
        assert applied[-1].reason == f"{change[0]} for the fair"


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (["create", "vision"], ExitCode.USAGE, "project 'vision' exists already"),
        (["create", "x", "--parent", "nobody"], ExitCode.USAGE, "there is no 'nobody'; there are research"),
        (["create", "x", "--gpus", "many"], ExitCode.USAGE, '--gpus: expected a number of GPUs, as in 4 or 0.5, found "many"'),
        (["create", "x", "--limit-memory", "1 pizza"], ExitCode.USAGE, "--limit-memory: expected an amount of memory"),
        (["create", "Vision!"], ExitCode.USAGE, "expected a name of at most 63 characters"),
        (["update", "research", "--parent", "vision"], ExitCode.USAGE, "research -> vision -> research is a cycle"),
        (["update", "vision"], ExitCode.USAGE, "nothing to change"),
        (["delete", "vision"], ExitCode.REJECTED, "project vision is in use: train"),
        (["delete", "research"], ExitCode.USAGE, "project research has subprojects: vision, speech"),
    ],
)
def test_invalid_project_changes_are_reported(
    bailiff: Run, log_writer: LogWriter, arguments: list[str], code: ExitCode, printed: str
) -> None:
    before = log_writer.state.policy_revision
    found = bailiff("project", *arguments)
    assert (found.exit_code, printed in found.stderr.replace("\n", " ")) == (code, True), found.stderr
    assert log_writer.state.policy_revision == before


def test_the_first_project_reports_the_new_preemption_scope(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = LogWriter()
    log_writer.begin()
    run = command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path))
    assert "jobs can now preempt jobs of their own project only" in run("project", "create", "first", "--gpus", "4").output
    assert "No projects" not in run("project", "list").output


class ConcurrentChanges(AnsweringBus):
    """Another client applies a policy just before each of the first requests."""

    def __init__(self, log_writer: LogWriter, times: int) -> None:
        super().__init__(log_writer)
        self.times = times

    async def producer(self):  # type: ignore[no-untyped-def]
        if self.times:
            self.times -= 1
            policy = projects.with_new(self.log_writer.state.rules, f"other-{self.times}", {})
            self.log_writer.cycle(PolicyApplied(policy=complete(policy)))
        return await super().producer()


def test_concurrent_policy_changes_are_retried(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bus = ConcurrentChanges(log_writer, 2)
    run = command_on(lambda: bus, monkeypatch, str(tmp_path))
    assert run("project", "create", "mine", "--gpus", "1").exit_code == ExitCode.DONE
    assert [project.name for project in log_writer.state.rules.projects][4:] == ["other-1", "other-0", "mine"]


def test_repeated_conflicts_are_reported(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bus: MemoryBus = ConcurrentChanges(log_writer, 99)
    run = command_on(lambda: bus, monkeypatch, str(tmp_path))
    found = run("project", "create", "mine", "--gpus", "1")
    assert found.exit_code == ExitCode.REJECTED
    assert "policy-changed" in found.stderr
    with pytest.raises(ClientError):
        projects.find(log_writer.state.rules, "mine")
