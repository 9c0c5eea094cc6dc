"""Reports of agents: numbered per incarnation, and reconciled with the log."""

import pytest
from tests.kits.story_script import play
from tests.unit.admission.kit import announced, report

from bailiff_admission.request_handlers.reports import ReportNumbers, facts_of_report, orphans_of
from bailiff_bus.messages import reports
from bailiff_core.admission.rejected import Rejected
from bailiff_core.records.facts import Checkpoint, JobCheckpointRequested, JobEvictionRequested, Stage, TaskExited


def names(facts):
    return [type(fact).__name__ for fact in facts]


def of_task(kind, job="low", attempt=1, task=0, **fields):
    return report(kind, job=job, attempt=attempt, task=task, **fields)


def held(job="low", attempt=1, task=0, state="running", **fields):
    return reports.TrackedTask(job=job, attempt=attempt, task=task, state=state, **fields)


# --- numbers


def take(numbers, story, report):
    return numbers.take(story.state, report)


def test_numbers_are_taken_once_and_in_order(story):
    numbers = ReportNumbers()
    assert [take(numbers, story, of_task(reports.TaskStartedReport, number=n)) for n in (1, 2, 2, 1, 3)] == [
        "next",
        "next",
        "repeat",
        "repeat",
        "next",
    ]


def test_a_gap_stays_one_until_the_missing_report_or_an_announcement(story):
    numbers = ReportNumbers()
    take(numbers, story, of_task(reports.TaskStartedReport, number=1))
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=3)) == "gap"
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=4)) == "gap"
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=2)) == "next"
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=5)) == "gap"
    assert take(numbers, story, announced(life=1, number=6)) == "next"
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=5)) == "repeat"
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=7)) == "next"


def test_heartbeats_show_what_was_missed(story):
    numbers = ReportNumbers()
    assert take(numbers, story, report(reports.NodeHeartbeat, number=9)) == "next"  # nothing is known yet
    take(numbers, story, of_task(reports.TaskStartedReport, number=1))
    assert take(numbers, story, report(reports.NodeHeartbeat, number=1)) == "next"
    assert take(numbers, story, report(reports.NodeHeartbeat, number=0)) == "next"  # overtaken on the way
    assert take(numbers, story, report(reports.NodeHeartbeat, number=2)) == "gap"
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=2)) == "next"


def test_every_incarnation_counts_for_itself(story):
    numbers = ReportNumbers()
    assert take(numbers, story, of_task(reports.TaskStartedReport, number=5)) == "next"
    assert take(numbers, story, report(reports.TaskStartedReport, life=2, number=1, job="low", attempt=1, task=0)) == "next"
    assert not numbers.complete(of_task(reports.TaskStartedReport))
    take(numbers, story, announced(number=2))
    assert numbers.complete(announced())


def test_what_the_log_knows_already_is_a_repeat_for_a_new_writer(story):
    story.cycle(story.joined("n1").model_copy(update={"report_number": 4}))
    assert take(ReportNumbers(), story, of_task(reports.TaskStartedReport, number=4)) == "repeat"
    assert take(ReportNumbers(), story, of_task(reports.TaskStartedReport, number=5)) == "next"


# --- single reports


def test_the_course_of_a_task(story):
    story.submit("job", gpus=1)
    assert names(facts_of_report(story.state, of_task(reports.TaskStartedReport, "job", node="n2"))) == ["TaskStarted"]
    assert names(facts_of_report(story.state, of_task(reports.TaskStartRefusedReport, "job", node="n2", reason="busy"))) == [
        "TaskStartRefused"
    ]
    assert names(facts_of_report(story.state, of_task(reports.TaskExitedReport, "job", node="n2", exit_code=1))) == ["TaskExited"]
    story.started("job")
    assert facts_of_report(story.state, of_task(reports.TaskStartedReport, "job", node="n2")) == []
    assert facts_of_report(story.state, of_task(reports.TaskStartRefusedReport, "job", node="n2", reason="busy")) == []
    (ended,) = facts_of_report(story.state, of_task(reports.TaskExitedReport, "job", node="n2", exit_code=-9, reason="oom"))
    assert (ended.exit_code, ended.reason, ended.node) == (-9, "oom", "n2")
    story.cycle(ended)
    assert facts_of_report(story.state, of_task(reports.TaskExitedReport, "job", node="n2", exit_code=0)) == []
    assert names(facts_of_report(story.state, of_task(reports.TaskReleasedReport, "job", node="n2"))) == ["TaskReleased"]
    story.releases("job")
    assert facts_of_report(story.state, of_task(reports.TaskReleasedReport, "job", node="n2")) == []


