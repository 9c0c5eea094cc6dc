"""What a request would cause, said before it is sent: each verb in its story."""

import dataclasses
from typing import Any

import pytest
import yaml
from tests.unit.client.kit import MINUTE, SECOND, Scribe, request_id
from tests.unit.console.acting.kit import story, thought

from bailiff.present.policy import policy_in_force
from bailiff.problem import Problem
from bailiff_bus.messages import RequestBody
from bailiff_console.acting.kinds import KINDS
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records import facts


def previewed(scribe: Scribe, kind: str, **fields: Any) -> Any:
    body: RequestBody = KINDS[kind].model_validate(fields)
    before = state_digest(scribe.pool)
    found = thought(scribe, "preview", kind=kind, body=body.model_dump_json())
    assert state_digest(scribe.pool) == before  # to look is to change nothing
    return found


def said(found: Any) -> str:
    return " ".join(found["sentences"])


def whom(found: Any) -> list[tuple[str, str, list[str]]]:
    return [(row["job"], row["what"], row["to"]) for row in found["affected"]]


def saves(scribe: Scribe, job: str, step: int) -> None:
    """It listens for notices, and says that it has saved."""
    at = scribe._at(job, 0)
    checkpoint = facts.Checkpoint(step=step, bytes=1, microseconds=1, sha256="0" * 64)
    scribe.turn(facts.TaskProgressed(**at, step=step, attached=True, checkpoint=checkpoint))


@pytest.fixture
def scribe() -> Scribe:
    return story()


def test_a_pause_says_what_is_lost_who_gets_the_room_and_how_it_comes_back(scribe: Scribe) -> None:
    found = previewed(scribe, "pause", job="train-7", reason="bad data")
    assert found["sentences"] == [
        "train-7 is told to save its state and to leave gpu-01. It has 2m30s; what still runs then is killed.",
        (
            "It does not listen for notices: it loses what it did since its start 10m ago, 44.0 GPU-min at most. "
            "No checkpoint of it is known."
        ),
        "Its room (4 GPUs) lets train-9 (gpu-01) start.",
        "train-7 is set aside until somebody resumes it. Then it waits in the queue again, at its old place.",
    ]
    assert whom(found) == [("train-7", "leaves", []), ("train-9", "starts", ["gpu-01"])]
    row = found["affected"][0]
    assert (row["gpus"], row["grace_s"], row["tasks"], row["priority_class"]) == ("4", 150, "0", "train")
    assert row["lost_gpu_ms"] > 40 * 60_000
    assert found["faults"] == []


def test_who_listens_saves_first(scribe: Scribe) -> None:
    saves(scribe, "train-7", 400)
    found = previewed(scribe.after(MINUTE), "pause", job="train-7")
    assert "It listens for notices, so it saves first." in said(found)
    assert "since its last checkpoint 1m ago" in said(found)


def test_a_pause_of_a_job_that_waits_costs_nothing(scribe: Scribe) -> None:
    found = previewed(scribe, "pause", job="train-9")
    assert "leaves the queue, and nobody loses work" in said(found)
    assert found["affected"] == []


def test_where_nobody_waits_the_room_is_said_to_be_free(scribe: Scribe) -> None:
    scribe.turn(facts.JobCancelled(request=request_id("train-9", "x"), job="train-9"))
    assert "nobody starts because of that: 4 GPUs become free" in said(previewed(scribe, "evict", job="train-7"))


def test_an_eviction_says_where_it_goes_back_to(scribe: Scribe) -> None:
    found = previewed(scribe, "evict", job="train-7")
    assert "It goes back to the queue" in said(found)
    assert whom(found)[0] == ("train-7", "leaves", [])


def test_a_cancel_is_for_good(scribe: Scribe) -> None:
    found = previewed(scribe, "cancel", job="train-7")
    assert found["sentences"][-1] == "train-7 ends for good. What is on record about it stays."
    assert ("train-9", "starts", ["gpu-01"]) in whom(found)
    assert "leaves the queue at once" in said(previewed(scribe, "cancel", job="train-9"))


def test_a_migration_says_where_to(scribe: Scribe) -> None:
    scribe.node("gpu-03", gpus=8)
    scribe.start("train-9")
    found = previewed(scribe, "migrate", job="train-7", node="gpu-03")
    assert said(found).startswith("A place is kept for train-7 on gpu-03; nobody is displaced for it.")
    assert whom(found) == [("train-7", "moves", ["gpu-03"])]
    assert previewed(scribe, "migrate", job="train-7", node="gpu-02")["faults"][0]["text"].startswith(
        "train-7 stays where it is: "
    )


