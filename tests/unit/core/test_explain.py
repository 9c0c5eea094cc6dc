"""Explanations of jobs: why pending, why evicted, when resumed; every sentence names the records that prove it."""

import json
from collections.abc import Sequence

import pytest
from tests.kits.explained import explained, history_of, sentences
from tests.kits.log_builder import SECOND, policy
from tests.kits.story_script import play, stories

from bailiff_core.explain import condition_of, explain_job, explain_record
from bailiff_core.explain.job_state import end_reason
from bailiff_core.explain.sentences import clock
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.node_requests import CORDONED

SCENES = """
given low is preempted by high
    rules {protections: {cooldown: {job: 5m}, min_runtime: {preempt: 1m}, eviction_cap: {evictions: 3, window: 1h}}}
    node n1: 8 gpus; runs low: 8 gpus; +5m; submit high: inference, 4 gpus; propose

given a preemption for high is refused
    node n1: 8 gpus; runs fixed: 8 gpus, preemptible false; runs low: 0 gpus; +1m; submit high: inference, 4 gpus; propose

given low leaves for high
    node n1: 4 gpus; runs low: 4 gpus, max_failures 1; +1m; submit high: inference, 4 gpus; propose; begin low

given two projects with a quota of four
    rules {projects: [{name: a, quota: {gpus: 4}}, {name: b, quota: {gpus: 4}}]}; node n1: 8 gpus

given a loses its surplus to b
    two projects with a quota of four; runs a1: 8 x 1 gpu, min 4, project a; +1m; submit b1: 4 gpus, project b; propose
"""

