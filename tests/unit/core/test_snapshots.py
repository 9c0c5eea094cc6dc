"""Jobs that their nodes save: who saves what, what an eviction loses, and where a snapshot is restored."""

from typing import Any

import pytest
from rich.console import Console
from tests.kits.log_builder import MINUTE, SECOND, Story, digest, policy

from bailiff.client.live_plan import predict
from bailiff.doctor.checks import snapshot_checks
from bailiff.render.serializers.nodes import ListedNode, NodeRow, node_rows
from bailiff.tables.nodes import listed_table
from bailiff_admission.pending_commands import start_command
from bailiff_admission.request_handlers.reports import facts_of_report
from bailiff_bus.messages.commands import Evict, SaveTasks, SnapshotForm, SnapshotRef
from bailiff_bus.messages.reports import SnapshotStageReport, TaskRestoredReport, TaskRestoreFailedReport, TaskStartedReport
from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.decision_cycle import wake_at
from bailiff_core.explain import explain_job
from bailiff_core.explain.claims import claim_sentences
from bailiff_core.fold import apply
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Project, ProjectSnapshots, SnapshotRules
from bailiff_core.model.snapshots import checkpointing, over_quota, why_not_restored
from bailiff_core.model.state import EnrolledNode, PoolState
from bailiff_core.model.work_lost import NO_LOSS, Loss, loss_now
from bailiff_core.records import facts
from bailiff_eviction_executor.pending_messages import pending_commands, pending_saves, pending_snapshot_steps
from bailiff_log.accounting_rows import Accounting, LostWork
from bailiff_log.keys import to_text
from bailiff_service.pool_metrics import pool_samples

CPU, OTHER_CPU = digest("avx512"), digest("avx2")
MANIFEST = digest("manifest")
GPUS, RAN = 4, 600_000  # of the job; how long it runs, ms
WORK = GPUS * RAN


def offer(why_not: str = "", cpu: str = CPU) -> facts.SnapshotOffer:
    return facts.SnapshotOffer(driver="criu", version="4.2", why_not=why_not, bytes_per_s=10**9, cpu=cpu)


def node(story: Story, name: str, *offers: facts.SnapshotOffer, folder: str | None = "nfs", **about: Any) -> None:
    joined = story.joined(name, gpus=GPUS, checkpoints=folder, **about)
    story.cycle(joined.model_copy(update={"snapshots": offers}))


def stage(story: Story, job: str, name: str, **fields: Any) -> None:
    story.cycle(facts.EvictionStageReached.model_validate({**story.at(job, 0), "stage": name, **fields}))


def evict(story: Story, job: str) -> list[Evict]:
    """It is evicted, by request. Returns the commands to its node."""
    story.evict(job)
    story.begin(job)
    commands = [each for each in pending_commands(story.state) if isinstance(each, Evict)]
    stage(story, job, "noticed")
    return commands


def save(story: Story, job: str) -> None:
    for name, fields in (("frozen", {}), ("dumped", {"bytes": 2**30}), ("stored", {"bytes": 2**30, "sha256": MANIFEST})):
        stage(story, job, name, driver="criu", **fields)
    story.ends(job, -9)


@pytest.fixture
def story() -> Story:
    """One job that its node saves has run for ten minutes on one of two nodes that share a folder."""
    story = Story()
    node(story, "n1", offer())
    node(story, "n2", offer())
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    story.time += 10 * MINUTE
    story.cycle(facts.ClockAdvanced())
    return story


def elsewhere(story: Story) -> None:
    """The job starts again, on the other node."""
    story.drain("n1")
    story.cycle(facts.ClockAdvanced())
    assert story.state.nodes[story.job("job").tasks[0].node].name == "n2"


def restore_of(story: Story) -> SnapshotRef | None:
    job = story.job("job")
    at = story.state.nodes[job.tasks[0].node]
    return start_command(story.state, job, at, job.tasks, JobSpec(command="true")).tasks[0].restore


def of_snapshot(story: Story, kind: type[Any], **fields: Any) -> Any:
    about = {**story.at("job", 0), "from_attempt": 1, "driver": "criu", **fields}
    return kind(incarnation=story.state.nodes[story.job("job").tasks[0].node].incarnation, number=9, **about)


def test_a_saved_job_loses_no_work_and_is_preempted_cleanly(story: Story) -> None:
    assert loss_now(story.state, story.job("job"), 1000 * GPUS).work == 0, "known beforehand"
    (command,) = evict(story, "job")
    assert command.save == "snapshot"
    save(story, "job")
    requeued = next(iter(story.decisions("JobRequeued")))
    assert (requeued.outcome, requeued.lost_gpu_ms) == ("preempted", GPUS * 60_000), "its restart, but no work"
    kept = story.job("job").snapshot
    assert kept is not None
    assert [each.sha256 for each in kept.tasks] == [MANIFEST]
    assert kept.work_gpu_ms == pytest.approx(WORK, abs=10_000)
    story.holds()


@pytest.mark.parametrize("encrypted", [False, True])
def test_nodes_are_told_how_to_keep_a_snapshot_and_who_may_read_it(story: Story, encrypted: bool) -> None:
    """Itself, and who has the same folder; not who has another one."""
    node(story, "n3", offer(), folder="other")
    keys = {name: to_text(name.encode() * 16) for name in ("n1", "n2", "n3")}
    story.state.enrolled.update({name: EnrolledNode(to_text(bytes(32)), key) for name, key in keys.items()})
    story.apply_policy(policy(snapshots=SnapshotRules(compressed=True, encrypted=encrypted)))
    form = SnapshotForm(compressed=True, readers=(keys["n1"], keys["n2"]) if encrypted else None)
    (saving,) = order(story)
    stored_running(story)
    (command,) = evict(story, "job")
    assert (saving.form, command.form) == (form, form)