@pytest.mark.parametrize(
    "wrong", [{"job": "nobody"}, {"job": "done"}, {"attempt": 0}, {"task": 2}, {"life": 2}, {"node": "n2"}, {"node": "n9"}]
)
def test_a_report_about_an_unknown_task_has_no_effect(story, wrong):
    assert facts_of_report(story.state, of_task(reports.TaskExitedReport, **{"exit_code": 0, **wrong})) == []
    assert facts_of_report(story.state, of_task(reports.TaskReleasedReport, **wrong)) == []


@pytest.mark.parametrize("wrong", [{"attempt": 2}, {"attempt": 2**53 - 1}, {"ordered_by": 2**53 - 1}])
def test_a_report_about_what_was_not_ordered_yet_is_rejected(story, wrong):
    found = facts_of_report(story.state, of_task(reports.TaskExitedReport, **{"exit_code": 0, **wrong}))
    assert isinstance(found, Rejected)
    assert found.code == "beyond-log"
    story.state.truncation_unreconciled = True  # agents know more than the log
    assert facts_of_report(story.state, of_task(reports.TaskExitedReport, **{"exit_code": 0, **wrong})) in (
        [],
        [TaskExited(job="low", attempt=1, task=0, node="n1", exit_code=0)],
    )


def test_heartbeats_are_no_facts(story):
    assert facts_of_report(story.state, report(reports.NodeHeartbeat)) == []


def test_a_reserved_task_cannot_be_released(story):
    play("submit high: interactive, 2 x 8 gpus; propose; high is reserved", story=story)
    where = story.state.nodes[story.job("high").tasks[0].node].name
    assert facts_of_report(story.state, of_task(reports.TaskReleasedReport, "high", node=where)) == []


def test_stages_are_recorded_once(story):
    story.cancel("low")
    story.begin("low")
    reached = of_task(reports.EvictionStageReport, stage="term_sent", elapsed=7)
    (fact,) = facts_of_report(story.state, reached)
    assert (fact.stage, fact.elapsed) == ("term_sent", 7)
    story.cycle(fact)
    assert facts_of_report(story.state, reached) == []
    assert names(facts_of_report(story.state, of_task(reports.EvictionStageReport, stage="kill_sent"))) == [
        "EvictionStageReached"
    ]


def test_reports_after_a_cancelled_eviction(story):
    assert facts_of_report(story.state, of_task(reports.TaskEvictionCancelledReport)) == []  # no cancellation
    assert facts_of_report(story.state, of_task(reports.TaskCancelEvictionRefusedReport)) == []
    play("submit high: interactive, 2 x 8 gpus; propose; begin low; cancel high", story=story)
    cancelled = of_task(reports.TaskEvictionCancelledReport)
    assert names(facts_of_report(story.state, cancelled)) == ["TaskEvictionCancelled"]
    story.cycle(*facts_of_report(story.state, cancelled))
    assert facts_of_report(story.state, cancelled) == []
    refused = facts_of_report(story.state, of_task(reports.TaskCancelEvictionRefusedReport, task=1))
    assert names(refused) == ["TaskCancelEvictionRefused"]
    story.cycle(*refused)
    assert (
        facts_of_report(story.state, of_task(reports.TaskCancelEvictionRefusedReport)) == []
    )  # the first one continues the gang's


# --- announcements


def test_an_unknown_node(story):
    (fact,) = facts_of_report(story.state, announced("n3", life=1, gpus=2, number=4))
    assert (fact.node, fact.number, fact.report_number, len(fact.devices)) == ("n3", 2, 4, 2)