test_explanations_in_stories = stories(f"""{SCENES}
a victim names its preemptor, the rule and the cost
    low is preempted by high; says low What is: "low (train 50) is being evicted for high, with 2m30s of grace."
    says low Why was: "high was unschedulable: " "(rule lower-priority-only)"
    "was preempted by high (inference 125), action preempt: inference 125 has higher priority than "
    "Its loss when it was selected: 40.0 GPU-min of work and 8.0 GPU-min to restart (assumed)"
    "Victim selection claims that this is proven: no permitted set is cheaper."

a victim names its expected resumption and its protection
    low is preempted by high
    says low When: "It is requeued at its old position within 2m30s of its eviction notice."
    "Rule cooldown: it is protected for 5m once it runs again (protections.cooldown.job)."
    "Rule min-runtime: it is protected from preempt for 1m after each start (protections.min_runtime)."
    +5s; yields low; started high
    says low When: "00:05:05, at its old position; it lost 40.7 GPU-min of work and 8.0 GPU-min to restart (assumed)."
    +1m; ends high; says low When: "It was placed again at 01-01 00:06:05, 1m05s after"

a preemptor names its victims
    low is preempted by high
    says high What is: "high (inference 125) has resources reserved on n1 until " "it starts when low has exited."
    says high Which: "low was preempted by high (inference 125), action preempt."
    "The freed resources are reserved for high until it starts or ends, at the latest until "

a refused preemptor names the rules and the nearest alternative
    a preemption for high is refused; says high What is: "has been pending since 01-01 00:01:00, first in the queue."
    says high Why is: "As of " "Rule not-preemptible protected 1 job (fixed): it is not preemptible."
    "preemption for high was refused: no permitted set of victims is sufficient, which victim selection claims to have proven."
    says high What would: "What it lacked: " "Its next preemption request is possible from "

a wait for the next request names its field and until when
    a preemption for high is refused
    says high: "Its next preemption request is possible from 01-01 00:01:01 on " "(policy field preemption.selection_backoff)."

actions that the policy disables are named
    rules {{preemption: {{actions: [allocate]}}}}; node n1: 1 gpu; runs first: 1 gpu; submit second: inference, 1 gpu
    says second Why is: "The policy disables reclaim and preempt in this pool (policy field preemption.actions)."

a project at its limit is the reason as things are
    rules {{projects: [{{name: a, quota: {{gpus: 4}}, limit: {{gpus: 6}}}}]}}; node n1: 8 gpus
    runs a1: 4 gpus, project a; submit a2: 4 gpus, project a; says a2 Why is: "Currently: " "limit"

a job above its fair share names why it may not reclaim
    two projects with a quota of four; runs a1: 4 gpus, project a; runs b1: 4 gpus, project b; submit a2: 2 gpus, project a
    says a2 Why is: "It may not reclaim: project a would use 6 of its fair share of 4 GPUs"

an elastic job names why tasks are missing
    node n1: 3 gpus; runs elastic: 4 x 1 gpu, min 2; says elastic Why are: "Currently: "; says elastic What is:
    "elastic (train 50) has been running since 01-01 00:00:00 on n1 as attempt 1, 3 of 4 tasks (at least 2)."

a cancelled eviction is distinct from a preemption
    node n1: 1 gpu; runs job: 1 gpu; cancel job; says job Why was it cancelled?: "it was cancelled"; omits job What is: "evict"
    omits job: "When does it resume, and what protects it then?"

a failed attempt says which task ended how while the job waits and runs again
    node n1: 1 gpu; runs job: 1 gpu, max_failures 3; ends job 127; says job What is: "Its output: bailiff logs job."
    "Its attempt 1 failed: task 0 ended with exit code 127 (a program was not found)"

a reclaimed job names the projects and its surplus
    a loses its surplus to b
    says a1 Why were: "tasks 4-7 were preempted by b1 (train 50, project b), action reclaim: project a is above its fair share"
    says b1 Which: "Only surplus tasks are evicted; the jobs keep their other tasks: a1 (4-7)."

a relocated job names its reservation
    rules {{preemption: {{max_migrations: null}}}}; node n1: 4 gpus; node n2: 4 gpus; runs filler: 2 gpus; runs beside: 2 gpus
    runs mover: 1 gpu; ends beside; +1m; submit wide: 4 gpus; propose; says wide Which: "Relocated, not stopped: mover."
    => PreemptionDecided action=consolidate victims.*.job=mover
    says mover Why was: "action consolidate: relocating it makes the preemptor fit"
    "It is relocated, not stopped: resources on 1 node are reserved for it."

a job that never subscribed to notices is killed for ignoring TERM
    low leaves for high; stage low noticed; stage low term_sent; stage low kill_sent stuck_in=noticed elapsed=30s
    says low How did: "without ever having subscribed to eviction notices"
    "TERM sent 0ms later and KILL sent (did not exit on TERM) 30s later"; omits low How did: "never acknowledged"

a pending job names the expected free resources and their time
    node n1: 8 gpus; runs long: 4 gpus, run_time_limit 1h; runs short: 4 gpus, run_time_limit 10m; +1m; submit waits: 6 gpus
    says waits What would: "Then long, at 01-01 01:00:00, with 4 GPUs."
    "The first job with a run-time limit to reach it is short, at 01-01 00:10:00, with 4 GPUs."
    "By run-time limits alone it fits at 01-01 01:00:00 at the latest, in 59m"

a job pending on jobs without a time limit names them
    node n1: 8 gpus; runs endless: 8 gpus; +1m; submit waits: 6 gpus
    says waits What would: "that depends on jobs without a run-time limit: endless"

a job without a refusal counts the jobs that could be preempted for it
    node n1: 8 gpus; runs low: 8 gpus; +1m; submit high: inference, 8 gpus
    says high Why is: "Under preempt, 1 job could have been preempted."

releasing resources, reservations and unusable GPUs are named
    node n1: 8 gpus; runs low: 7 gpus; quarantined n1 7; +1m; submit high: inference, 6 gpus; propose; +1s; submit waits: 8 gpus
    +1s; begin low; says waits What would: "Being evicted now: low, with 7 GPUs, for high; its grace ends at "
    "Reserved for high: 6 GPUs, until " "1 GPU on n1 cannot be allocated (not-free). Each of them: bailiff node list."

tasks that left one by one are told as one shrink
    node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4; +1m; submit high: inference, 4 gpus; propose
    exits wide 85 4; releases wide 4; exits wide 85 6; releases wide 6; exits wide 85 5; releases wide 5; exits wide 85 7
    releases wide 7; says wide: "It has been running without tasks 4-7 since 01-01 00:01:00."; omits wide: "without task 4 since"

an eviction that was cancelled too late is not called cancelled
    low leaves for high; cancel high; cancel_eviction_refused low; yields low; omits low When: "Its eviction was cancelled"
    says low When: "Its eviction was to be cancelled, but it was too late: it was already told to stop." "It was requeued at"

a drained node among the reasons names the command
    node n1: 4 gpus; node n2: 2 gpus; drain n2; drain n1; submit job: 4 gpus
    says job Why is: "It would fit with n1, which is drained; to place tasks there again: bailiff undrain n1."

a drain that is over is told in the words on record
    node n1: 4 gpus; runs job: 4 gpus; drain n1 quick reason="make down"; begin job; yields job; undrain n1; started job
    says job: "it was evicted: n1 is drained (quick): make down."; omits job: "because n1 is drained"

a quota that is not in force names the nodes that do not count
    rules {{projects: [{{name: v, quota: {{gpus: 4}}}}]}}; node n1: 2 gpus; node n2: 2 gpus; drain n1
    runs first: 2 gpus, project v, preemptible false; submit job: 2 gpus, project v, preemptible false
    says job Why is: "is in force" "What there is for quotas leaves out nodes that take no tasks: n1 (drained)."
    undrain n1; submit more: 2 gpus, project v, preemptible false; omits more Why is: "leaves out nodes"

a paused job says what explains its pause only
    node n1: 4 gpus; runs job: 4 gpus; pause job; begin job; yields job; resume job; started job; pause job; begin job; yields job
    says job Why was it paused?: "At 01-01 00:00:00 it was paused."; says job When: "It stopped at 01-01 00:00:00"
    omits job When: "requeued"

a drained node is named to a job that it would not help at once
    # it is full, so undraining it places nobody; without the reason, "no placement was found" remains a riddle
    node n1: 4 gpus; runs low: 4 gpus; drain n1; submit job: 1 gpu; says job What would: "Drained, so without new tasks: n1."
    "Even without any of the jobs that run now, no placement was found for it."

a node that Kubernetes has cordoned is uncordoned there
    node n1: 4 gpus; drain n1 reason="{CORDONED}n1"; submit job: 4 gpus
    says job Why is: "to place tasks there again: kubectl uncordon n1."

a job that does not start says what the node said, and where it is not placed again
    rules {{restarts: {{max_start_failures: 2}}}}; node n1: 8 gpus; node n2: 8 gpus; submit job: 8 gpus; refuse job "no user ada"
    says job Why is: "Its last attempt did not start: n1 says: no user ada." "It is not placed on n1 again until"
    back_off job; refuse job "no user ada"; says job What is: ": its last 2 attempts did not start (policy field"
    says job Why did it not start?: "Its last 2 attempts did not start: "

a start of unknown end does not pass for the reason of a failed one
    node n1: 8 gpus; submit job: 8 gpus; refuse job "no user ada"; back_off job
    report TaskStartRefused job reason="it was started here before, and is gone" was_started=true
    says job Why is: "Its last attempt did not start: n1 says: no user ada."
""")