def test_the_next_attempt_continues_from_the_snapshot_and_keeps_what_was_saved_before(story: Story) -> None:
    evict(story, "job")
    save(story, "job")
    assert restore_of(story) == SnapshotRef(attempt=1, driver="criu", sha256=MANIFEST, bytes=2**30)
    (restored,) = facts_of_report(story.state, of_snapshot(story, TaskRestoredReport, bytes=2**30))
    story.started("job")
    story.cycle(restored)
    assert facts_of_report(story.state, of_snapshot(story, TaskRestoredReport, bytes=2**30)) == [], "a repeat"
    story.time += 10 * MINUTE
    evict(story, "job")
    save(story, "job")
    kept = story.job("job").snapshot
    assert kept is not None
    assert (kept.attempt, kept.work_gpu_ms) == (2, pytest.approx(2 * WORK, abs=20_000)), "the work of both attempts"


def test_a_snapshot_that_cannot_be_restored_is_lost_once_with_its_work(story: Story) -> None:
    evict(story, "job")
    save(story, "job")
    failed = of_snapshot(story, TaskRestoreFailedReport, reason="weights.bin has another digest")
    (fact,) = facts_of_report(story.state, failed)
    assert fact.lost_gpu_ms == pytest.approx(WORK, abs=10_000)
    story.cycle(fact)
    story.started("job")
    assert story.job("job").snapshot is None
    assert facts_of_report(story.state, failed) == []
    story.time += 10 * MINUTE
    story.cycle(facts.ClockAdvanced())
    assert loss_now(story.state, story.job("job"), 1000 * GPUS).work > 0, "its node is not believed to save it again"
    texts = [each.text for part in explain_job(story.state, story.job("job"), story.records) for each in part.sentences]
    assert any("weights.bin has another digest" in text for text in texts)
    assert accounted(story) == [("requested", 0), ("restore", fact.lost_gpu_ms)]


def accounted(story: Story) -> list[tuple[str, int]]:
    """What accounting says of each loss of work: its cause, and the GPU-ms."""
    state, accounting = PoolState(), Accounting()
    for record in story.records:
        apply(state, record)
        accounting.at(state, record, stored=False)
    lost = [LostWork(*row.values) for row in accounting.lost.begun]
    return [(each.cause, each.work_gpu_ms) for each in lost]


def test_a_saved_eviction_costs_no_work_and_the_explanation_says_how_long_the_job_was_away(story: Story) -> None:
    evict(story, "job")
    save(story, "job")
    story.started("job", after=3 * MINUTE)
    (restored,) = facts_of_report(story.state, of_snapshot(story, TaskRestoredReport, bytes=2**30))
    story.cycle(restored)
    (text,) = [
        each.text
        for part in explain_job(story.state, story.job("job"), story.records)
        for each in part.sentences
        if "restored from its snapshot" in each.text
    ]
    assert "in attempt 2 3m later, with no work lost" in text
    assert accounted(story) == [("requested", 0)]


