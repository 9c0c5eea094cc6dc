"""Previews of requests: the effects of each kind, before it is published."""

import dataclasses
import json
from typing import Any

import pytest
import yaml
from tests.kits.log_builder import Story
from tests.kits.story_script import play
from tests.unit.client.kit import MINUTE, SECOND, LogWriter, request_id
from tests.unit.console.actions.kit import story, task_result

from bailiff.client.errors import ClientError
from bailiff.render.serializers.policy import policy_in_force
from bailiff_console.actions.preview_text import Preview
from bailiff_console.actions.previews import preview
from bailiff_console.actions.request_types import KINDS
from bailiff_console.actions.worker_tasks import policy_in
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.work_lost import eviction_loss
from bailiff_core.permissions import Requester
from bailiff_core.records import facts
from bailiff_core.records.job_requests import CancelJob, EvictJob, JobChange, PauseJob
from bailiff_core.records.node_requests import UndrainNode
from bailiff_core.records.request import RequestBody


def previewed(log_writer: LogWriter, kind: str, **fields: Any) -> Any:
    body: RequestBody = KINDS[kind].model_validate(fields)
    before = state_digest(log_writer.state)
    found = task_result(log_writer, "preview", kind=kind, body=body.model_dump_json(), requester={"actor": "ada"})
    assert state_digest(log_writer.state) == before  # a preview does not change the state
    return found


def preview_text(found: Any) -> str:
    return " ".join(found["sentences"])


def whom(found: Any) -> list[tuple[str, str, list[str]]]:
    return [(row["job"], row["effect"], row["to"]) for row in found["affected"]]


def saves(log_writer: LogWriter, job: str, step: int) -> None:
    """Reports progress with a committed checkpoint of this step."""
    at = log_writer._at(job, 0)
    checkpoint = facts.Checkpoint(step=step, bytes=1, duration=1, sha256="0" * 64)
    log_writer.cycle(facts.TaskProgressed(**at, step=step, checkpoint=checkpoint))


@pytest.fixture
def log_writer() -> LogWriter:
    return story()


def test_pause_names_lost_work_released_resources_and_requeue(log_writer: LogWriter) -> None:
    found = previewed(log_writer, "pause", job="train-7", reason="bad data")
    assert found["sentences"] == [
        "train-7 gets the signal TERM on gpu-01. Grace period: 2m30s; then its tasks are killed.",
        (
            "It does not receive eviction notices: it loses the work since its start 10m ago, up to 40.0 GPU-min. "
            "It has no known checkpoint."
        ),
        "With its resources (4 GPUs), train-9 (gpu-01) can start.",
        "train-7 stays paused until it is resumed; then it is requeued at its previous position.",
    ]
    assert whom(found) == [("train-7", "evicted", []), ("train-9", "starts", ["gpu-01"])]
    row = found["affected"][0]
    assert (row["gpus"], row["grace_s"], row["tasks"], row["priority_class"]) == (4, 150, "", "train")
    assert (row["work_lost_gpu_ms"], row["restart_gpu_ms"]) == (40 * 60_000, 4 * 60_000)
    assert found["errors"] == []


def test_attached_job_saves_a_checkpoint_first(log_writer: LogWriter) -> None:
    saves(log_writer, "train-7", 400)
    found = previewed(log_writer.after(MINUTE), "pause", job="train-7")
    assert "It receives eviction notices, so it saves a checkpoint first." in preview_text(found)
    assert "since its last checkpoint 1m ago" in preview_text(found)


def test_pause_of_a_pending_job_loses_no_work(log_writer: LogWriter) -> None:
    found = previewed(log_writer, "pause", job="train-9")
    assert "is removed from the queue; no work is lost" in preview_text(found)
    assert found["affected"] == []


def test_released_gpus_are_named_when_no_job_is_pending(log_writer: LogWriter) -> None:
    log_writer.cycle(facts.JobCancelled(request=request_id("train-9", "x"), job="train-9"))
    assert "No other job starts as a result: 4 GPUs become free" in preview_text(previewed(log_writer, "evict", job="train-7"))