def says(sentences: Sequence[str], part: str) -> bool:
    return any(part in sentence for sentence in sentences)


def test_the_records_named_are_the_decision_and_the_request() -> None:
    story = play("low is preempted by high", given=SCENES)
    sections = explain_job(story.state, story.job("low"), history_of(story, "low"))
    sentence = next(each for section in sections for each in section.sentences if "preempted by" in each.text)
    kinds = [type(story.records[seq].data) for seq in sentence.seqs]
    assert kinds == [decisions.PreemptionDecided, decisions.PreemptionRequested]


def test_a_delay_and_a_late_start_are_named() -> None:
    web = {"name": "web", "value": 90, "preemptible": True, "start_slo": {"p95": "30s"}}
    classes = json.dumps([*policy().model_dump(mode="json")["priority_classes"], web])
    rules = f"rules {{priority_classes: {classes}, protections: {{preemption_delay: 5m}}}}"
    play(
        f"{rules}; node n1: 1 gpu; runs first: 1 gpu; submit second: 1 gpu, class web; wait 2m; submit third: 1 gpu",
        'says second Why is: "Start SLO of its class: 95% of jobs start within 30s; it is late by 1m30s."'
        ' "not preempt before 01-01 00:05:00 (rule preemption-delay, policy field protections.preemption_delay)."',
    )