def test_a_drain_says_of_each_job_where_it_goes(scribe: Scribe) -> None:
    saves(scribe, "train-7", 10)
    scribe.node("gpu-03", gpus=8)
    scribe.start("train-9")
    found = previewed(scribe, "drain", node="gpu-01", mode="graceful", deadline=30 * MINUTE)
    assert found["sentences"][0].startswith(
        "gpu-01 gets nothing new; its jobs move where there is room, and the others may finish"
    )
    assert "within 30m" in found["sentences"][0]
    assert "train-7 (4 GPUs) moves to gpu-03" in said(found)
    assert whom(found) == [("train-7", "moves", ["gpu-03"])]
    quick = previewed(scribe, "drain", node="gpu-02", mode="quick")
    assert "train-8 (4 GPUs) goes back to the queue, with 150 s to save, and loses" in said(quick)
    scribe.node("gpu-04")
    assert "empty at once" in said(previewed(scribe, "drain", node="gpu-04"))


def test_an_undrain_says_who_can_start(scribe: Scribe) -> None:
    scribe.turn(facts.NodeDrained(request=request_id("drain"), node="gpu-01"))
    assert previewed(scribe, "undrain", node="gpu-02")["faults"][0]["text"].endswith("there is nothing to take back")
    assert said(previewed(scribe, "undrain", node="gpu-01")).startswith("gpu-01 takes work again.")


def test_a_resume_says_whether_it_starts(scribe: Scribe) -> None:
    scribe.turn(facts.JobPaused(request=request_id("pause"), job="train-9"))
    found = previewed(scribe, "resume", job="train-9")
    assert "As things are it waits" in said(found)
    scribe.node("gpu-03")
    assert "As things are it starts at once, on gpu-03." in said(previewed(scribe, "resume", job="train-9"))


def test_another_size_says_who_leaves_and_who_starts(scribe: Scribe) -> None:
    scribe.node("gpu-03", gpus=8)
    scribe.start("train-9")
    scribe.submit("many", gpus=1, tasks=4, min_tasks=1, project="vision")
    scribe.start("many")
    fewer = previewed(scribe, "scale", job="many", tasks=2)
    assert "Its 2 tasks 2-3 are told to leave" in said(fewer)
    assert ("many", "shrinks", []) in whom(fewer)
    assert "train-9" not in said(fewer)
    assert "as things are there is none" in said(previewed(scribe, "scale", job="many", tasks=6))
    scribe.node("gpu-04", gpus=4)
    assert "More of its tasks start on gpu-04." in said(previewed(scribe, "scale", job="many", tasks=6))
    assert previewed(scribe, "scale", job="many", tasks=2, group=3)["faults"]
    assert previewed(scribe, "scale", job="many", tasks=2, min_tasks=5)["faults"]


def test_another_class_says_whom_it_would_displace(scribe: Scribe) -> None:
    found = previewed(scribe, "set", job="train-9", priority_class="inference")
    assert found["sentences"][0].startswith("train-9 waits as inference (priority 125) instead of train")
    assert "it displaces train-8, and starts on gpu-02 when they have left" in said(found)
    ((job, what, _),) = whom(found)
    assert (job, what) == ("train-8", "leaves")  # of its own project
    assert (
        "there is no priority class 'gold'" in previewed(scribe, "set", job="train-9", priority_class="gold")["faults"][0]["text"]
    )


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("resume", {"job": "train-7"}, "not paused"),
        ("migrate", {"job": "train-9"}, "only a job that runs can move"),
        ("evict", {"job": "train-9"}, "no place that it could leave"),
        ("set", {"job": "train-7", "priority_class": "inference"}, "only be changed while it waits"),
    ],
)
def test_what_would_be_refused_is_said_to_be(scribe: Scribe, kind: str, fields: dict[str, Any], why: str) -> None:
    found = previewed(scribe, kind, **fields)
    assert why in found["faults"][0]["text"]
    assert found["sentences"] == []


def test_a_job_or_node_that_is_not_there_is_a_problem(scribe: Scribe) -> None:
    for kind in KINDS:
        about = {"node": "nowhere"} if kind in ("drain", "undrain") else {"job": "nobody"}
        more = {"scale": {"tasks": 2}, "set": {"priority_class": "train"}}.get(kind, {})
        with pytest.raises(Problem, match=r"there is no (job 'nobody'|node 'nowhere') in pool-a"):
            previewed(scribe, kind, **about, **more)