def test_a_known_node_keeps_its_number(story):
    (fact,) = facts_of_report(story.state, announced(tasks=[held(task=0), held(task=1)]))
    assert (fact.node, fact.number, fact.incarnation) == ("n1", 0, "n1-life-2")


def test_another_machine_under_the_name_of_a_living_node(story):
    (fact,) = facts_of_report(story.state, announced(machine="thief"))
    assert (type(fact).__name__, fact.machine_id) == ("NodeRefused", "thief")
    story.silent("n1")
    assert names(facts_of_report(story.state, announced(machine="thief"))) == ["NodeRefused"]
    story.lost("n1")
    assert names(facts_of_report(story.state, announced(machine="thief"))) == ["NodeJoined"]


def test_an_operator_lets_another_machine_in(story):
    from bailiff_core.records.facts import NodeReplaced

    story.cycle(NodeReplaced(request=story.request(), node="n1", machine_id="new"))
    found = facts_of_report(story.state, announced(machine="new", boot=9))
    assert names(found) == ["NodeJoined", "TaskVanished", "TaskVanished"]


def test_a_task_missing_in_the_inventory_has_vanished(story):
    assert names(facts_of_report(story.state, announced(tasks=[held(task=1)]))) == ["NodeJoined", "TaskVanished"]


def test_a_start_on_its_way_is_not_missing_unless_the_machine_started_anew(story):
    story.submit("job", gpus=4)
    where = story.state.nodes[story.job("job").tasks[0].node].name
    tasks = [held(task=0), held(task=1)] if where == "n1" else []
    assert names(facts_of_report(story.state, announced(where, tasks=tasks))) == ["NodeJoined"]
    assert names(facts_of_report(story.state, announced(where, tasks=tasks, boot=2))) == ["NodeJoined", "TaskVanished"]


def test_the_inventory_catches_up(story):
    story.cancel("low")
    story.begin("low")
    tasks = [
        held(task=0, state="exited", exit_code=143, stages=(Stage(stage="noticed"), Stage(stage="term_sent"))),
        held(task=1, state="released", exit_code=85, stages=(Stage(stage="noticed"),)),
    ]
    found = facts_of_report(story.state, announced(tasks=tasks))
    assert names(found) == [
        *("NodeJoined", "EvictionStageReached", "EvictionStageReached", "TaskExited", "EvictionStageReached", "TaskExited"),
        "TaskReleased",
    ]
    story.cycle(*found)
    assert [task.state for task in story.job("low").tasks] == ["exited", "released"]
    again = facts_of_report(story.state, announced(tasks=tasks))
    assert names(again) == ["NodeJoined"]


def test_a_task_that_started_and_ended_unseen(story):
    story.submit("job", gpus=4)
    where = story.state.nodes[story.job("job").tasks[0].node].name
    tasks = [held("job", state="released", exit_code=0)]
    tasks += [held(task=0), held(task=1)] if where == "n1" else []
    found = facts_of_report(story.state, announced(where, tasks=tasks))
    assert names(found) == ["NodeJoined", "TaskStarted", "TaskExited", "TaskReleased"]
    story.cycle(*found)
    story.expect("JobEnded", job="job", outcome="succeeded")


def test_a_task_whose_image_is_pulled_has_not_started(story):
    """Its node announces itself anew meanwhile; then its image cannot be pulled."""
    story.submit("job", gpus=4)
    where = story.state.nodes[story.job("job").tasks[0].node].name
    others = [held(task=0), held(task=1)] if where == "n1" else []
    pulls = held("job", begun=False)
    assert names(facts_of_report(story.state, announced(where, tasks=[pulls, *others]))) == ["NodeJoined"]
    gone = held("job", state="released", exit_code=126, unobserved=True, begun=False)
    found = facts_of_report(story.state, announced(where, tasks=[gone, *others]))
    assert names(found) == ["NodeJoined", "TaskExited", "TaskReleased"]
    story.cycle(*found)
    story.expect("JobRequeued", job="job", outcome="lost", rule="never-started")