def test_explaining_changes_nothing() -> None:
    story = play("low is preempted by high", given=SCENES)
    before = state_digest(story.state)
    for job in list(story.state.jobs):
        explained(story, job)
    assert state_digest(story.state) == before


def test_a_job_that_ended_or_runs_says_so_and_no_more() -> None:
    story = play("node n1: 1 gpu; runs short: 1 gpu")
    assert sentences(story, "short") == ["short (train 50) has been running since 01-01 00:00:00 on n1 as attempt 1."]
    story.ends("short")
    assert sentences(story, "short") == ["short (train 50) ended at 01-01 00:00:00: succeeded."]


def test_a_job_that_shrank_names_the_record_that_placed_it() -> None:
    story = play("a loses its surplus to b; yields a1", given=SCENES)
    (standing,) = explain_job(story.state, story.job("a1"), history_of(story, "a1"))[0].sentences
    assert [type(story.records[seq].data) for seq in standing.seqs] == [decisions.JobPlaced]
    assert "4 of 8 tasks (at least 4)" in standing.text


# --- one decision

PREEMPTOR = {"job": "b1", "class_name": "train", "priority": 50, "project": "b"}
VICTIM = {"job": "a1", "attempt": 1, "priority": 60, "gpus": 4, "lost_gpu_ms": 120_000, "class_name": "train", "project": "a"}


def decided(victims: list[dict[str, object]], **more: object) -> Record:
    graces = [30 * SECOND] * len(victims)
    about = {"request": 7, "preemptor": PREEMPTOR, "attempt": 1, "placement": [], "expires": 0, "explanation": {}}
    data = {**about, "victims": victims, "graces": graces, **more}
    return record(decisions.PreemptionDecided.model_validate_json(json.dumps(data)))


def said_of(*victims: dict[str, object], **more: object) -> list[str]:
    """The sentences about such a decision."""
    (section,) = explain_record(decided(list(victims), **more))
    return [sentence.text for sentence in section.sentences]


def record(data: decisions.PreemptionDecided | facts.ClockAdvanced) -> Record:
    return Record("p", 9, 1, 1, True, 0, "", "w", "e", 1, data.type_name(), data)


def test_reclaim_is_explained_by_projects_and_not_by_priority() -> None:
    said = said_of(VICTIM, action="reclaim")
    assert says(said, "project a is above its fair share and project b below its own, regardless of priority")
    assert not says(said, "has higher priority than")


COST = {"classes": [{"priority": 60, "gpu_milli": 4000}], "lost_gpu_ms": 120_000, "jobs_stopped": 1, "tasks": 4}


def test_costs_runner_up_bound_and_rules_are_all_named() -> None:
    why = {
        "candidates": 3,
        "steps": 500,
        "proven": False,
        "cost": COST,
        "lower_bound": {**COST, "lost_gpu_ms": 60_000},
        "runner_up": ["a2", "a3"],
        "runner_up_cost": {**COST, "lost_gpu_ms": 180_000, "jobs_stopped": 2, "fragmented_nodes": 1},
        "excluded": [{"rule": "not-preemptible", "jobs": 7, "examples": ["x1", "x2"]}, {"rule": "of-the-future", "jobs": 1}],
    }
    said = said_of(VICTIM, explanation=why)
    cost = "costs 4 GPUs of priority 60, 2.0 GPU-min of work lost and restarts, 1 job stopped, 4 tasks."
    assert says(said, f"{cost} It is the cheapest set found in 500 steps")
    assert says(said, "not proven; no set costs less than 4 GPUs of priority 60, 1.0 GPU-min of work lost and restarts")
    second = "4 GPUs of priority 60, 3.0 GPU-min of work lost and restarts, 2 jobs stopped"
    assert says(said, f"The runner-up was a2, a3, which costs {second}")
    assert "3 jobs could have been preempted." in said
    assert "Rule not-preemptible protected 7 jobs (x1, x2 and 5 more): each is not preemptible." in said
    assert "Rule of-the-future protected 1 job: it is protected by it." in said