def restored_after(story: Story, saving: int, restoring: int) -> None:
    """It is evicted, saved in this time and restored in that, µs."""
    evict(story, "job")
    stage(story, "job", "frozen", driver="criu")
    story.time += saving
    stage(story, "job", "stored", driver="criu", bytes=2**30, sha256=MANIFEST, elapsed=saving)
    story.ends("job", -9)
    story.started("job")
    about = {"bytes": 2**30, "verified": restoring // 4, "restored": restoring - restoring // 4}
    story.cycle(*facts_of_report(story.state, of_snapshot(story, TaskRestoredReport, **about)))


def test_once_it_was_restored_its_price_is_what_its_last_snapshot_took(story: Story) -> None:
    assert loss_now(story.state, story.job("job"), 1000 * GPUS) == Loss(0, GPUS * 60_000), "as the policy assumes"
    restored_after(story, saving=6 * SECOND, restoring=4 * SECOND)
    first = next(iter(story.decisions("JobRequeued")))
    assert (first.measured, first.lost_gpu_ms) == (False, GPUS * 60_000)
    took = story.job("job").restart_time
    assert took is not None
    assert 10 * SECOND <= took < 11 * SECOND, "the log's times of the stages, and the node's of the restore"
    story.time += 10 * MINUTE
    price = GPUS * took // 1000
    assert loss_now(story.state, story.job("job"), 1000 * GPUS) == Loss(0, 0, price)
    other = next(name for name in ("n1", "n2") if name != story.state.nodes[story.job("job").tasks[0].node].name)
    story.drain(other)
    story.submit("urgent", gpus=GPUS, cls="build")
    story.propose()
    (victim,) = next(iter(story.decisions("PreemptionDecided"))).victims
    assert (victim.job, victim.measured, victim.lost_gpu_ms) == ("job", True, price)
    text = next(
        each.text
        for part in explain_job(story.state, story.job("job"), story.records)
        for each in part.sentences
        if "when it was selected" in each.text
    )
    assert "0 GPU-s of work and 40 GPU-s to save and restore (measured)" in text
    story.holds()


def test_the_explanation_says_what_the_time_away_was_spent_on(story: Story) -> None:
    restored_after(story, saving=6 * SECOND, restoring=4 * SECOND)
    texts = [each.text for part in explain_job(story.state, story.job("job"), story.records) for each in part.sentences]
    (text,) = [each for each in texts if "restored from its snapshot" in each]
    assert "with no work lost" in text
    assert "(6s to be saved, " in text
    assert " waiting, 4s to be restored)" in text


def test_saving_that_takes_longer_than_the_work_is_old_makes_no_job_dearer_than_one_that_nobody_saves(story: Story) -> None:
    restored_after(story, saving=2 * MINUTE, restoring=20 * MINUTE)
    story.cycle(facts.ClockAdvanced(), after=MINUTE)
    found = loss_now(story.state, story.job("job"), 1000 * GPUS)
    assert found == Loss(0, GPUS * 60_000), "it has worked for less time than that"
    story.cycle(facts.ClockAdvanced(), after=40 * MINUTE)
    assert loss_now(story.state, story.job("job"), 1000 * GPUS).measured == GPUS * (story.job("job").restart_time or 0) // 1000


@pytest.mark.parametrize(
    ("offers", "folder", "why"),
    [
        ((offer(cpu=OTHER_CPU),), "nfs", "other-cpu"),
        ((offer("the kernel has no CONFIG_CHECKPOINT_RESTORE"),), "nfs", "no-driver"),
        ((), "nfs", "no-driver"),
        ((offer(),), None, "other-folder"),
        ((offer(),), "another", "other-folder"),
        ((offer(),), "nfs", ""),
    ],
)
def test_where_it_is_restored(offers: tuple[facts.SnapshotOffer, ...], folder: str | None, why: str) -> None:
    story = Story()
    node(story, "n1", offer())
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    node(story, "n2", *offers, folder=folder)
    story.time += 10 * MINUTE
    evict(story, "job")
    story.drain("n1")
    save(story, "job")
    task = story.job("job").tasks[0]
    assert (story.state.nodes[task.node].name, task.not_restored) == ("n2", why)
    assert (restore_of(story) is None) == bool(why)
    about = {**story.at("job", 0), "incarnation": "n2-life-1", "number": 9}
    (started,) = facts_of_report(story.state, TaskStartedReport(**about))
    assert started.not_restored == why
    assert started.lost_gpu_ms == (pytest.approx(WORK, abs=10_000) if why else 0)
    story.cycle(started)
    assert (story.job("job").snapshot is None) == bool(why)
    assert accounted(story)[1:] == ([("restore", started.lost_gpu_ms)] if why else [])


@pytest.mark.parametrize(("elsewhere", "why"), [(False, ""), (True, "other-cpu")])
def test_an_agent_that_started_again_meanwhile_restores_what_it_has_saved(elsewhere: bool, why: str) -> None:
    story = Story()
    node(story, "n1", offer())
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    evict(story, "job")
    node(story, "n1")  # its agent is trying CRIU, so nothing is known of its CPU
    if elsewhere:
        node(story, "n2", offer())
        story.drain("n1")
    save(story, "job")
    node(story, "n1", offer())
    task = story.job("job").tasks[0]
    kept = story.job("job").snapshot
    assert kept is not None
    assert why_not_restored(story.state, story.job("job"), kept) == why
    assert story.state.nodes[task.node].name == ("n2" if elsewhere else "n1")
    story.holds()


def test_on_its_own_node_no_shared_folder_is_needed() -> None:
    story = Story()
    node(story, "n1", offer(), folder=None)
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    evict(story, "job")
    save(story, "job")
    assert restore_of(story) is not None
    node(story, "n1", offer(), folder=None, boot=2)
    assert restore_of(story) is not None, "the same machine after a reboot"


def test_a_later_checkpoint_of_the_job_replaces_the_snapshot(story: Story) -> None:
    evict(story, "job")
    save(story, "job")
    story.started("job")
    saved = facts.Checkpoint(step=7, bytes=1, duration=1, sha256=digest("own"))
    story.cycle(facts.TaskProgressed(**story.at("job", 0), step=7, checkpoint=saved))
    assert story.job("job").snapshot is None


def test_a_snapshot_that_fails_loses_work_and_counts_until_one_is_stored(story: Story) -> None:
    evict(story, "job")
    stage(story, "job", "frozen", driver="criu")
    stage(story, "job", "save_failed", driver="criu", reason="it has a socket to elsewhere")
    assert loss_now(story.state, story.job("job"), 1000 * GPUS).work == pytest.approx(WORK, abs=10_000)
    story.ends("job", -15)
    requeued = next(iter(story.decisions("JobRequeued")))
    assert requeued.lost_gpu_ms == pytest.approx(WORK + GPUS * 60_000, abs=10_000)
    story.started("job")
    story.time += MINUTE
    story.cycle(facts.ClockAdvanced())
    assert loss_now(story.state, story.job("job"), 1000 * GPUS).work > 0
    evict(story, "job")
    save(story, "job")
    assert story.job("job").unsaved_seq is None
    story.holds()


def test_a_crash_before_the_snapshot_is_complete_loses_the_work(story: Story) -> None:
    evict(story, "job")
    stage(story, "job", "frozen", driver="criu")
    story.ends("job", -9)
    requeued = next(iter(story.decisions("JobRequeued")))
    assert (requeued.outcome, requeued.lost_gpu_ms > WORK) == ("preempted-unclean", True)


def test_an_eviction_can_no_longer_be_cancelled_once_the_task_stands_still(story: Story) -> None:
    from bailiff_core.model.evictions import active_evictions

    evict(story, "job")
    assert not next(active_evictions(story.state)).too_late
    stage(story, "job", "frozen", driver="criu")
    assert next(active_evictions(story.state)).too_late


@pytest.mark.parametrize("mode", ["job", "snapshot", "auto", "none"])
def test_what_the_node_is_told(mode: str) -> None:
    story = Story()
    node(story, "n1", offer())
    story.runs("job", gpus=GPUS, checkpoint=mode)
    (command,) = evict(story, "job")
    assert (command.save, command.term_after is None) == (mode, mode == "none")


@pytest.mark.parametrize("why", ["no driver", "it does not work", "it ends", "it is cancelled"])
def test_where_a_snapshot_is_of_no_use_the_job_saves_itself(why: str) -> None:
    story = Story()
    node(story, "n1", *{"no driver": (), "it does not work": (offer("no privilege"),)}.get(why, (offer(),)))
    story.runs("job", gpus=GPUS, checkpoint="snapshot", on_eviction="end" if why == "it ends" else "requeue")
    story.time += MINUTE
    if why == "it is cancelled":
        story.cancel("job")
        story.begin("job")
        (command,) = (each for each in pending_commands(story.state) if isinstance(each, Evict))
    else:
        story.evict("job")
        story.begin("job")
        (command,) = (each for each in pending_commands(story.state) if isinstance(each, Evict))
        assert loss_now(story.state, story.job("job"), 1000, for_good=why == "it ends") != NO_LOSS
    assert command.save == "job"


def test_with_none_its_own_checkpoints_do_not_make_it_cheaper() -> None:
    found: dict[str, Loss] = {}
    for mode in ("job", "none"):
        story = Story()
        node(story, "n1")
        story.runs("job", gpus=GPUS, checkpoint=mode)
        saved = facts.Checkpoint(step=7, bytes=1, duration=1, sha256=digest("own"))
        story.cycle(facts.TaskProgressed(**story.at("job", 0), step=7, checkpoint=saved), after=10 * MINUTE)
        story.cycle(facts.ClockAdvanced(), after=SECOND)
        found[mode] = loss_now(story.state, story.job("job"), 1000 * GPUS)
    assert (found["job"].work, found["none"].work) == (GPUS * 1_000, pytest.approx(WORK, abs=10_000))


def test_a_class_says_it_for_its_jobs_and_a_job_for_itself() -> None:
    classes = [{"name": "batch", "value": 10, "preemptible": True, "global_default": True, "checkpoint": "auto"}]
    story = Story(policy(priority_classes=classes))
    node(story, "n1", offer())
    story.submit("by-class")
    story.submit("by-itself", checkpoint="none")
    story.submit("gang", tasks=2)
    modes = {name: checkpointing(story.state.rules, story.job(name)) for name in ("by-class", "by-itself", "gang")}
    assert modes == {"by-class": "auto", "by-itself": "none", "gang": "auto"}


@pytest.mark.parametrize(
    ("tasks", "spec", "why"),
    [
        (2, {"runtime": "docker", "image": "python:3"}, "the runtime docker"),
        (1, {"tty": True}, "a terminal"),
    ],
)
def test_what_no_node_saves_is_refused_or_saves_itself(tasks: int, spec: dict[str, Any], why: str) -> None:
    story = Story()
    node(story, "n1", offer(), labels={"bailiff.runtime/docker": "true"})
    context = Context(story.state, PERMITTED, story.request())

    def submitted(mode: str) -> Any:
        demand = JobDemand(job="job", tasks=(TaskGroup(count=tasks, cpu_milli=100),), checkpoint=mode)
        return admit(context, facts.SubmitJob(demand=demand, spec=JobSpec(command="true", **spec)))

    refused = submitted("snapshot")
    assert isinstance(refused, Rejected)
    assert refused.code == "no-snapshot"
    assert why in refused.reason
    story.cycle(submitted("auto"))
    assert checkpointing(story.state.rules, story.job("job")) == "job"


@pytest.mark.parametrize(("gib", "is_told"), [(100, False), (200, True)])
def test_a_grace_too_short_to_save_is_told_by_the_plan(gib: int, is_told: bool) -> None:
    story = Story()
    node(story, "n1", offer())
    demand = JobDemand(job="job", tasks=(TaskGroup(memory_bytes=gib * 2**30),), checkpoint="snapshot")
    _, sentences = predict(story.state, demand, story.time)
    assert any("its grace of 2m30s may be too short for a snapshot" in each for each in sentences) == is_told, sentences


def listed(*rows: NodeRow) -> str:
    """What `bailiff nodes` prints."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(listed_table([ListedNode(**row, left_folders=0, left_example="") for row in rows]))
    return capture.get()


def test_nodes_that_cannot_save_are_counted_and_named_where_jobs_ask_for_it() -> None:
    story = Story()
    node(story, "n1", offer())
    node(story, "n2", offer("the kernel has no CONFIG_CHECKPOINT_RESTORE"))
    story.submit("plain")
    assert snapshot_checks(story.state) == []
    story.submit("saved", checkpoint="auto")
    (found,) = snapshot_checks(story.state)
    assert "n2 cannot save the 1 job" in found["found"]
    assert "CONFIG_CHECKPOINT_RESTORE" in found["found"]
    samples = {labels: value for metric, labels, value in pool_samples(story.state) if metric.name == "bailiff_snapshot_drivers"}
    assert samples == {("criu", "works"): 1, ("criu", "fails"): 1}
    row, other = node_rows(story.state)
    told = "No node can save a running program"
    assert told not in listed(row, other)
    assert f"{told} (checkpoint: snapshot): the kernel has no CONFIG_CHECKPOINT_RESTORE; to install it: " in listed(other)
    assert row["snapshots"] == [{"driver": "criu", "version": "4.2", "why_not": "", "bytes_per_s": 10**9}]


# --- gangs


@pytest.fixture
def gang() -> Story:
    """A gang of two, one task on each of two nodes, is evicted by request, and has its notice."""
    story = Story()
    node(story, "n1", offer())
    node(story, "n2", offer())
    story.runs("job", gpus=GPUS, tasks=2, checkpoint="snapshot")
    story.time += 10 * MINUTE
    story.evict("job")
    story.begin("job")
    commands = [each for each in pending_commands(story.state) if isinstance(each, Evict)]
    assert {(each.save, each.together) for each in commands} == {("snapshot", True)}
    for index in (0, 1):
        of_task(story, index, "noticed")
    return story


def of_task(story: Story, index: int, name: str, **fields: Any) -> None:
    said = {"sha256": digest(f"manifest {index}"), "bytes": 2**30} if name == "stored" else {}
    about = {**story.at("job", index), "stage": name, "driver": "criu", **said, **fields}
    story.cycle(facts.EvictionStageReached.model_validate(about))


def told(story: Story) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.step, each.tasks) for each in pending_snapshot_steps(story.state)]


def saved_gang(story: Story) -> None:
    for name in ("frozen", "dumped", "stored"):
        for index in (0, 1):
            of_task(story, index, name)
    story.ends("job", -9)


def test_a_gang_is_dumped_once_all_of_it_is_frozen_and_ends_once_all_of_it_is_stored(gang: Story) -> None:
    of_task(gang, 0, "frozen")
    assert told(gang) == []
    of_task(gang, 1, "frozen")
    assert told(gang) == [("dump", (0,)), ("dump", (1,))]
    of_task(gang, 0, "dumped")
    assert told(gang) == [("dump", (1,))]
    of_task(gang, 0, "stored")
    assert told(gang) == [("dump", (1,))]
    assert gang.job("job").snapshot is None
    of_task(gang, 1, "dumped")
    of_task(gang, 1, "stored")
    assert told(gang) == [("end", (0,)), ("end", (1,))]
    kept = gang.job("job").snapshot
    assert kept is not None
    assert [(each.task, each.sha256) for each in kept.tasks] == [(index, digest(f"manifest {index}")) for index in (0, 1)]
    assert kept.work_gpu_ms == pytest.approx(2 * WORK, abs=20_000)
    gang.ends("job", -9)
    assert next(iter(gang.decisions("JobRequeued"))).lost_gpu_ms == 2 * GPUS * 60_000, "its restart, but no work"
    gang.holds()


@pytest.mark.parametrize("why", ["save_failed", "acknowledged", "term_sent", "it ends"])
@pytest.mark.parametrize("until", ["frozen", "dumped", "stored"])
def test_a_gang_of_which_one_task_is_not_saved_goes_on_whole(gang: Story, until: str, why: str) -> None:
    for name in ("frozen", "dumped", "stored")[: ("frozen", "dumped", "stored").index(until) + 1]:
        of_task(gang, 0, name)
    if why == "it ends":
        gang.cycle(facts.TaskExited(**gang.at("job", 1), exit_code=1))
    else:
        of_task(gang, 1, why)
    assert told(gang) == [("thaw", (0,))]
    of_task(gang, 0, "save_failed", reason="another task of its gang is not saved")
    assert told(gang) == []
    assert gang.job("job").snapshot is None
    gang.holds()


def restored(story: Story, index: int, **fields: Any) -> list[Any]:
    """What is recorded of the report."""
    about = {**story.at("job", index), "from_attempt": 1, "driver": "criu", "bytes": 2**30, **fields}
    incarnation = story.state.nodes[story.job("job").tasks[index].node].incarnation
    return facts_of_report(story.state, TaskRestoredReport(incarnation=incarnation, number=9, **about))


def not_restored(story: Story, index: int) -> list[Any]:
    about = {**story.at("job", index), "from_attempt": 1, "driver": "criu", "reason": "a taken port"}
    incarnation = story.state.nodes[story.job("job").tasks[index].node].incarnation
    return facts_of_report(story.state, TaskRestoreFailedReport(incarnation=incarnation, number=9, **about))


def test_a_gang_continues_once_all_of_it_is_restored(gang: Story) -> None:
    saved_gang(gang)
    assert all(task.restores for task in gang.job("job").tasks)
    gang.started("job")
    gang.cycle(*restored(gang, 0, waits=True))
    assert told(gang) == []
    assert restored(gang, 0) == [], "it was not told to continue"
    gang.cycle(*restored(gang, 1, waits=True))
    assert told(gang) == [("continue", (0,)), ("continue", (1,))]
    assert not_restored(gang, 1) == [], "another may continue already"
    gang.cycle(*restored(gang, 0))
    assert told(gang) == [("continue", (1,))]
    gang.cycle(*restored(gang, 1))
    assert told(gang) == []
    assert restored(gang, 1) == [], "a repeat"
    gang.holds()


def test_a_gang_of_which_one_task_is_not_restored_starts_anew_whole(gang: Story) -> None:
    saved_gang(gang)
    gang.started("job")
    gang.cycle(*restored(gang, 0, waits=True))
    (failed,) = not_restored(gang, 1)
    assert failed.lost_gpu_ms == pytest.approx(2 * WORK, abs=20_000)
    gang.cycle(failed)
    assert gang.job("job").snapshot is None
    assert told(gang) == [("anew", (0,))]
    assert restored(gang, 0) == []
    (failed,) = not_restored(gang, 0)
    assert failed.lost_gpu_ms == 0, "counted once"
    gang.cycle(failed)
    assert told(gang) == []
    gang.holds()


def test_a_gang_of_which_one_place_cannot_restore_starts_anew_whole(gang: Story) -> None:
    for name in ("frozen", "dumped", "stored"):
        for index in (0, 1):
            of_task(gang, index, name)
    node(gang, "n2", offer(cpu=OTHER_CPU))
    gang.ends("job", -9)
    assert [(task.not_restored, task.restores) for task in gang.job("job").tasks] == [("other-cpu", False)] * 2


def test_no_node_saves_a_part_of_a_job(gang: Story) -> None:
    from bailiff_core.model.evictions import evictions_of
    from bailiff_core.model.snapshots import saved_by

    (whole,) = evictions_of(gang.job("job"))
    assert saved_by(gang.state, whole) == "snapshot"
    part = type(whole)(whole.job, whole.eviction, whole.tasks[:1], "0")
    assert saved_by(gang.state, part) == "job"


def test_what_was_measured_is_called_so_once_the_job_is_gone() -> None:
    from bailiff_core.model.proposal import VictimChoice
    from bailiff_core.model.work_lost import victim_loss

    choice = VictimChoice(job="gone", attempt=1, priority=50, gpus=1, lost_gpu_ms=5000, measured=True)
    assert victim_loss(PoolState(), choice) == Loss(0, 0, 5000)


# --- while it runs


def ask(story: Story, job: str = "job") -> facts.JobCheckpointRequested | Rejected:
    body = facts.CheckpointJob(job=job, reason="before the new script")
    found = admit(Context(story.state, PERMITTED, story.request()), body)
    assert isinstance(found, facts.JobCheckpointRequested | Rejected)
    return found


def order(story: Story, job: str = "job") -> list[SaveTasks]:
    """Somebody has it saved while it runs. Returns the commands to its nodes."""
    asked = ask(story, job)
    assert isinstance(asked, facts.JobCheckpointRequested), asked
    story.cycle(asked)
    return [*pending_saves(story.state)]


def report(story: Story, name: str, task: int = 0, *, job: str = "job", seq: int | None = None, **fields: Any) -> bool:
    """Its node reports a stage of that. Returns whether it is recorded."""
    about = {**story.at(job, task), "number": 9, "ordered_by": seq or story.job(job).saving_seq, "driver": "criu"}
    about["incarnation"] = story.state.nodes[story.state.node_numbers[about["node"]]].incarnation
    found = facts_of_report(story.state, SnapshotStageReport.model_validate({**about, "stage": name, **fields}))
    assert not isinstance(found, Rejected)
    if found:
        story.cycle(*found)
    return bool(found)


def stored_running(story: Story, sha256: str = MANIFEST, job: str = "job") -> None:
    for name, fields in (("frozen", {}), ("dumped", {"bytes": 2**30}), ("stored", {"bytes": 2**30, "sha256": sha256})):
        assert report(story, name, job=job, **fields)


def test_a_running_job_is_saved_on_request_and_only_what_came_after_it_is_lost_with_its_node(story: Story) -> None:
    (command,) = order(story)
    assert (command.node, command.tasks, command.together, command.ordered_by.seq) == ("n1", (0,), False, story.state.seq)
    stored_running(story)
    assert [*pending_saves(story.state)] == []
    assert story.job("job").phase == "running"
    kept = story.job("job").snapshot
    assert kept is not None
    assert (kept.attempt, kept.work_gpu_ms) == (1, pytest.approx(WORK, abs=10_000))
    story.time += MINUTE
    story.lost("n1")
    requeued = next(iter(story.decisions("JobRequeued")))
    assert requeued.lost_gpu_ms == pytest.approx(2 * GPUS * 60_000, abs=40_000), "a minute of work, and its restart"
    assert story.state.nodes[story.job("job").tasks[0].node].name == "n2"
    assert restore_of(story) == SnapshotRef(attempt=1, driver="criu", sha256=MANIFEST, bytes=2**30)
    story.started("job")
    story.cycle(*facts_of_report(story.state, of_snapshot(story, TaskRestoredReport, bytes=2**30)))
    assert story.job("job").tasks[0].restored
    story.holds()


def test_an_eviction_after_it_saves_all_of_the_work_once(story: Story) -> None:
    order(story)
    stored_running(story, digest("first"))
    story.time += 10 * MINUTE
    evict(story, "job")
    save(story, "job")
    kept = story.job("job").snapshot
    assert kept is not None
    assert (kept.tasks[0].sha256, kept.work_gpu_ms) == (MANIFEST, pytest.approx(2 * WORK, abs=20_000))
    story.holds()


def test_a_job_whose_eviction_cannot_save_it_loses_only_what_came_after_its_last_snapshot(story: Story) -> None:
    order(story)
    stored_running(story)
    story.time += MINUTE
    evict(story, "job")
    stage(story, "job", "frozen", driver="criu")
    stage(story, "job", "save_failed", driver="criu", reason="it has a socket to elsewhere")
    story.ends("job", -15)
    assert next(iter(story.decisions("JobRequeued"))).lost_gpu_ms == pytest.approx(2 * GPUS * 60_000, abs=40_000)
    assert restore_of(story) is not None


def test_one_that_fails_is_told_and_changes_nothing(story: Story) -> None:
    order(story)
    before = loss_now(story.state, story.job("job"), 1000 * GPUS)
    assert report(story, "frozen")
    assert report(story, "save_failed", reason="it has an open TCP connection")
    job = story.job("job")
    assert (job.phase, job.snapshot, job.saving_seq) == ("running", None, None)
    assert loss_now(story.state, job, 1000 * GPUS) == before
    assert order(story), "it can be tried again"


def test_reports_of_an_earlier_order_and_repeats_say_nothing(story: Story) -> None:
    order(story)
    first = story.job("job").saving_seq
    assert report(story, "frozen")
    assert not report(story, "frozen")
    assert report(story, "save_failed", reason="the disk is full")
    assert not report(story, "stored", seq=first, bytes=1, sha256=MANIFEST), "it is over"
    order(story)
    assert not report(story, "stored", seq=first, bytes=1, sha256=MANIFEST)
    assert not report(story, "noticed"), "no stage of a snapshot"
    assert story.job("job").snapshot is None


def test_who_cannot_be_saved_while_it_runs_is_refused(story: Story) -> None:
    story.submit("waits", gpus=2 * GPUS)
    story.runs("own", gpus=1, checkpoint="job")
    order(story)
    found = {name: ask(story, name) for name in ("job", "waits", "own")}
    said = {name: (each.code, each.reason) for name, each in found.items() if isinstance(each, Rejected)}
    assert said["job"] == ("being-saved", f"job is being saved already, since #{story.job('job').saving_seq}")
    assert said["waits"][0] == "not-running"
    why = "own cannot be saved: its checkpoint is neither snapshot nor auto, so no node was to save it"
    assert said["own"] == ("cannot-save", why)


def test_a_project_whose_snapshots_hold_its_quota_gets_no_other_one() -> None:
    story = Story(rules=policy(snapshots=SnapshotRules(project_quota=2**30)))
    node(story, "n1", offer())
    node(story, "n2", offer())
    for name in ("job", "other"):
        story.runs(name, gpus=GPUS, checkpoint="snapshot")
    other = story.job("other")
    story.time += 10 * MINUTE
    assert loss_now(story.state, other, 1000 * GPUS).work == 0, "it would be saved"
    order(story)
    stored_running(story)
    assert loss_now(story.state, other, 1000 * GPUS).work > 0, "its eviction loses work now, and costs it as a victim"
    why = "the snapshots of jobs without a project hold 1GiB, and the policy keeps 1GiB (snapshots.project_quota)"
    found = ask(story, "other")
    assert isinstance(found, Rejected)
    assert found.reason == f"other cannot be saved: {why}"
    assert f"No node saves it when it is evicted: {why}." in [each.text for each in claim_sentences(story.state, other)]
    assert not isinstance(ask(story, "job"), Rejected), "its own would be replaced"
    (command,) = evict(story, "other")
    assert command.save == "job"
    story.holds()
    story.ends("job", 0)
    story.ends("other", 85)
    assert not over_quota(story.state, other), "what has ended holds nothing"


@pytest.mark.parametrize("quota", [2**30 - 1, 2**30])
def test_a_snapshot_that_exceeds_the_quota_is_not_replaced(quota: int) -> None:
    story = Story(rules=policy(snapshots=SnapshotRules(project_quota=quota)))
    node(story, "n1", offer())
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    order(story)
    stored_running(story)
    assert isinstance(ask(story), Rejected) == (quota < 2**30)
    story.time += MINUTE
    story.cycle(facts.ClockAdvanced())
    assert (loss_now(story.state, story.job("job"), 1000 * GPUS).work == 0) == (quota >= 2**30)
    story.holds()


def test_a_projects_own_quota_bounds_it_with_those_below_in_place_of_the_policys() -> None:
    kept = ProjectSnapshots(quota=3 * 2**29)
    projects = Project(name="org", snapshots=kept), *(Project(name=name, parent="org") for name in ("vision", "text"))
    story = Story(rules=policy(snapshots=SnapshotRules(project_quota=2**40), projects=projects))
    node(story, "n1", offer())
    node(story, "n2", offer())
    for name, project in (("see", "vision"), ("read", "text"), ("free", None)):
        story.runs(name, gpus=1, checkpoint="snapshot", project=project)
    for name in ("see", "read"):
        assert not over_quota(story.state, story.job(name)), "1 GiB at most is held, and 1.5 GiB are for both"
        order(story, name)
        stored_running(story, job=name)
    why = "the snapshots of project org hold 2GiB, and the policy keeps 1.5GiB (projects.org.snapshots.quota)"
    for name in ("see", "read"):
        assert over_quota(story.state, story.job(name)) == why
    assert not over_quota(story.state, story.job("free")), "a job of no project has the policy's"
    story.holds()


KEPT = {
    "by nobody's rule": (SnapshotRules(), ProjectSnapshots(), None),
    "by the policy": (SnapshotRules(kept_for=30 * MINUTE), ProjectSnapshots(), 30),
    "by its project": (SnapshotRules(kept_for=30 * MINUTE), ProjectSnapshots(kept_for=90 * MINUTE), 90),
}


@pytest.mark.parametrize("by", KEPT)
def test_the_snapshot_of_a_job_that_does_not_run_is_kept_as_long_as_is_said(by: str) -> None:
    general, own, minutes = KEPT[by]
    story = Story(
        rules=policy(snapshots=general, projects=(Project(name="org", snapshots=own), Project(name="vision", parent="org")))
    )
    node(story, "n1", offer())
    story.runs("job", gpus=GPUS, checkpoint="snapshot", project="vision")
    story.wait(120 * MINUTE)
    order(story)
    stored_running(story)
    story.wait(120 * MINUTE)
    assert [*story.decisions("SnapshotExpired")] == [], "it runs"
    story.pause("job")
    story.begin("job")
    stage(story, "job", "noticed")
    save(story, "job")
    kept = story.job("job").snapshot
    assert kept is not None
    told = [each.text for each in claim_sentences(story.state, story.job("job")) if "snapshot" in each.text]
    kept_until = {
        30: "30m while it does not run (snapshots.kept_for)",
        90: "1h30m while it does not run (projects.org.snapshots.kept_for)",
    }
    assert told == ([f"Its snapshot of attempt 1 is kept for another {kept_until[minutes]}."] if minutes else [])
    story.wait((minutes or 600) * MINUTE - 1_000_000)
    assert [*story.decisions("SnapshotExpired")] == []
    story.wait(2_000_000)
    over = [(each.job, each.attempt, each.lost_gpu_ms) for each in story.decisions("SnapshotExpired")]
    assert over == ([("job", 1, kept.work_gpu_ms)] if minutes else [])
    assert (story.job("job").snapshot is None) == bool(minutes)
    story.holds()
    assert accounted(story)[1:] == ([("restore", kept.work_gpu_ms)] if minutes else [])
    story.resume("job")
    assert (restore_of(story) is None) == bool(minutes), "it begins anew"


def test_a_node_that_saves_nothing_is_named() -> None:
    story = Story()
    node(story, "n1", offer("no privilege"))
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    found = ask(story)
    assert isinstance(found, Rejected)
    assert (found.code, found.reason) == ("cannot-save", "job cannot be saved: n1 saves no tasks")


def intervals(**rules: Any) -> Story:
    story = Story(rules=policy(snapshots=SnapshotRules(**rules)))
    node(story, "n1", offer())
    node(story, "n2", offer())
    return story


def due(story: Story) -> list[str]:
    return [each.job for each in story.decisions("JobCheckpointDue")]


def test_a_job_is_saved_as_often_as_it_says_and_the_policy_allows() -> None:
    story = intervals(min_interval=20 * MINUTE)
    story.runs("job", gpus=GPUS, checkpoint="snapshot", checkpoint_every=5 * MINUTE)
    story.runs("never", gpus=GPUS, checkpoint="snapshot")
    story.wait(19 * MINUTE)
    assert due(story) == []
    story.wait(2 * MINUTE)
    assert due(story) == ["job"], "at the policy's interval"
    story.wait(60 * MINUTE)
    assert due(story) == ["job"], "not again while it is being saved"
    stored_running(story)
    assert due(story) == ["job", "job"]
    report(story, "save_failed", reason="the disk is full")
    story.wait(19 * MINUTE)
    assert due(story) == ["job", "job"], "one that fails is tried again at the next interval"
    story.wait(2 * MINUTE)
    assert due(story) == ["job", "job", "job"]
    story.holds()


def test_not_all_jobs_are_saved_at_once() -> None:
    story = intervals(at_once=2)
    for name in ("a", "b", "c", "d"):
        story.runs(name, gpus=1, checkpoint="auto", checkpoint_every=20 * MINUTE)
    story.wait(30 * MINUTE)
    assert due(story) == ["a", "b"]
    report(story, "save_failed", job="b", reason="io_uring")
    assert due(story) == ["a", "b", "c"], "one at a time takes the place of another"
    story.holds()


def test_jobs_that_are_saved_by_request_hold_up_no_interval() -> None:
    story = intervals(at_once=1)
    for name in ("mine", "mine-too"):
        story.runs(name, gpus=1, checkpoint="auto")
    story.runs("theirs", gpus=1, checkpoint="auto", checkpoint_every=20 * MINUTE)
    story.wait(19 * MINUTE)
    for name in ("mine", "mine-too"):
        order(story, name)
    story.wait(2 * MINUTE)
    assert due(story) == ["theirs"]
    story.holds()


def test_a_node_that_never_says_that_it_has_saved_a_job_keeps_others_waiting_for_an_hour() -> None:
    story = intervals(at_once=1)
    for name in ("a", "b"):
        story.runs(name, gpus=1, checkpoint="auto", checkpoint_every=20 * MINUTE)
    story.wait(21 * MINUTE)
    assert due(story) == ["a"]
    asked = story.job("a").saving_since
    assert asked is not None
    story.wait(58 * MINUTE)
    assert due(story) == ["a"]
    assert wake_at(story.state) == asked + 60 * MINUTE
    story.wait(2 * MINUTE)
    assert due(story) == ["a", "b"]
    story.holds()


def test_an_interval_without_a_node_that_saves_is_refused(story: Story) -> None:
    spec = JobSpec(command="true")
    for mode, accepted in (("snapshot", True), ("auto", True), ("job", False), (None, False)):
        demand = JobDemand(job="new", tasks=(TaskGroup(count=1, gpu_milli=1000),), checkpoint=mode, checkpoint_every=MINUTE)
        found = admit(Context(story.state, PERMITTED, story.request()), facts.SubmitJob(demand=demand, spec=spec))
        assert isinstance(found, Rejected) != accepted
        assert accepted or (isinstance(found, Rejected) and found.code == "no-snapshot")


@pytest.fixture
def running_gang() -> Story:
    """A gang of two, one task on each of two nodes, is saved while it runs."""
    story = Story()
    node(story, "n1", offer())
    node(story, "n2", offer())
    story.runs("job", gpus=GPUS, tasks=2, checkpoint="snapshot")
    story.time += 10 * MINUTE
    assert all(command.together for command in order(story))
    return story


def test_a_gang_is_dumped_once_all_of_it_is_frozen_and_kept_once_all_of_it_is_stored(running_gang: Story) -> None:
    report(running_gang, "frozen", 0)
    assert told(running_gang) == []
    report(running_gang, "frozen", 1)
    assert told(running_gang) == [("dump", (0,)), ("dump", (1,))]
    report(running_gang, "dumped", 0)
    report(running_gang, "stored", 0, bytes=1, sha256=MANIFEST)
    assert told(running_gang) == [("dump", (1,))]
    assert running_gang.job("job").snapshot is None
    report(running_gang, "stored", 1, bytes=1, sha256=digest("other"))
    kept = running_gang.job("job").snapshot
    assert kept is not None
    assert [each.sha256 for each in kept.tasks] == [MANIFEST, digest("other")]
    running_gang.holds()


@pytest.mark.parametrize("how", ["fails", "exits"])
def test_a_gang_of_which_one_task_is_not_saved_keeps_its_older_snapshot(running_gang: Story, how: str) -> None:
    for task, sha256 in ((0, digest("old-0")), (1, digest("old-1"))):
        report(running_gang, "frozen", task)
        report(running_gang, "stored", task, bytes=1, sha256=sha256)
    older = running_gang.job("job").snapshot
    order(running_gang)
    report(running_gang, "frozen", 0)
    if how == "fails":
        report(running_gang, "save_failed", 1, reason="io_uring")
    else:
        running_gang.cycle(facts.TaskExited(**running_gang.at("job", 1), exit_code=0))
    assert told(running_gang) == [("thaw", (0,))]
    report(running_gang, "save_failed", 0, reason="another task of its gang is not saved")
    job = running_gang.job("job")
    assert (job.saving_seq, job.snapshot) == (None, older)


def test_what_is_evicted_meanwhile_is_not_told_to_be_saved_any_more(story: Story) -> None:
    order(story)
    evict(story, "job")
    assert [*pending_saves(story.state)] == []
    assert report(story, "save_failed", reason="it ends")
    save(story, "job")
    assert story.job("job").saving_seq is None
    story.holds()


def test_a_lost_attempt_takes_its_order_along(story: Story) -> None:
    order(story)
    report(story, "frozen")
    story.lost("n1")
    job = story.job("job")
    assert (job.saving_seq, [*story.state.saving], job.attempt) == (None, [], 2)
    story.started("job")
    assert order(story)
    story.holds()