def test_an_earlier_member_of_the_number_says_nothing_of_the_one_that_is_to_start(story):
    """Its agent was restarted before it got the confirmation of the exit."""
    story.submit("job", gpus=4)
    task = story.job("job").tasks[0]
    where = story.state.nodes[task.node].name
    others = [held(task=0), held(task=1)] if where == "n1" else []
    before = held("job", state="released", exit_code=1, ordered_by=task.start_seq - 1)
    assert names(facts_of_report(story.state, announced(where, tasks=[before, *others]))) == ["NodeJoined"]


def test_an_end_that_its_node_did_not_see_is_on_record_as_such(story):
    story.submit("job", gpus=1)
    (ended,) = facts_of_report(story.state, of_task(reports.TaskExitedReport, "job", node="n2", exit_code=-9, unobserved=True))
    assert ended.unobserved
    found = facts_of_report(story.state, announced("n2", tasks=[held("job", state="exited", exit_code=-9, unobserved=True)]))
    assert [fact.unobserved for fact in found if isinstance(fact, TaskExited)] == [True]


def test_what_runs_without_the_log(story):
    strangers = [held("nobody"), held(attempt=7), held(task=9), held("done", state="exited"), held("old", state="released")]
    found = orphans_of(story.state, announced(tasks=[held(task=0), *strangers]))
    assert [(entry.job, entry.attempt, entry.task) for entry in found] == [
        ("nobody", 1, 0),
        ("low", 7, 0),
        ("low", 1, 9),
        ("done", 1, 0),
    ]


def test_what_runs_on_another_node_than_the_log_believes_runs_without_it(story):
    """The log has forgotten that the member left, and came back elsewhere under its number."""
    assert {task.node for task in story.state.jobs["low"].tasks} == {0}
    (entry,) = orphans_of(story.state, announced("n2", tasks=[held(task=0)]))
    assert (entry.job, entry.task) == ("low", 0)


# --- what tasks say


SAVED = Checkpoint(step=7, bytes=1, duration=1, sha256="0" * 64)


def test_a_stage_keeps_its_facts_and_is_recorded_once(story):
    story.cancel("low")
    story.begin("low")
    noticed = of_task(
        reports.EvictionStageReport, stage="noticed", attached=True, step=6, step_rate_milli=1000, term_after=120, kill_after=150
    )
    (fact,) = facts_of_report(story.state, noticed)
    assert (fact.attached, fact.step, fact.step_rate_milli, fact.term_after, fact.kill_after) == (True, 6, 1000, 120, 150)
    story.cycle(fact)
    saved = of_task(reports.EvictionStageReport, stage="checkpoint_committed", checkpoint=SAVED, elapsed=3)
    (fact,) = facts_of_report(story.state, saved)
    assert (fact.checkpoint, fact.elapsed) == (SAVED, 3)
    story.cycle(fact)
    assert facts_of_report(story.state, noticed) == facts_of_report(story.state, saved) == []


def test_a_node_says_once_that_it_carries_out_a_shorter_grace(story):
    def noticed(kill_after):
        return facts_of_report(
            story.state, of_task(reports.EvictionStageReport, stage="noticed", attached=True, kill_after=kill_after)
        )

    story.cancel("low")
    story.begin("low")
    story.cycle(*noticed(150_000_000))
    assert noticed(1_000_000) == [], "nothing has shortened it"
    story.cycle(JobEvictionRequested(request=story.request(), job="low", grace=5_000_000))
    assert noticed(149_000_000) == [], "that is not short enough"
    (fact,) = noticed(5_000_000)
    story.cycle(fact)
    assert noticed(5_000_000) == noticed(4_000_000) == []
    assert story.job("low").tasks[0].kill_after == 5_000_000


def test_a_step_may_be_confirmed_again_where_it_is_raised(story):
    def confirmed(step):
        found = facts_of_report(story.state, of_task(reports.EvictionStageReport, stage="step_confirmed", step=step))
        story.cycle(*found) if found else None
        return [fact.step for fact in found]

    play("cancel low; begin low; staged low noticed", story=story)
    assert [confirmed(step) for step in (5, 5, 9, 8)] == [[5], [], [9], []]