@pytest.mark.parametrize(
    ("lost", "tasks", "decides"),
    [
        (120_000, 5, "differ decides: tasks, 5 against 4 of the chosen set."),
        (120_400, 4, "work lost and restarts, 120.400 GPU-s against 120.000 GPU-s of the chosen set."),
        (120_000, 4, "Both cost the same; of such sets the one with the job that was submitted last"),
        (60_000, 4, "1 job stopped, 4 tasks."),
    ],
)
def test_why_the_second_best_is_second(lost: int, tasks: int, decides: str) -> None:
    """By the first level that differs, exactly where rounded amounts look alike. Nothing, where promises decided."""
    second = {**COST, "lost_gpu_ms": lost, "tasks": tasks}
    said = said_of(VICTIM, explanation={"proven": True, "cost": COST, "runner_up": ["a2"], "runner_up_cost": second})
    (text,) = (each for each in said if "The runner-up" in each)
    assert decides in text
    assert lost >= 120_000 or text.endswith(decides)


def test_relocations_surplus_and_cancelled_evictions_are_distinct() -> None:
    moved, surplus = {**VICTIM, "moved_to": [{"node": 1, "tasks": "0", "devices": "0"}]}, {**VICTIM, "job": "a2", "tasks": "4-5"}
    said = said_of(moved, surplus, action="consolidate", cancelled_evictions=["a4"], unneeded_victims=["a5"])
    assert "Relocated, not stopped: a1." in said
    assert "Only surplus tasks are evicted; the jobs keep their other tasks: a2 (4-5)." in said
    assert "Evictions cancelled, as their resources are not needed: a4." in said
    assert "Proposed, but no longer needed: a5." in said


def test_a_record_that_decides_nothing_has_no_explanation() -> None:
    assert explain_record(record(facts.ClockAdvanced())) == []


