"""Explanations of jobs: why pending, why evicted, when resumed; every sentence names the records that prove it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy

from bailiff_core.explain import Section, condition_of, explain_job, explain_record
from bailiff_core.explain.job_state import end_reason
from bailiff_core.explain.sentences import clock
from bailiff_core.model.demand import TaskGroup
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.node_requests import CORDONED
from bailiff_core.records.subjects import jobs_of


def explained(story: Story, job: str) -> dict[str, list[str]]:
    """The sentences by question; each names records, of the log only."""
    sections = explain_job(story.state, story.job(job), history_of(story, job))
    assert all(sentence.seqs for section in sections for sentence in section.sentences)
    return texts_by_question(sections, len(story.records))


def history_of(story: Story, job: str) -> list[Record]:
    answered = {
        record.data.request
        for record in story.records
        if isinstance(record.data, decisions.PreemptionDecided | decisions.PreemptionRefused) and job in jobs_of(record)
    }
    return [record for record in story.records if job in jobs_of(record) or record.seq in answered]


def texts_by_question(sections: Sequence[Section], records: int) -> dict[str, list[str]]:
    for section in sections:
        assert section.sentences, section.question
        for sentence in section.sentences:
            assert sentence.text.endswith("."), sentence
            assert ".." not in sentence.text, sentence
            assert all(0 <= seq < records for seq in sentence.seqs)
    return {section.question: [sentence.text for sentence in section.sentences] for section in sections}


def says(sentences: Sequence[str], part: str) -> bool:
    return any(part in sentence for sentence in sentences)


@pytest.fixture
def story() -> Story:
    """low runs for five minutes on all eight GPUs; high needs four and may take them."""
    story = Story(
        policy(
            protections={
                "cooldown": {"job": "5m"},
                "min_runtime": {"preempt": "1m"},
                "eviction_cap": {"evictions": 3, "window": "1h"},
            }
        )
    )
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=4, cls="inference", after=5 * MINUTE)
    story.propose()
    return story


def test_a_victim_names_its_preemptor_the_rule_and_the_cost(story: Story) -> None:
    found = explained(story, "low")
    assert found["What is its state?"] == ["low (train 50) is being evicted for high, with 2m30s of grace."]
    why = found["Why was it evicted?"]
    assert says(why, "high was unschedulable: ")
    assert says(why, "was preempted by high (inference 125), action preempt: inference 125 has higher priority than ")
    assert says(why, "(rule lower-priority-only)")
    assert says(why, "Its loss when it was selected: 40.0 GPU-min of work and 8.0 GPU-min to restart (assumed)")
    assert says(why, "Victim selection claims that this is proven: no permitted set is cheaper.")


def test_the_records_named_are_the_decision_and_the_request(story: Story) -> None:
    sections = explain_job(story.state, story.job("low"), history_of(story, "low"))
    sentence = next(each for section in sections for each in section.sentences if "preempted by" in each.text)
    kinds = [type(story.records[seq].data) for seq in sentence.seqs]
    assert kinds == [decisions.PreemptionDecided, decisions.PreemptionRequested]


def test_a_victim_names_its_expected_resumption_and_its_protection(story: Story) -> None:
    back = explained(story, "low")["When does it resume, and what protects it then?"]
    assert back[0] == "It is requeued at its old position within 2m30s of its eviction notice."
    assert "Rule cooldown: it is protected for 5m once it runs again (protections.cooldown.job)." in back
    assert "Rule min-runtime: it is protected from preempt for 1m after each start (protections.min_runtime)." in back
    story.yields("low", after=5 * SECOND)
    story.started("high")
    back = explained(story, "low")["When does it resume, and what protects it then?"]
    assert says(back, "00:05:05, at its old position; it lost 40.7 GPU-min of work and 8.0 GPU-min to restart (assumed).")
    story.ends("high", after=MINUTE)
    assert says(
        explained(story, "low")["When does it resume, and what protects it then?"],
        "It was placed again at 01-01 00:06:05, 1m05s after",
    )


def test_a_preemptor_names_its_victims(story: Story) -> None:
    found = explained(story, "high")
    assert says(found["What is its state?"], "high (inference 125) has resources reserved on n1 until ")
    assert says(found["What is its state?"], "it starts when low has exited.")
    assert says(found["Which jobs did it preempt?"], "low was preempted by high (inference 125), action preempt.")
    assert says(
        found["Which jobs did it preempt?"],
        "The freed resources are reserved for high until it starts or ends, at the latest until ",
    )


def test_a_refused_preemptor_names_the_rules_and_the_nearest_alternative() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("fixed", gpus=8, preemptible=False)
    story.runs("low", gpus=0)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    found = explained(story, "high")
    assert says(found["What is its state?"], "has been pending since 01-01 00:01:00, first in the queue.")
    assert says(found["Why is it pending?"], "As of ")
    assert says(
        found["Why is it pending?"],
        "preemption for high was refused: no permitted set of victims is sufficient, "
        "which victim selection claims to have proven.",
    )
    assert says(found["Why is it pending?"], "Rule not-preemptible protected 1 job (fixed): it is not preemptible.")
    assert says(found["What would unblock it?"], "What it lacked: ")
    assert says(found["What would unblock it?"], "Its next preemption request is possible from ")


def test_actions_that_the_policy_disables_are_named() -> None:
    story = Story(policy(preemption={"actions": ["allocate"]}))
    story.node("n1", gpus=1)
    story.runs("first", gpus=1)
    story.submit("second", gpus=1, cls="inference")
    assert (
        "The policy disables reclaim and preempt in this pool (policy field preemption.actions)."
        in explained(story, "second")["Why is it pending?"]
    )


QUOTAS = [{"name": "a", "quota": {"gpus": 4}, "limit": {"gpus": 6}}, {"name": "b", "quota": {"gpus": 4}}]


def test_a_project_at_its_limit_is_the_reason_as_things_are() -> None:
    story = Story(policy(projects=QUOTAS))
    story.node("n1", gpus=8)
    story.runs("a1", gpus=4, project="a")
    story.submit("a2", gpus=4, project="a")
    why = explained(story, "a2")["Why is it pending?"]
    assert says(why, "Currently: ")
    assert says(why, "limit")


def test_a_job_above_its_fair_share_names_why_it_may_not_reclaim() -> None:
    story = Story(policy(projects=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=8)
    story.runs("a1", gpus=4, project="a")
    story.runs("b1", gpus=4, project="b")
    story.submit("a2", gpus=2, project="a")
    assert says(
        explained(story, "a2")["Why is it pending?"], "It may not reclaim: project a would use 6 of its fair share of 4 GPUs"
    )


def test_a_delay_and_a_dropped_reservation_are_named() -> None:
    late = [{"name": "web", "value": 90, "preemptible": True, "start_slo": {"p95": "30s"}}]
    classes = [*policy().model_dump(mode="json")["priority_classes"], *late]
    story = Story(policy(priority_classes=classes, protections={"preemption_delay": "5m"}))
    story.node("n1", gpus=1)
    story.runs("first", gpus=1)
    story.submit("second", gpus=1, cls="web")
    story.wait(2 * MINUTE)
    story.submit("third", gpus=1)
    why = explained(story, "second")["Why is it pending?"]
    assert "Start SLO of its class: 95% of jobs start within 30s; it is late by 1m30s." in why
    assert "It may not preempt before 01-01 00:05:00 (rule preemption-delay, policy field protections.preemption_delay)." in why


def test_an_elastic_job_names_why_tasks_are_missing() -> None:
    story = Story()
    story.node("n1", gpus=3)
    story.runs("elastic", gpus=1, tasks=4, min_tasks=2)
    found = explained(story, "elastic")
    assert found["What is its state?"] == [
        "elastic (train 50) has been running since 01-01 00:00:00 on n1 as attempt 1, 3 of 4 tasks (at least 2)."
    ]
    assert says(found["Why are some of its tasks pending?"], "Currently: ")


def test_explaining_changes_nothing(story: Story) -> None:
    from bailiff_core.fold.snapshot import state_digest

    before = state_digest(story.state)
    for job in list(story.state.jobs):
        explained(story, job)
    assert state_digest(story.state) == before


def test_a_job_that_ended_or_runs_says_so_and_no_more() -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.runs("short", gpus=1)
    assert explained(story, "short") == {
        "What is its state?": ["short (train 50) has been running since 01-01 00:00:00 on n1 as attempt 1."]
    }
    story.ends("short")
    assert explained(story, "short") == {"What is its state?": ["short (train 50) ended at 01-01 00:00:00: succeeded."]}


def test_a_cancelled_eviction_is_distinct_from_a_preemption() -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.runs("job", gpus=1)
    story.cancel("job")
    told = explained(story, "job")
    assert says(told["Why was it cancelled?"], "it was cancelled")
    assert "evict" not in told["What is its state?"][0]
    assert "When does it resume, and what protects it then?" not in told


def test_a_failed_attempt_says_which_task_ended_how_while_the_job_waits_and_runs_again() -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.runs("job", gpus=1, max_failures=3)
    story.ends("job", 127)
    failed = "Its attempt 1 failed: task 0 ended with exit code 127 (a program was not found)"
    assert says(explained(story, "job")["What is its state?"], failed)
    assert says(explained(story, "job")["What is its state?"], "Its output: bailiff logs job.")


def test_a_reclaimed_job_names_the_projects_and_its_surplus() -> None:
    story = Story(policy(projects=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=8)
    story.runs("a1", gpus=1, tasks=8, min_tasks=4, project="a")
    story.submit("b1", gpus=4, project="b", after=MINUTE)
    story.propose()
    why = explained(story, "a1")["Why were some of its tasks evicted?"]
    assert says(
        why, "its tasks 4-7 were preempted by b1 (train 50, project b), action reclaim: project a is above its fair share"
    )
    assert says(
        explained(story, "b1")["Which jobs did it preempt?"],
        "Only surplus tasks are evicted; the jobs keep their other tasks: a1 (4-7).",
    )


def test_a_job_that_shrank_names_the_record_that_placed_it() -> None:
    story = Story(policy(projects=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=8)
    story.runs("a1", gpus=1, tasks=8, min_tasks=4, project="a")
    story.submit("b1", gpus=4, project="b", after=MINUTE)
    story.propose()
    story.yields("a1")
    (standing,) = explain_job(story.state, story.job("a1"), history_of(story, "a1"))[0].sentences
    assert [type(story.records[seq].data) for seq in standing.seqs] == [decisions.JobPlaced]
    assert "4 of 8 tasks (at least 4)" in standing.text


def test_a_relocated_job_names_its_reservation() -> None:
    story = Story(policy(preemption={"max_migrations": None}))
    story.node("n1", gpus=4)
    story.node("n2", gpus=4)
    story.runs("filler", gpus=2)
    story.runs("beside", gpus=2)
    story.runs("mover", gpus=1)
    story.ends("beside")
    story.submit("wide", gpus=4, after=MINUTE)
    story.propose()
    found = next(story.decisions("PreemptionDecided"))
    assert (found.action, [choice.job for choice in found.victims]) == ("consolidate", ["mover"])
    why = explained(story, "mover")["Why was it evicted?"]
    assert says(why, "action consolidate: relocating it makes the preemptor fit")
    assert says(why, "It is relocated, not stopped: resources on 1 node are reserved for it.")
    assert says(explained(story, "wide")["Which jobs did it preempt?"], "Relocated, not stopped: mover.")


# --- one decision

PREEMPTOR = {"job": "b1", "class_name": "train", "priority": 50, "project": "b"}
VICTIM = {"job": "a1", "attempt": 1, "priority": 60, "gpus": 4, "lost_gpu_ms": 120_000, "class_name": "train", "project": "a"}


def decided(victims: list[dict[str, object]], **more: object) -> Record:
    data = {
        "request": 7,
        "preemptor": PREEMPTOR,
        "attempt": 1,
        "victims": victims,
        "graces": [30 * SECOND] * len(victims),
        "placement": [],
        "expires": 0,
        "explanation": {},
        **more,
    }
    return record(decisions.PreemptionDecided.model_validate_json(json.dumps(data)))


def record(data: decisions.PreemptionDecided | facts.ClockAdvanced) -> Record:
    return Record("p", 9, 1, 1, True, 0, "", "w", "e", 1, data.type_name(), data)


def test_reclaim_is_explained_by_projects_and_not_by_priority() -> None:
    (section,) = explain_record(decided([VICTIM], action="reclaim"))
    sentences = [sentence.text for sentence in section.sentences]
    assert says(sentences, "project a is above its fair share and project b below its own, regardless of priority")
    assert not says(sentences, "has higher priority than")


def test_costs_runner_up_bound_and_rules_are_all_named() -> None:
    cost = {"classes": [{"priority": 60, "gpu_milli": 4000}], "lost_gpu_ms": 120_000, "jobs_stopped": 1, "tasks": 4}
    why = {
        "candidates": 3,
        "steps": 500,
        "proven": False,
        "cost": cost,
        "lower_bound": {**cost, "lost_gpu_ms": 60_000},
        "runner_up": ["a2", "a3"],
        "runner_up_cost": {**cost, "lost_gpu_ms": 180_000, "jobs_stopped": 2, "fragmented_nodes": 1},
        "excluded": [{"rule": "not-preemptible", "jobs": 7, "examples": ["x1", "x2"]}, {"rule": "of-the-future", "jobs": 1}],
    }
    sentences = [sentence.text for sentence in explain_record(decided([VICTIM], explanation=why))[0].sentences]
    assert says(
        sentences,
        "costs 4 GPUs of priority 60, 2.0 GPU-min of work lost and restarts, 1 job stopped, 4 tasks. "
        "It is the cheapest set found in 500 steps",
    )
    assert says(sentences, "not proven; no set costs less than 4 GPUs of priority 60, 1.0 GPU-min of work lost and restarts")
    assert says(
        sentences,
        "The runner-up was a2, a3, which costs 4 GPUs of priority 60, 3.0 GPU-min of work lost and restarts, 2 jobs stopped",
    )
    assert "3 jobs could have been preempted." in sentences
    assert "Rule not-preemptible protected 7 jobs (x1, x2 and 5 more): each is not preemptible." in sentences
    assert "Rule of-the-future protected 1 job: it is protected by it." in sentences


@pytest.mark.parametrize(
    ("second", "decides"),
    [
        ({"lost_gpu_ms": 120_000, "tasks": 5}, "differ decides: tasks, 5 against 4 of the chosen set."),
        (
            {"lost_gpu_ms": 120_400, "tasks": 4},
            "work lost and restarts, 120.400 GPU-s against 120.000 GPU-s of the chosen set.",
        ),
        ({"lost_gpu_ms": 120_000, "tasks": 4}, "Both cost the same; of such sets the one with the job that was submitted last"),
        ({"lost_gpu_ms": 60_000, "tasks": 4}, "1 job stopped, 4 tasks."),
    ],
)
def test_why_the_second_best_is_second(second: dict[str, int], decides: str) -> None:
    """By the first level that differs, exactly where rounded amounts look alike. Nothing, where promises decided."""
    cost = {"classes": [{"priority": 60, "gpu_milli": 4000}], "lost_gpu_ms": 120_000, "jobs_stopped": 1, "tasks": 4}
    why = {"proven": True, "cost": cost, "runner_up": ["a2"], "runner_up_cost": {**cost, **second}}
    texts_by_question = next(
        each.text for each in explain_record(decided([VICTIM], explanation=why))[0].sentences if "The runner-up" in each.text
    )
    assert decides in texts_by_question
    if second["lost_gpu_ms"] < cost["lost_gpu_ms"]:  # type: ignore[operator]
        assert texts_by_question.endswith(decides)


def test_relocations_surplus_and_cancelled_evictions_are_distinct() -> None:
    victims = [{**VICTIM, "moved_to": [{"node": 1, "tasks": "0", "devices": "0"}]}, {**VICTIM, "job": "a2", "tasks": "4-5"}]
    sentences = [
        sentence.text
        for sentence in explain_record(
            decided(victims, action="consolidate", cancelled_evictions=["a4"], unneeded_victims=["a5"])
        )[0].sentences
    ]
    assert "Relocated, not stopped: a1." in sentences
    assert "Only surplus tasks are evicted; the jobs keep their other tasks: a2 (4-5)." in sentences
    assert "Evictions cancelled, as their resources are not needed: a4." in sentences
    assert "Proposed, but no longer needed: a5." in sentences


def test_a_record_that_decides_nothing_has_no_explanation() -> None:
    assert explain_record(record(facts.ClockAdvanced())) == []


def test_the_condition_names_preemptor_and_trigger() -> None:
    data = decided([VICTIM], action="preempt").data
    assert isinstance(data, decisions.PreemptionDecided)
    found = condition_of(data, data.victims[0], "needs 4 GPUs")
    assert (found.type, found.status, found.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
    assert "to accommodate b1, by preempt" in found.message
    assert found.message.endswith("trigger: needs 4 GPUs")


def test_a_victim_names_how_its_eviction_ended(tell: Callable[..., Story]) -> None:
    story = tell()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    story.begin("low")
    at = story.at("low", 0)
    saved = facts.Checkpoint(step=7, bytes=256 << 20, duration=2 * SECOND, sha256="0" * 64)
    for stage in (
        facts.EvictionStageReached(**at, stage="noticed", attached=True),
        facts.EvictionStageReached(**at, stage="acknowledged", step=6, elapsed=SECOND),
        facts.EvictionStageReached(**at, stage="checkpoint_committed", checkpoint=saved, elapsed=4 * SECOND),
        facts.EvictionStageReached(**at, stage="term_sent", stuck_in="checkpoint_committed", elapsed=120 * SECOND),
    ):
        story.cycle(stage)
    story.ends("low", -9, after=MINUTE)
    (how,) = explained(story, "low")["How did the eviction proceed?"]
    assert how == (
        "Task 0 was notified at 01-01 00:01:00: notice acknowledged at step 6 1s later, "
        "checkpoint saved at step 7 (256MiB in 2s) 4s later, TERM sent (checkpoint saved but did not exit) "
        "2m later, exited 2m later by signal 9 (SIGKILL) and released its resources 2m later."
    )


def test_a_job_that_never_subscribed_to_notices_is_killed_for_ignoring_term() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    story.begin("low")
    at = story.at("low", 0)
    story.cycle(facts.EvictionStageReached(**at, stage="noticed"))
    story.cycle(facts.EvictionStageReached(**at, stage="term_sent"))
    story.cycle(facts.EvictionStageReached(**at, stage="kill_sent", stuck_in="noticed", elapsed=30 * SECOND))
    (how,) = explained(story, "low")["How did the eviction proceed?"]
    assert "without ever having subscribed to eviction notices" in how
    assert "TERM sent 0ms later and KILL sent (did not exit on TERM) 30s later" in how
    assert "never acknowledged" not in how


def test_later_records_are_not_attributed_to_its_eviction() -> None:
    """It leaves for high, is back, fails, and is back once more."""
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4, max_failures=1)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    story.yields("low")
    story.started("high")
    story.ends("high", after=MINUTE)
    story.started("low")
    story.cycle(facts.TaskResumed(**story.at("low", 0), step=7, from_attempt=1))
    story.ends("low", 3, after=MINUTE)
    story.wait(5 * SECOND)
    story.started("low")
    story.cycle(facts.TaskResumed(**story.at("low", 0), step=7, from_attempt=1, steps_lost=4))
    found = explained(story, "low")
    assert "exited 0ms later with code 85" in found["How did the eviction proceed?"][0]
    assert found["How did the eviction proceed?"][0].count("resumed at step") == 1
    back = found["When does it resume, and what protects it then?"]
    assert back[:4] == [
        (
            "It was requeued at 01-01 00:01:00, at its old position; "
            "it lost 4.0 GPU-min of work and 4.0 GPU-min to restart (assumed)."
        ),
        "It was placed again at 01-01 00:02:00, 1m after its eviction.",
        (
            "It was requeued again, as its attempt 2 failed, at 01-01 00:03:00, at its old position; it lost "
            "4.0 GPU-min of work and 4.0 GPU-min to restart (assumed)."
        ),
        "It was placed again at 01-01 00:03:02, 2s later.",
    ]


# --- what would free it, and each time it left


def answer_to(story: Story, job: str, question: str) -> str:
    history = [record for record in story.records if job in jobs_of(record)]
    sections = {section.question: section for section in explain_job(story.state, story.job(job), history)}
    return " ".join(each.text for each in sections[question].sentences)


def test_a_pending_job_names_the_expected_free_resources_and_their_time() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("long", gpus=4, run_time_limit=HOUR)
    story.runs("short", gpus=4, run_time_limit=10 * MINUTE)
    story.submit("waits", gpus=6, after=MINUTE)
    texts_by_question = answer_to(story, "waits", "What would unblock it?")
    assert "The first job with a run-time limit to reach it is short, at 01-01 00:10:00, with 4 GPUs." in texts_by_question
    assert "Then long, at 01-01 01:00:00, with 4 GPUs." in texts_by_question
    assert "By run-time limits alone it fits at 01-01 01:00:00 at the latest, in 59m" in texts_by_question


def test_a_job_pending_on_jobs_without_a_time_limit_names_them() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("endless", gpus=8)
    story.submit("waits", gpus=6, after=MINUTE)
    texts_by_question = answer_to(story, "waits", "What would unblock it?")
    assert "that depends on jobs without a run-time limit: endless" in texts_by_question


def test_a_job_without_a_refusal_counts_the_jobs_that_could_be_preempted_for_it() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="inference", after=MINUTE)
    assert "Under preempt, 1 job could have been preempted." in answer_to(story, "high", "Why is it pending?")


@pytest.mark.parametrize(
    ("protections", "sentences"),
    [
        (
            {"min_runtime": {"preempt": "10m", "reclaim": "20m"}},
            [
                "Rule min-runtime protects low from reclaim until 01-01 00:20:00, for another 19m.",
                "Rule min-runtime protects low from preempt until 01-01 00:10:00, for another 9m.",
            ],
        ),
        (
            {"min_runtime": {"preempt": "10m"}},
            ["Rule min-runtime protects low from preempt until 01-01 00:10:00, for another 9m."],
        ),
        (
            {"min_runtime": {"preempt": "10m", "reclaim": "10m"}},
            ["Rule min-runtime protects low from reclaim and preempt until 01-01 00:10:00, for another 9m."],
        ),
    ],
)
def test_until_when_a_rule_protects_is_said_with_the_actions_that_it_protects_from(
    protections: dict[str, Any], sentences: list[str]
) -> None:
    projects = [{"name": "a"}, {"name": "b", "quota": {"gpu_milli": 8000}}]
    story = Story(policy(protections=protections, projects=projects, preemption={"scope": "pool"}))
    story.node("n1", gpus=8)
    story.runs("low", gpus=8, project="a")
    story.submit("high", gpus=8, cls="inference", project="b", after=MINUTE)
    found = explained(story, "high")["What would unblock it?"]
    assert [text for text in found if "protects" in text] == sentences


def test_a_set_of_fewer_gpus_and_higher_priority_is_said_to_be_outweighed() -> None:
    classes = [{"name": name, "value": value, "preemptible": True} for name, value in (("a", 10), ("b", 20))]
    hi = {"name": "hi", "value": 30, "preemptible": False, "preemption_policy": "PreemptLowerPriority"}
    story = Story(policy(priority_classes=[{**classes[0], "global_default": True}, classes[1], hi]))
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("wide", gpus=8, cls="a")
    story.runs("small", gpus=1, cls="b")
    story.runs("fill", gpus=7, cls="hi")
    story.submit("top", gpus=1, cls="hi")
    story.propose()
    (why,) = (text for texts in explained(story, "wide").values() for text in texts if "The runner-up was" in text)
    assert why.startswith("The runner-up was small, ")
    assert "GPUs of priority 20, 1 GPU against 0 GPUs of the chosen set; the chosen set takes 8 GPUs" in why
    assert why.endswith("not 1 GPU, but priority outweighs the number of GPUs.")


def test_releasing_resources_reservations_and_unusable_gpus_are_named() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("low", gpus=7)
    story.quarantined("n1", next(iter(bits_free(story))))
    story.submit("high", gpus=6, cls="inference", after=MINUTE)
    story.propose()
    story.submit("waits", gpus=8, after=SECOND)
    story.begin("low", after=SECOND)
    texts_by_question = answer_to(story, "waits", "What would unblock it?")
    assert "Being evicted now: low, with 7 GPUs, for high; its grace ends at " in texts_by_question
    assert "Reserved for high: 6 GPUs, until " in texts_by_question
    assert "1 GPU on n1 cannot be allocated (not-free). Each of them: bailiff node list." in texts_by_question


def bits_free(story: Story) -> list[int]:
    node = story.state.nodes[0]
    return [device.number for device in node.devices if not node.allocated.devices >> device.number & 1]


def test_every_eviction_is_listed() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4)
    for number in range(3):
        story.submit(f"high-{number}", gpus=4, cls="inference", after=HOUR)
        story.propose(after=SECOND)
        story.yields("low", after=10 * SECOND)
        story.started(f"high-{number}", after=SECOND)
        story.ends(f"high-{number}", 0, after=MINUTE)
        story.started("low", after=SECOND)
    assert "high-2" in answer_to(story, "low", "Why was it evicted?")
    for number in (0, 1):
        decided = [record for record in story.records if isinstance(record.data, decisions.PreemptionDecided)]
        at = next(record for record in decided if record.data.preemptor.job == f"high-{number}")
        texts_by_question = answer_to(
            story, "low", f"What happened when it was evicted before that ({number + 1} of 3), at {clock(at.time)}?"
        )
        assert f"preempted by high-{number}" in texts_by_question
        assert "The chosen set costs 4 GPUs of priority 50" in texts_by_question
        assert "TERM sent" in texts_by_question
        assert "It was placed again" in texts_by_question
        assert f"high-{number + 1}" not in texts_by_question


def test_tasks_that_left_one_by_one_are_told_as_one_shrink() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("wide", gpus=1, tasks=8, min_tasks=4)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    for task in (4, 6, 5, 7):
        story.exits("wide", code=85, task=task)
        story.releases("wide", task=task)
    found = [text for texts in explained(story, "wide").values() for text in texts if "running without" in text]
    assert found == ["It has been running without tasks 4-7 since 01-01 00:01:00."]


def test_an_eviction_that_was_cancelled_too_late_is_not_called_cancelled() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="inference", after=MINUTE)
    story.propose()
    story.begin("low")
    story.cancel("high")
    story.cancel_eviction_refused("low")
    story.yields("low")
    found = explained(story, "low")["When does it resume, and what protects it then?"]
    assert says(found, "Its eviction was to be cancelled, but it was too late: it was already told to stop.")
    assert says(found, "It was requeued at")
    assert not says(found, "Its eviction was cancelled")


@pytest.mark.parametrize(
    ("demand", "code", "reason", "failures", "evictions"),
    [
        ({"max_failures": 1}, 3, "task 0 ended with exit code 3; it failed 2 times, and max_failures is 1", 2, 0),
        ({"on_failure": "end"}, 3, "task 0 ended with exit code 3, and on_failure is end", 1, 0),
        ({"max_failures": 0}, 3, "task 0 ended with exit code 3; it failed 1 time, and max_failures is 0", 1, 0),
    ],
)
def test_a_failed_job_names_its_cause_and_counts_its_last_failure(
    demand: dict[str, Any], code: int, reason: str, failures: int, evictions: int
) -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("bad", gpus=4, **demand)
    story.ends("bad", code=code)
    if story.job("bad").phase == "pending":
        story.wait(MINUTE)
        story.started("bad")
        story.ends("bad", code=code)
    job, history = story.job("bad"), story.records
    assert (end_reason(job, history), job.failures, job.evictions) == (reason, failures, evictions)
    assert says(explained(story, "bad")["What is its state?"], f"failed, {reason}.")


def test_a_job_that_ends_with_its_eviction_says_so_and_counts_it() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4, on_eviction="end")
    story.submit("high", gpus=4, cls="inference")
    story.propose()
    story.yields("low")
    job, history = story.job("low"), story.records
    assert (end_reason(job, history), job.failures, job.evictions) == (
        "it was evicted, and on_eviction is end",
        0,
        1,
    )


def test_a_drained_node_among_the_reasons_names_the_command() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.node("n2", gpus=2)
    for name in ("n2", "n1"):
        story.drain(name)
    story.submit("job", gpus=4)
    found = explained(story, "job")["Why is it pending?"]
    assert says(found, "It would fit with n1, which is drained; to place tasks there again: bailiff undrain n1.")


def test_a_drain_that_is_over_is_told_in_the_words_on_record() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("job", gpus=4)
    story.drain("n1", mode="quick", reason="make down")
    story.begin("job")
    story.yields("job")
    story.undrain("n1")
    story.started("job")
    said = [text for texts in explained(story, "job").values() for text in texts]
    assert says(said, "it was evicted: n1 is drained (quick): make down.")
    assert not any("because n1 is drained" in text for text in said)


def test_a_quota_that_is_not_in_force_names_the_nodes_that_do_not_count() -> None:
    story = Story(policy(projects=[{"name": "vision", "quota": {"gpus": 4}}]))
    for name in ("n1", "n2"):
        story.node(name, gpus=2)
    story.drain("n1")
    story.runs("first", gpus=2, project="vision", preemptible=False)
    story.submit("job", gpus=2, project="vision", preemptible=False)
    found = explained(story, "job")["Why is it pending?"]
    assert says(found, "is in force")
    assert says(found, "What there is for quotas leaves out nodes that take no tasks: n1 (drained).")
    story.undrain("n1")
    story.submit("more", gpus=2, project="vision", preemptible=False)
    assert not any("leaves out nodes" in text for text in explained(story, "more")["Why is it pending?"])


def test_a_paused_job_says_what_explains_its_pause_only() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("job", gpus=4)
    for _ in range(2):
        story.pause("job")
        story.begin("job")
        story.yields("job")
        said = explained(story, "job")
        story.resume("job")
        story.started("job")
    assert said["Why was it paused?"] == ["At 01-01 00:00:00 it was paused."]
    returns = said["When does it resume, and what protects it then?"]
    assert says(returns, "It stopped at 01-01 00:00:00")
    assert not any("requeued" in text for text in returns)


def test_a_drained_node_is_named_to_a_job_that_it_would_not_help_at_once() -> None:
    """It is full, so undraining it places nobody; without the reason, "no placement was found" remains a riddle."""
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4)
    story.drain("n1")
    story.submit("job", gpus=1)
    found = explained(story, "job")["What would unblock it?"]
    assert says(found, "Even without any of the jobs that run now, no placement was found for it.")
    assert says(found, "Drained, so without new tasks: n1.")


def test_a_node_that_kubernetes_has_cordoned_is_uncordoned_there() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.drain("n1", reason=f"{CORDONED}n1")
    story.submit("job", gpus=4)
    assert says(explained(story, "job")["Why is it pending?"], "to place tasks there again: kubectl uncordon n1.")


@pytest.mark.parametrize(
    ("group", "lost"),
    [
        ({"gpus": 1, "tasks": 4, "min_tasks": 2}, "40.0 GPU-min of work and 4.0 GPU-min to restart (assumed)"),
        ({"gpus": 1, "tasks": 9, "min_tasks": 2}, "1.3 GPU-h of work and 8.0 GPU-min to restart (assumed)"),  # eight of them fit
        ({"gpus": 0.5, "tasks": 2}, "10.0 GPU-min of work and 1.0 GPU-min to restart (assumed)"),
    ],
)
def test_lost_work_and_the_restart_are_two_figures_whatever_kind_of_job_was_requeued(group: dict[str, Any], lost: str) -> None:
    story = Story()
    story.node("n1", gpus=8)
    if group["gpus"] == 0.5:
        story.runs("job", TaskGroup(count=2, gpu_share_milli=500))
    else:
        story.runs("job", **group)
    story.evict("job", after=10 * MINUTE)
    story.yields("job")
    texts = [text for texts in explained(story, "job").values() for text in texts]
    assert any(text.endswith(f"at its old position; it lost {lost}.") for text in texts), texts
    assert not any("together" in text for text in texts)
    assert [text for text in texts if text.startswith("It got more tasks")] == []  # they started with the others


def waits_of(story: Story, job: str) -> list[str]:
    texts = [text for texts in explained(story, job).values() for text in texts]
    return [text for text in texts if "before 01-01" in text or "possible from" in text]


@pytest.mark.parametrize(("own", "field"), [(None, "policy field restarts.backoff"), (HOUR, "its own restart_backoff")])
def test_a_wait_for_the_restart_names_its_field_and_until_when(own: int | None, field: str) -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.runs("brittle", gpus=1, max_failures=3, **({"restart_backoff": own} if own else {}))
    story.ends("brittle", code=3)
    (text,) = waits_of(story, "brittle")
    until = "01:00:00" if own else "00:00:02"
    rest = "doubled for each restart, at most policy field restarts.max_backoff"
    assert text == f"Restart backoff: it is not started again before 01-01 {until} ({field}, {rest})."
    unblocks = explained(story, "brittle")["What would unblock it?"][0]
    assert unblocks.startswith(f"At 01-01 {until}, in ")
    assert unblocks.endswith("its back-off ends: then it is started by itself, as soon as it fits.")
    assert not any("it fits, but" in each for texts in explained(story, "brittle").values() for each in texts)


def test_a_wait_for_the_next_request_names_its_field_and_until_when() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("fixed", gpus=8, preemptible=False)
    story.runs("low", gpus=0)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    (text,) = waits_of(story, "high")
    assert text.startswith("Its next preemption request is possible from 01-01 00:01:01 on ")
    assert text.endswith("(policy field preemption.selection_backoff).")


def test_a_job_that_does_not_start_says_what_the_node_said_and_where_it_is_not_placed_again():
    story = Story(policy(restarts={"max_start_failures": 2}))
    story.node("n1")
    story.node("n2")
    story.submit("job", gpus=8)
    first = story.at("job", 0)
    story.cycle(facts.TaskStartRefused(**first, reason="no user ada here"))
    found = explained(story, "job")["Why is it pending?"]
    assert f"Its last attempt did not start: {first['node']} says: no user ada here." in found
    assert any(text.startswith(f"It is not placed on {first['node']} again until") for text in found)
    story.wait(story.job("job").not_before - story.time)
    story.cycle(facts.TaskStartRefused(**story.at("job", 0), reason="no user ada here"))
    found = explained(story, "job")
    assert ": its last 2 attempts did not start (policy field" in found["What is its state?"][0]
    assert found["Why did it not start?"][0].startswith("Its last 2 attempts did not start: ")


def test_a_start_of_unknown_end_does_not_pass_for_the_reason_of_a_failed_one():
    story = Story(policy())
    story.node("n1")
    story.submit("job", gpus=8)
    story.cycle(facts.TaskStartRefused(**story.at("job", 0), reason="no user ada here"))
    story.wait(story.job("job").not_before - story.time)
    story.cycle(facts.TaskStartRefused(**story.at("job", 0), reason="it was started here before, and is gone", was_started=True))
    assert "Its last attempt did not start: n1 says: no user ada here." in explained(story, "job")["Why is it pending?"]