def test_the_inventory_brings_every_stage_with_its_facts_before_the_end(story):
    story.cancel("low")
    story.begin("low")
    stages = (Stage(stage="noticed", attached=True), Stage(stage="acknowledged", step=6, elapsed=2))
    gone = held(state="exited", exit_code=1, stages=stages, step=8)
    found = facts_of_report(story.state, announced(tasks=[gone, held(task=1)]))
    assert names(found) == ["NodeJoined", "EvictionStageReached", "EvictionStageReached", "TaskExited"]
    assert (found[2].stage, found[2].step, found[2].elapsed, found[3].step) == ("acknowledged", 6, 2, 8)
    story.cycle(*found)
    assert story.job("low").task(0).acknowledged


def test_progress_counts_where_it_says_something_new(story):
    first = of_task(reports.TaskProgressReport, step=7, total_steps=100, step_rate_milli=10, checkpoint=SAVED, checkpoint_age=3)
    (fact,) = facts_of_report(story.state, first)
    assert (fact.step, fact.total_steps, fact.step_rate_milli, fact.checkpoint, fact.checkpoint_age) == (7, 100, 10, SAVED, 3)
    story.cycle(fact)
    assert facts_of_report(story.state, first) == []  # an agent that was restarted says it again
    assert names(facts_of_report(story.state, of_task(reports.TaskProgressReport, step=8))) == ["TaskProgressed"]


@pytest.mark.parametrize(("known", "step", "lost"), [(None, 91, 0), (100, 91, 10), (100, 101, 0), (100, 0, 101)])
def test_a_resumed_task_loses_the_steps_that_it_repeats(story, known, step, lost):
    story.job("low").step = known  # what its earlier attempts are known to have done
    (fact,) = facts_of_report(story.state, of_task(reports.TaskResumedReport, step=step, from_attempt=0, skipped_checkpoints=1))
    assert (fact.step, fact.from_attempt, fact.skipped_checkpoints, fact.steps_lost) == (step, 0, 1, lost)
    story.cycle(fact)
    assert facts_of_report(story.state, of_task(reports.TaskResumedReport, step=step)) == []
    story.job("low").step = None  # no record said so


def test_a_task_running_on_a_mere_reservation_runs_without_the_log(story):
    story.submit("high", gpus=8, tasks=2, cls="interactive")
    story.propose()
    assert story.state.jobs["high"].phase == "reserved", "its start was in records that are lost"
    (entry,) = orphans_of(story.state, announced(tasks=[held("high")]))
    assert entry.job == "high"


def test_a_node_has_at_most_64_devices_with_those_that_are_gone_and_in_use(story):
    """Device masks have 64 bits: beyond that, each decision that looks at the node would fail."""
    gone = announced(gpus=64)
    other = gone.model_copy(update={"devices": tuple(each.model_copy(update={"id": f"X-{each.id}"}) for each in gone.devices)})
    refused = facts_of_report(story.state, other)
    assert isinstance(refused, Rejected)
    assert refused.code == "too-many-devices"
    assert "n1 would have 72 devices" in refused.reason
    fits = other.model_copy(update={"devices": other.devices[:56]})
    assert names(facts_of_report(story.state, fits))[0] == "NodeJoined"


def test_a_task_that_is_saved_by_another_order_than_the_log_s_is_named(story):
    """Also while a true order is open: somebody with the executor's key must not hide behind it."""

    def frozen(by: int):
        return facts_of_report(story.state, of_task(reports.SnapshotStageReport, stage="frozen", ordered_by=by, driver="criu"))

    before = story.state.seq
    assert frozen(before).code == "not-ordered"
    story.cycle(JobCheckpointRequested(request=story.request(), job="low"))
    order = story.job("low").saving_seq
    assert names(frozen(order)) == ["SnapshotStageReached"]
    assert frozen(before).code == "not-ordered"
    story.cycle(*frozen(order))
    assert frozen(order) == [], "a report may be read again"
    assert frozen(before).code == "not-ordered"