def test_the_condition_names_preemptor_and_trigger() -> None:
    data = decided([VICTIM], action="preempt").data
    assert isinstance(data, decisions.PreemptionDecided)
    found = condition_of(data, data.victims[0], "needs 4 GPUs")
    assert (found.type, found.status, found.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
    assert "to accommodate b1, by preempt" in found.message
    assert found.message.endswith("trigger: needs 4 GPUs")


def test_a_victim_names_how_its_eviction_ended() -> None:
    story = play("low leaves for high; stage low noticed attached=true; stage low acknowledged step=6 elapsed=1s", given=SCENES)
    saved = facts.Checkpoint(step=7, bytes=256 << 20, duration=2 * SECOND, sha256="0" * 64)
    committed = {**story.at("low", 0), "stage": "checkpoint_committed", "checkpoint": saved, "elapsed": 4 * SECOND}
    story.cycle(facts.EvictionStageReached.model_validate(committed))
    play("stage low term_sent stuck_in=checkpoint_committed elapsed=120s; +1m; ends low -9", story=story)
    (how,) = explained(story, "low")["How did the eviction proceed?"]
    assert how == (
        "Task 0 was notified at 01-01 00:01:00: notice acknowledged at step 6 1s later, "
        "checkpoint saved at step 7 (256MiB in 2s) 4s later, TERM sent (checkpoint saved but did not exit) "
        "2m later, exited 2m later by signal 9 (SIGKILL) and released its resources 2m later."
    )


def test_later_records_are_not_attributed_to_its_eviction() -> None:
    """It leaves for high, is back, fails, and is back once more."""
    resumed = "report TaskResumed low step=7 from_attempt=1"
    story = play(
        f"low leaves for high; yields low; started high; +1m; ends high; started low; {resumed}; +1m; ends low 3; wait 5s",
        f"started low; {resumed} steps_lost=4",
        given=SCENES,
    )
    found = explained(story, "low")
    assert "exited 0ms later with code 85" in found["How did the eviction proceed?"][0]
    assert found["How did the eviction proceed?"][0].count("resumed at step") == 1
    lost = "at its old position; it lost 4.0 GPU-min of work and 4.0 GPU-min to restart (assumed)."
    assert found["When does it resume, and what protects it then?"][:4] == [
        f"It was requeued at 01-01 00:01:00, {lost}",
        "It was placed again at 01-01 00:02:00, 1m after its eviction.",
        f"It was requeued again, as its attempt 2 failed, at 01-01 00:03:00, {lost}",
        "It was placed again at 01-01 00:03:02, 2s later.",
    ]


# --- what would free it, and each time it left


TEN, TWENTY = "until 01-01 00:10:00, for another 9m.", "until 01-01 00:20:00, for another 19m."


@pytest.mark.parametrize(
    ("least", "said"),
    [
        ("preempt: 10m, reclaim: 20m", [f"reclaim {TWENTY}", f"preempt {TEN}"]),
        ("preempt: 10m", [f"preempt {TEN}"]),
        ("preempt: 10m, reclaim: 10m", [f"reclaim and preempt {TEN}"]),
    ],
)
def test_until_when_a_rule_protects_is_said_with_the_actions_that_it_protects_from(least: str, said: list[str]) -> None:
    projects = "projects: [{name: a}, {name: b, quota: {gpu_milli: 8000}}], preemption: {scope: pool}"
    rules = f"rules {{protections: {{min_runtime: {{{least}}}}}, {projects}}}"
    low, high = "runs low: 8 gpus, project a", "submit high: inference, 8 gpus, project b"
    found = explained(play(f"{rules}; node n1: 8 gpus; {low}; +1m; {high}"), "high")["What would unblock it?"]
    assert [text for text in found if "protects" in text] == [f"Rule min-runtime protects low from {each}" for each in said]


def test_a_set_of_fewer_gpus_and_higher_priority_is_said_to_be_outweighed() -> None:
    low, middle = "{name: a, value: 10, preemptible: true, global_default: true}", "{name: b, value: 20, preemptible: true}"
    high = "{name: hi, value: 30, preemptible: false, preemption_policy: PreemptLowerPriority}"
    rules = f"rules {{priority_classes: [{low}, {middle}, {high}]}}; node n1: 8 gpus; node n2: 8 gpus"
    runs = "runs wide: 8 gpus, class a; runs small: 1 gpu, class b; runs fill: 7 gpus, class hi"
    story = play(rules, runs, "submit top: 1 gpu, class hi; propose")
    (why,) = (text for text in sentences(story, "wide") if "The runner-up was" in text)
    assert why.startswith("The runner-up was small, ")
    assert "GPUs of priority 20, 1 GPU against 0 GPUs of the chosen set; the chosen set takes 8 GPUs" in why
    assert why.endswith("not 1 GPU, but priority outweighs the number of GPUs.")


def test_every_eviction_is_listed() -> None:
    story = play("node n1: 4 gpus; runs low: 4 gpus")
    times = []
    for high in ("high-0", "high-1", "high-2"):
        play(f"+1h; submit {high}: inference, 4 gpus; +1s; propose", story=story)
        times.append(story.time)
        play(f"+10s; yields low; +1s; started {high}; +1m; ends {high}; +1s; started low", story=story)
    found = explained(story, "low")
    assert says(found["Why was it evicted?"], "high-2")
    for number in (0, 1):
        question = f"What happened when it was evicted before that ({number + 1} of 3), at {clock(times[number])}?"
        for part in (f"preempted by high-{number}", "costs 4 GPUs of priority 50", "TERM sent", "It was placed again"):
            assert says(found[question], part)
        assert not says(found[question], f"high-{number + 1}")


@pytest.mark.parametrize(
    ("demand", "reason", "failures"),
    [
        ("max_failures 1", "task 0 ended with exit code 3; it failed 2 times, and max_failures is 1", 2),
        ("on_failure end", "task 0 ended with exit code 3, and on_failure is end", 1),
        ("max_failures 0", "task 0 ended with exit code 3; it failed 1 time, and max_failures is 0", 1),
    ],
)
def test_a_failed_job_names_its_cause_and_counts_its_last_failure(demand: str, reason: str, failures: int) -> None:
    again = "wait 1m; started bad; ends bad 3" if failures == 2 else ""
    story = play(f"node n1: 4 gpus; runs bad: 4 gpus, {demand}; ends bad 3", again, f'says bad What is: "failed, {reason}."')
    job = story.job("bad")
    assert (end_reason(job, story.records), job.failures, job.evictions) == (reason, failures, 0)


def test_a_job_that_ends_with_its_eviction_says_so_and_counts_it() -> None:
    story = play("node n1: 4 gpus; runs low: 4 gpus, on_eviction end; submit high: inference, 4 gpus; propose; yields low")
    job = story.job("low")
    assert (end_reason(job, story.records), job.failures, job.evictions) == ("it was evicted, and on_eviction is end", 0, 1)


@pytest.mark.parametrize(
    ("demand", "lost"),
    [
        ("4 x 1 gpu, min 2", "40.0 GPU-min of work and 4.0 GPU-min to restart (assumed)"),
        ("9 x 1 gpu, min 2", "1.3 GPU-h of work and 8.0 GPU-min to restart (assumed)"),  # eight of them fit
        ("2 x 0.5 gpu", "10.0 GPU-min of work and 1.0 GPU-min to restart (assumed)"),
    ],
)
def test_lost_work_and_the_restart_are_two_figures_whatever_kind_of_job_was_requeued(demand: str, lost: str) -> None:
    texts = sentences(play(f"node n1: 8 gpus; runs job: {demand}; +10m; evict job; yields job"), "job")
    assert any(text.endswith(f"at its old position; it lost {lost}.") for text in texts), texts
    assert not says(texts, "together")
    assert [text for text in texts if text.startswith("It got more tasks")] == []  # they started with the others


@pytest.mark.parametrize(
    ("own", "until", "field"),
    [("", "00:00:02", "policy field restarts.backoff"), (", restart_backoff 1h", "01:00:00", "its own restart_backoff")],
)
def test_a_wait_for_the_restart_names_its_field_and_until_when(own: str, until: str, field: str) -> None:
    story = play(f"node n1: 1 gpu; runs brittle: 1 gpu, max_failures 3{own}; ends brittle 3")
    (text,) = (text for text in sentences(story, "brittle") if "before 01-01" in text)
    rest = "doubled for each restart, at most policy field restarts.max_backoff"
    assert text == f"Restart backoff: it is not started again before 01-01 {until} ({field}, {rest})."
    unblocks = explained(story, "brittle")["What would unblock it?"][0]
    assert unblocks.startswith(f"At 01-01 {until}, in ")
    assert unblocks.endswith("its back-off ends: then it is started by itself, as soon as it fits.")
    assert not says(sentences(story, "brittle"), "it fits, but")


def test_alike_tasks_of_a_gang_are_one_sentence_and_what_differs_is_from_the_least_to_the_most() -> None:
    story = play("node n1: 8 gpus; runs gang: 4 x 2 gpus; +1m; submit high: inference, 8 gpus; propose; begin gang")
    for task, elapsed in enumerate((20, 30, 20, 40)):
        play(f"stage gang noticed task={task} attached=true", story=story)
        play(f"stage gang acknowledged task={task} step=6 elapsed={elapsed}ms", story=story)
    for task in range(3):
        play(f"stage gang term_sent task={task} stuck_in=acknowledged elapsed=120s", story=story)
    how = explained(story, "gang")["How did the eviction proceed?"]
    assert how == [
        (
            "Tasks 0-2 were notified at 01-01 00:01:00: notice acknowledged at step 6 20ms to 30ms later and "
            "TERM sent (acknowledged but started no checkpoint) 2m later."
        ),
        "Task 3 was notified at 01-01 00:01:00: notice acknowledged at step 6 40ms later.",
    ]


def test_tasks_that_all_differ_are_counted_beyond_the_first_five() -> None:
    story = play("node n1: 8 gpus; runs gang: 8 x 1 gpu; +1m; submit high: inference, 8 gpus; propose; begin gang")
    for task in range(8):
        play(f"stage gang noticed task={task} attached=true", story=story)
        play(f"stage gang acknowledged task={task} step={task} elapsed=1s", story=story)
    how = explained(story, "gang")["How did the eviction proceed?"]
    assert (len(how), how[-1]) == (6, "Not listed: 3 more tasks.")