def test_evict_requeues(log_writer: LogWriter) -> None:
    found = previewed(log_writer, "evict", job="train-7")
    assert "It is requeued" in preview_text(found)
    assert whom(found)[0] == ("train-7", "evicted", [])


def test_evict_of_a_job_that_ends_by_it_loses_all_work_of_its_attempt() -> None:
    story = play("node n1: 8 gpus; runs once: 4 gpus, on_eviction end")
    checkpoint = facts.Checkpoint(step=9, bytes=1, duration=1, sha256="0" * 64)
    story.cycle(facts.TaskProgressed(**story.at("once", 0), step=9, checkpoint=checkpoint), after=30 * MINUTE)
    story.wait(10 * MINUTE)
    (row,) = preview(story.state, Requester("ada"), EvictJob(job="once"), story.state.now).affected
    job = story.state.jobs["once"]
    assert (row["effect"], row["work_lost_gpu_ms"]) == ("ends", eviction_loss(story.state, job, job.tasks, whole=True).work)
    paused = preview(
        story.state, Requester("ada"), PauseJob(job="once"), story.state.now
    )  # it comes back, whatever its on_eviction
    assert paused.affected[0]["effect"] == "evicted"
    assert paused.affected[0]["work_lost_gpu_ms"] < row["work_lost_gpu_ms"]


def test_cancel_ends_the_job(log_writer: LogWriter) -> None:
    found = previewed(log_writer, "cancel", job="train-7")
    assert found["sentences"][-1] == "train-7 ends. Its records stay in the log."
    assert ("train-9", "starts", ["gpu-01"]) in whom(found)
    assert "removed from the queue at once" in preview_text(previewed(log_writer, "cancel", job="train-9"))


def test_migrate_names_the_target(log_writer: LogWriter) -> None:
    log_writer.node("gpu-03", gpus=8)
    log_writer.start("train-9")
    found = previewed(log_writer, "migrate", job="train-7", node="gpu-03")
    assert preview_text(found).startswith("Resources are reserved for train-7 on gpu-03; no job is preempted.")
    assert whom(found) == [("train-7", "migrates", ["gpu-03"])]
    assert previewed(log_writer, "migrate", job="train-7", node="gpu-02")["errors"][0]["detail"].startswith(
        "train-7 cannot be migrated: "
    )


def test_drain_names_the_effect_on_each_job(log_writer: LogWriter) -> None:
    saves(log_writer, "train-7", 10)
    log_writer.node("gpu-03", gpus=8)
    log_writer.start("train-9")
    found = previewed(log_writer, "drain", node="gpu-01", mode="graceful", deadline=30 * MINUTE)
    assert found["sentences"][0].startswith(
        "No new tasks start on gpu-01; jobs that fit elsewhere migrate, the others may finish"
    )
    assert "within 30m" in found["sentences"][0]
    assert "train-7 (4 GPUs) migrates to gpu-03" in preview_text(found)
    assert whom(found) == [("train-7", "migrates", ["gpu-03"])]
    quick = previewed(log_writer, "drain", node="gpu-02", mode="quick")
    assert (
        "train-8 (4 GPUs) is evicted and requeued, with a grace period of 2m30s; without a checkpoint it loses"
        in preview_text(quick)
    )
    log_writer.node("gpu-04")
    assert "drained at once" in preview_text(previewed(log_writer, "drain", node="gpu-04"))


def test_undrain_names_jobs_that_can_start(log_writer: LogWriter) -> None:
    log_writer.cycle(facts.NodeDrained(request=request_id("drain"), node="gpu-01"))
    assert previewed(log_writer, "undrain", node="gpu-02")["errors"][0]["detail"].endswith("is not drained")
    assert preview_text(previewed(log_writer, "undrain", node="gpu-01")).startswith("New tasks can start on gpu-01 again.")


def test_resume_says_whether_the_job_starts(log_writer: LogWriter) -> None:
    log_writer.cycle(facts.JobPaused(request=request_id("pause"), job="train-9"))
    found = previewed(log_writer, "resume", job="train-9")
    assert "Now it would be pending" in preview_text(found)
    log_writer.node("gpu-03")
    assert "Now it would start at once on gpu-03." in preview_text(previewed(log_writer, "resume", job="train-9"))