def test_one_that_has_ended_or_is_cancelled_has_no_preview(scribe: Scribe) -> None:
    scribe.finish("train-8")
    assert previewed(scribe, "pause", job="train-8")["faults"][0]["text"] == "train-8 has succeeded already"
    scribe.turn(facts.JobCancelled(request=request_id("c"), job="train-7"))
    assert previewed(scribe, "pause", job="train-7")["faults"][0]["text"] == "train-7 is cancelled"


def test_within_a_turn_it_is_looked_at_as_if_that_was_over(scribe: Scribe) -> None:
    scribe.pool.turn_open = True
    body = KINDS["pause"].model_validate({"job": "train-7"}).model_dump_json()
    assert thought(scribe, "preview", kind="pause", body=body)["sentences"]


# --- jobs and policies that nobody has submitted yet

JOB = "name: new\nclass: inference\nproject: vision\ngpus: 4\ncommand: serve\n"


def test_a_job_is_planned_in_sentences_and_as_data(scribe: Scribe) -> None:
    found = thought(scribe, "plan", yaml=JOB, project=None)
    assert found["faults"] == []
    assert found["answer"]["outcome"] == "displaces"
    assert found["demand"] == "4 GPUs" or "4 GPU" in found["demand"]
    assert found["project"] == "vision"
    assert any("for it must leave" in each for each in found["sentences"])
    shown = thought(scribe, "preview", kind="submit", yaml=JOB, project=None)
    assert [row["what"] for row in shown["affected"]] == ["leaves"]


def test_every_fault_in_a_job_is_told_with_line_and_field(scribe: Scribe) -> None:
    text = "name: NEW\ngpu: 4\nmemory: lots\nsub-groups:\n  - nam: x\ncommand: x\n"
    found = thought(scribe, "plan", yaml=text, project=None)
    places = {(each["line"], each["field"]) for each in found["faults"]}
    assert {(1, "name"), (2, "gpu"), (3, "memory")} <= places
    assert next(each["text"] for each in found["faults"] if each["line"] == 2) == "no such field; did you mean gpus?"
    assert thought(scribe, "plan", yaml="a: [", project=None)["faults"][0]["line"] >= 1
    assert thought(scribe, "preview", kind="submit", yaml="- x", project=None)["faults"][0]["text"].startswith(
        "expected the fields"
    )


def test_a_project_that_is_ones_only_one_goes_without_saying(scribe: Scribe) -> None:
    found = thought(scribe, "job", yaml="gpus: 1\ncommand: python train.py\n", project="speech")
    assert found["project"] == "speech"
    assert '"project":"speech"' in found["job"]
    assert '"job":"train-' in found["job"]


def test_a_job_that_would_be_rejected_says_so_beforehand(scribe: Scribe) -> None:
    shown = thought(scribe, "preview", kind="submit", yaml=JOB.replace("inference", "gold"), project=None)
    assert "there is no priority class 'gold'" in shown["faults"][0]["text"]


def policy_text(scribe: Scribe) -> str:
    return yaml.safe_dump(policy_in_force(scribe.pool)["policy"], sort_keys=False)


def test_a_policy_is_compared_and_tried(scribe: Scribe) -> None:
    text = policy_text(scribe)
    same = thought(scribe, "plan-policy", yaml=text)
    assert (same["faults"], same["diff"], same["sentences"]) == ([], [], ["It says what is in force: nothing would change."])
    other = thought(scribe, "plan-policy", yaml=text.replace("  grace: 150s", "  grace: 151s"))
    assert other["diff"] == ["eviction.grace: 150s → 151s"]
    assert other["sentences"] == ["As things are it starts and stops nobody at once."]
    broken = thought(scribe, "plan-policy", yaml=text.replace("priority_classes:", "priority_clases:"))
    assert any("did you mean priority_classes?" in each["text"] for each in broken["faults"])
    without = thought(scribe, "plan-policy", yaml=text.replace("- name: speech", "- name: spoken"))
    assert without["sentences"][0].startswith("It would be refused: job train-8 is of the project speech")


def test_the_pool_that_is_asked_about_may_be_a_moment_behind(scribe: Scribe) -> None:
    late = dataclasses.replace(scribe.pool)
    scribe.after(90 * SECOND)
    found = previewed(scribe, "pause", job="train-7")
    assert "since its start 11m30s ago" in said(found)
    assert late.now == scribe.pool.now