def test_scale_names_evicted_and_started_tasks(log_writer: LogWriter) -> None:
    log_writer.node("gpu-03", gpus=8)
    log_writer.start("train-9")
    log_writer.submit("many", gpus=1, tasks=4, min_tasks=1, project="vision")
    log_writer.start("many")
    fewer = previewed(log_writer, "scale", job="many", tasks=2)
    assert "Its 2 tasks 2-3 are evicted" in preview_text(fewer)
    assert ("many", "shrinks", []) in whom(fewer)
    assert "train-9" not in preview_text(fewer)
    assert "none are free now" in preview_text(previewed(log_writer, "scale", job="many", tasks=6))
    log_writer.node("gpu-04", gpus=4)
    assert "More of its tasks start on gpu-04." in preview_text(previewed(log_writer, "scale", job="many", tasks=6))
    assert previewed(log_writer, "scale", job="many", tasks=2, group=3)["errors"]
    assert previewed(log_writer, "scale", job="many", tasks=2, min_tasks=5)["errors"]


def test_priority_class_change_names_victims(log_writer: LogWriter) -> None:
    found = previewed(log_writer, "set-priority-class", job="train-9", priority_class="inference")
    assert found["sentences"][0].startswith("train-9 gets priority class inference (priority 125) instead of train")
    assert "it would preempt train-8 and start on gpu-02 when their resources are released" in preview_text(found)
    ((job, what, _),) = whom(found)
    assert (job, what) == ("train-8", "evicted")  # of its own project
    unknown = previewed(log_writer, "set-priority-class", job="train-9", priority_class="gold")
    assert "no priority class 'gold'" in unknown["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("resume", {"job": "train-7"}, "not paused"),
        ("migrate", {"job": "train-9"}, "only a running job can be migrated"),
        ("evict", {"job": "train-9"}, "no tasks to evict"),
        ("set-priority-class", {"job": "train-7", "priority_class": "inference"}, "only be changed while it is pending"),
    ],
)
def test_invalid_requests_have_errors(log_writer: LogWriter, kind: str, fields: dict[str, Any], why: str) -> None:
    found = previewed(log_writer, kind, **fields)
    assert why in found["errors"][0]["detail"]
    assert found["sentences"] == []


def test_unknown_job_or_node_is_a_problem(log_writer: LogWriter) -> None:
    for kind in KINDS:
        about = {"node": "nowhere"} if kind in ("drain", "undrain") else {"job": "nobody"}
        more = {"scale": {"tasks": 2}, "set-priority-class": {"priority_class": "train"}}.get(kind, {})
        with pytest.raises(ClientError, match=r"no (job 'nobody'|node 'nowhere') in pool-a"):
            previewed(log_writer, kind, **about, **more)


def test_ended_or_cancelled_job_has_no_preview(log_writer: LogWriter) -> None:
    log_writer.finish("train-8")
    assert previewed(log_writer, "pause", job="train-8")["errors"][0]["detail"] == "job 'train-8' has ended already (succeeded)"
    log_writer.cycle(facts.JobCancelled(request=request_id("c"), job="train-7"))
    assert previewed(log_writer, "pause", job="train-7")["errors"][0]["detail"] == "train-7 is cancelled"


def test_preview_within_an_open_cycle(log_writer: LogWriter) -> None:
    log_writer.state.cycle_open = True
    body = KINDS["pause"].model_validate({"job": "train-7"}).model_dump_json()
    assert task_result(log_writer, "preview", kind="pause", body=body, requester={"actor": "ada"})["sentences"]


# --- jobs and policies that nobody has submitted yet

JOB = "name: new\nclass: inference\nproject: vision\ngpus: 4\ncommand: serve\n"


def test_job_plan_has_sentences_and_data(log_writer: LogWriter) -> None:
    found = task_result(log_writer, "plan", yaml=JOB, project=None)
    assert found["errors"] == []
    assert found["answer"]["outcome"] == "preempts"
    assert found["demand"] == "4 GPUs" or "4 GPU" in found["demand"]
    assert found["project"] == "vision"
    assert any("it would preempt:" in each for each in found["sentences"])
    shown = task_result(log_writer, "preview", kind="submit", yaml=JOB, project=None)
    assert [row["effect"] for row in shown["affected"]] == ["evicted"]


def test_job_errors_have_line_and_location(log_writer: LogWriter) -> None:
    text = "name: NEW\ngpu: 4\nmemory: lots\nsub-groups:\n  - nam: x\ncommand: x\n"
    found = task_result(log_writer, "plan", yaml=text, project=None)
    places = {(each["line"], each["location"]) for each in found["errors"]}
    assert {(1, "name"), (2, "gpu"), (3, "memory")} <= places
    assert next(each["detail"] for each in found["errors"] if each["line"] == 2) == "no such field; did you mean gpus?"
    assert task_result(log_writer, "plan", yaml="a: [", project=None)["errors"][0]["line"] >= 1
    assert task_result(log_writer, "preview", kind="submit", yaml="- x", project=None)["errors"][0]["detail"].startswith(
        "expected the fields"
    )


def test_a_job_waits_for_an_array_or_for_what_matches_a_pattern(log_writer: LogWriter) -> None:
    for name in ("sweep-0", "sweep-1", "prep"):
        user = "eve" if name == "prep" else "ada"
        demand = JobDemand(job=name, tasks=(TaskGroup(cpu_milli=1000),), project="speech", user=user)
        log_writer.cycle(facts.JobSubmitted(request=request_id(name), demand=demand, spec_digest="0" * 64, user=user))

    def planned(after: str) -> dict[str, Any]:
        text = f"name: next\nproject: speech\ncommand: x\nafter: [{after}]\n"
        return task_result(log_writer, "plan", yaml=text, project=None, user="ada")

    assert planned("sweep")["answer"]["reason"] == "it waits for sweep-0 and sweep-1 to succeed"
    assert planned("'*p-1:ended'")["sentences"][0].endswith("would be pending: it waits for sweep-1 to end")
    assert [(each["line"], each["detail"]) for each in planned("'prep*'")["errors"]] == [(4, "no job of ada matches 'prep*'")]
    request = task_result(log_writer, "job", yaml="name: next\nproject: speech\ncommand: x\nafter: 'sweep*'\n", user="ada")
    assert [each["job"] for each in json.loads(request["job"])["demand"]["after"]] == ["sweep-0", "sweep-1"]


def test_only_project_is_the_default(log_writer: LogWriter) -> None:
    found = task_result(log_writer, "job", yaml="gpus: 1\ncommand: python train.py\n", project="speech")
    assert found["project"] == "speech"
    assert '"project":"speech"' in found["job"]
    assert '"job":"train-' in found["job"]


def test_job_that_would_be_rejected_has_a_fault(log_writer: LogWriter) -> None:
    shown = task_result(log_writer, "preview", kind="submit", yaml=JOB.replace("inference", "gold"), project=None)
    assert "there is no priority class 'gold'" in shown["errors"][0]["detail"]


def policy_text(log_writer: LogWriter) -> str:
    return yaml.safe_dump(policy_in_force(log_writer.state)["policy"], sort_keys=False)


def test_policy_plan_has_diff_and_effects(log_writer: LogWriter) -> None:
    text = policy_text(log_writer)
    same = task_result(log_writer, "plan-policy", yaml=text)
    assert (same["errors"], same["diff"], same["sentences"]) == (
        [],
        [],
        ["It is identical to the policy in force: nothing would change."],
    )
    other = task_result(log_writer, "plan-policy", yaml=text.replace("  grace: 150s", "  grace: 151s"))
    assert other["diff"] == ["eviction.grace: 150s → 151s"]
    assert other["sentences"] == ["No job would become evictable, leave, start or stop at once."]
    broken = task_result(log_writer, "plan-policy", yaml=text.replace("priority_classes:", "priority_clases:"))
    assert any("did you mean priority_classes?" in each["detail"] for each in broken["errors"])
    without = task_result(log_writer, "plan-policy", yaml=text.replace("- name: speech", "- name: spoken"))
    assert without["sentences"][0].startswith("It would be rejected: job 'train-8' is in the project 'speech'")


def test_policy_plan_says_what_does_not_add_up_in_the_quotas(log_writer: LogWriter) -> None:
    policy = yaml.safe_load(policy_text(log_writer))
    policy["projects"][0] |= {"quota": {"gpus": 99}, "limit": {"gpus": 3}}
    planned = task_result(log_writer, "plan-policy", yaml=yaml.safe_dump(policy))
    assert any("has a GPU limit below its quota: it can use 3 GPUs of 99 GPUs" in each for each in planned["sentences"])
    assert any("they cannot all be satisfied at once" in each for each in planned["sentences"])


def test_preview_time_may_be_later_than_the_state(log_writer: LogWriter) -> None:
    late = dataclasses.replace(log_writer.state)
    log_writer.after(90 * SECOND)
    found = previewed(log_writer, "pause", job="train-7")
    assert "since its start 11m30s ago" in preview_text(found)
    assert late.now == log_writer.state.now


def evicting() -> Story:
    """low is evicted for high, whose resources are reserved."""
    return play("node n1: 8 gpus; runs low: 8 gpus; +1m; submit high: inference, 8 gpus; propose")


def foreseen(story: Story, body: JobChange) -> Preview:
    return preview(story.state, Requester("ada"), body, story.state.now)


@pytest.mark.parametrize("body", [CancelJob(job="high"), PauseJob(job="high"), EvictJob(job="high")])
def test_a_preemptor_that_goes_says_what_becomes_of_its_victim(body: JobChange) -> None:
    story = evicting()
    assert "low keeps running: its eviction is cancelled." in foreseen(story, body).sentences
    story.begin("low")
    assert "low keeps running, if its nodes can still withdraw the eviction notice." in foreseen(story, body).sentences
    story.staged("low", "term_sent")
    found = foreseen(story, body)
    assert "Too late for low: it was already told to stop; it resumes later." in found.sentences
    assert not any("keeps running" in text or "become free" in text for text in found.sentences)


def test_a_victim_that_is_cancelled_leaves_its_resources_to_its_preemptor() -> None:
    found = foreseen(evicting(), CancelJob(job="low"))
    assert "Its resources (8 GPUs) are reserved for high already." in found.sentences
    assert not found.affected


@pytest.mark.parametrize("body", [CancelJob(job="short"), PauseJob(job="short"), EvictJob(job="short")])
def test_a_job_that_runs_already_gets_more_tasks_and_does_not_start(body: JobChange) -> None:
    story = play("node n1: 8 gpus; runs short: 4 gpus; runs wide: 8 x 1 gpu, min 4")
    found = foreseen(story, body)
    assert "With its resources (4 GPUs), wide (n1) can get more tasks." in found.sentences
    assert [(row["job"], row["effect"]) for row in found.affected] == [("short", "evicted"), ("wide", "grows")]
    assert not any("can start" in text for text in found.sentences)


def test_an_undrained_node_grows_a_job_that_runs_already() -> None:
    story = play("node n1: 4 gpus; node n2: 4 gpus; drain n2; runs wide: 8 x 1 gpu, min 4")
    found = preview(story.state, Requester("ada"), UndrainNode(node="n2"), story.state.now)
    assert found.sentences[-1] == "Now wide (n2) can get more tasks."


def test_a_policy_without_the_users_key_is_said_to_lock_the_user_out(log_writer: LogWriter) -> None:
    text = policy_text(log_writer)
    rules = policy_in_force(log_writer.state)["policy"]
    rules["identity"] = {"keys": {"a" * 43: "ada"}, "operators": ["ada"]}
    log_writer.cycle(facts.PolicyApplied(policy=policy_in(yaml.safe_dump(rules))[0].complete()))
    found = task_result(log_writer, "plan-policy", yaml=text, requester={"actor": "ada", "auth": "signed"})
    assert found["harms"]
    assert found["loses_permissions"]
    assert found["sentences"][0] == "You could no longer sign requests, as it names no key of yours."
    other = task_result(log_writer, "plan-policy", yaml=text, requester={"actor": "bob", "auth": "acl"})
    assert not other["harms"]
    assert not other["loses_permissions"]
