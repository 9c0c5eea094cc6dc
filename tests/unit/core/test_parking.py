"""Parked jobs: who is, what that costs, where they go on, and what becomes of them if they do not."""

from typing import Any

import pytest
from tests.kits.log_builder import MINUTE, Story, digest, policy

from bailiff.render.serializers.nodes import node_rows
from bailiff_admission.ended_snapshots import EndedSnapshots
from bailiff_admission.pending_commands import start_command
from bailiff_admission.request_handlers.reports import facts_of_report, orphans_of
from bailiff_bus.messages.commands import Evict, SaveTasks
from bailiff_bus.messages.reports import NodeInventory, SnapshotStageReport, TaskRestoredReport, TaskStartedReport, TrackedTask
from bailiff_core.explain.claims import claim_sentences
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.parking import parked_bytes, why_not_parked
from bailiff_core.model.snapshots import snapshot_bytes
from bailiff_core.model.work_lost import Loss, loss_now
from bailiff_core.records import facts
from bailiff_eviction_executor.pending_messages import pending_commands, pending_saves
from bailiff_log.accounting_rows import lost_work_of
from bailiff_service.metrics import PARKED_JOBS, PARKING_MEMORY
from bailiff_service.pool_metrics import pool_samples

GIB = 1 << 30
CRIU = facts.SnapshotOffer(driver="criu", version="4.2", bytes_per_s=10**9, cpu=digest("avx512"))
PARKED, STORED, ON_DISK = digest("parked"), digest("manifest"), digest("on disk")
GROUP = TaskGroup(count=1, cpu_milli=16_000, memory_bytes=4 * GIB)
"""Counts as one GPU."""


def joins(
    story: Story, name: str, parking: int = 10 * GIB, *, criu: bool = True, machine: str | None = None, **about: Any
) -> None:
    joined = story.joined(name, gpus=0, cpu=16, gib=100, **about)
    joined = joined.model_copy(update={"machine_id": machine or joined.machine_id})
    offer = facts.ParkingOffer(memory_bytes=parking) if parking else None
    story.cycle(joined.model_copy(update={"snapshots": (CRIU,) if criu else (), "parking": offer}))


def runs(story: Story, job: str, *groups: TaskGroup, **about: Any) -> None:
    story.runs(job, *(groups or (GROUP,)), **{"checkpoint": "snapshot", **about})


def stage(story: Story, job: str, name: str, **fields: Any) -> None:
    story.cycle(facts.EvictionStageReached.model_validate({**story.at(job, 0), "stage": name, **fields}))


def begins(story: Story, job: str) -> Evict:
    story.evict(job)
    story.begin(job)
    (command,) = [each for each in pending_commands(story.state) if isinstance(each, Evict)]
    return command


def is_parked(story: Story, job: str = "job", held: int = 3 * GIB, sha256: str = PARKED) -> None:
    assert begins(story, job).park
    stage(story, job, "noticed")
    stage(story, job, "frozen", driver="park")
    stage(story, job, "parked", driver="park", bytes=held, sha256=sha256)
    at = story.at(job, 0)
    story.cycle(facts.TaskReleased(**at))


def saved(story: Story, name: str, **fields: Any) -> list[Any]:
    """What the log takes of the node's report about the parked task."""
    job = story.job("job")
    assert job.snapshot is not None
    node = story.state.nodes[story.state.node_numbers["n1"]]
    about = {"job": "job", "attempt": job.snapshot.attempt, "task": 0, "node": "n1", "incarnation": node.incarnation}
    report = SnapshotStageReport(**about, number=99, ordered_by=job.snapshot.save_seq, stage=name, **fields)
    found = facts_of_report(story.state, report)
    assert isinstance(found, list)
    if found:
        story.cycle(*found)
    return found


def free(story: Story, name: str = "n1") -> int:
    return next(row["parking_bytes_free"] for row in node_rows(story.state) if row["node"] == name)


@pytest.fixture
def story() -> Story:
    """One job without GPUs runs on a node that parks, for ten minutes; there is another node."""
    story = Story()
    joins(story, "n1")
    runs(story, "job")
    joins(story, "n2", 0)
    story.time += 10 * MINUTE
    story.cycle(facts.ClockAdvanced())
    return story


def test_a_parked_job_loses_nothing_waits_for_its_node_and_goes_on(story: Story) -> None:
    assert loss_now(story.state, story.job("job"), 1000) == Loss(0, 0, 0), "known beforehand"
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    (requeued,) = story.decisions("JobRequeued")
    assert (requeued.outcome, requeued.lost_gpu_ms, requeued.measured) == ("preempted", 0, True)
    job = story.job("job")
    assert (job.demand.tasks[0].nodes, job.phase) == (("n1",), "pending"), "n2 is free, and has not its memory"
    story.started("blocks")
    story.wait(MINUTE)
    story.ends("blocks")
    kept = story.job("job").snapshot
    assert kept is not None
    assert start_command(story.state, job, story.state.nodes[job.tasks[0].node], job.tasks, JobSpec(command="x")).tasks[
        0
    ].restore.model_dump() == {"attempt": 1, "driver": "park", "sha256": PARKED, "bytes": 3 * GIB}
    story.started("job")
    story.cycle(facts.TaskRestored(**story.at("job", 0), from_attempt=1, driver="park", bytes=3 * GIB, restored=200_000))
    assert (job.snapshot, job.demand.tasks[0].nodes, [*story.state.parked]) == (None, (), [])
    assert job.unsaved_before >= 10 * MINUTE, "nothing has its work but its memory: it is at risk again"
    took = loss_now(story.state, job, 1000)
    assert 0 < took.measured < 60_000, "less than a restart, as the last time"
    story.holds()


def test_of_two_nodes_on_one_machine_it_waits_for_the_one_that_has_it(story: Story) -> None:
    joins(story, "n3", machine="machine-n1")
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    assert story.job("job").tasks == []
    assert story.job("job").demand.tasks[0].nodes == ("n1",)
    assert (free(story, "n1"), free(story, "n3")) == (7 * GIB, 10 * GIB)
    at = {"node": "n3", "incarnation": "next", "number": 0, "boot_id": "n3-boot-1", "release": "1", "machine_id": "machine-n1"}
    found = facts_of_report(story.state, NodeInventory(cpu_milli=1, memory_bytes=1, **at))
    assert isinstance(found, list)
    assert [each for each in found if isinstance(each, facts.ParkedTaskStageReached)] == [], "the other node has it"
    lost = {"job": "job", "attempt": 1, "task": 0, "number": 9, "stage": "park_lost", "driver": "park"}
    assert facts_of_report(story.state, SnapshotStageReport(**lost, node="n3", incarnation=at["incarnation"])) == []
    story.cycle(facts.NodeUnreachable(node="n3", last_contact=story.time), facts.NodeLost(node="n3", last_contact=story.time))
    assert story.job("job").demand.tasks[0].nodes == ("n1",)
    story.holds()


def test_the_memory_counts_from_the_start_of_the_eviction(story: Story) -> None:
    runs(story, "more", GROUP.model_copy(update={"cpu_milli": 0, "memory_bytes": 7 * GIB, "nodes": ("n1",)}))
    assert free(story) == 10 * GIB
    assert begins(story, "job").park
    assert free(story) == 6 * GIB, "what it requests"
    assert why_not_parked(story.state, story.job("more")) == "the memory that n1 keeps for parked jobs is in use"
    assert loss_now(story.state, story.job("more"), 1000).assumed > 0
    for name, fields in (("noticed", {}), ("parked", {"driver": "park", "bytes": 3 * GIB, "sha256": PARKED})):
        stage(story, "job", name, **fields)
    assert free(story) == 7 * GIB, "what it holds"
    samples = {(metric, labels): value for metric, labels, value in pool_samples(story.state)}
    assert (samples[PARKED_JOBS, ()], samples[PARKING_MEMORY, ("in-use",)]) == (1, 3 * GIB)
    assert samples[PARKING_MEMORY, ("free",)] == 7 * GIB
    assert why_not_parked(story.state, story.job("more")) == ""
    story.holds()


@pytest.mark.parametrize(
    ("groups", "about", "why"),
    [
        ((GROUP.model_copy(update={"memory_bytes": 0}),), {}, "it requests no memory, so nobody knows what parking it takes"),
        ((GROUP.model_copy(update={"memory_bytes": 11 * GIB}),), {}, "the memory that n1 keeps for parked jobs is in use"),
        ((GROUP.model_copy(update={"count": 2, "cpu_milli": 1}),), {}, "only jobs of one task are parked"),
        ((GROUP,), {"checkpoint": "job"}, "its checkpoint is neither snapshot nor auto"),
    ],
)
def test_who_is_not_parked(groups: tuple[TaskGroup, ...], about: dict[str, Any], why: str) -> None:
    story = Story()
    joins(story, "n1")
    runs(story, "job", *groups, **about)
    assert why_not_parked(story.state, story.job("job")) == why
    assert not begins(story, "job").park


def test_a_job_with_a_gpu_is_parked_only_where_a_driver_takes_its_memory() -> None:
    for gpus, why in ((False, "n1 has no driver that takes its GPU memory"), (True, "")):
        story = Story()
        joined = story.joined("n1", gpus=1)
        offer = facts.ParkingOffer(memory_bytes=1000 * GIB, gpus=gpus)
        story.cycle(joined.model_copy(update={"parking": offer}))
        runs(story, "job", TaskGroup(count=1, gpu_milli=1000, memory_bytes=GIB))
        assert why_not_parked(story.state, story.job("job")) == why
        if gpus:
            begins(story, "job")
            assert parked_bytes(story.state)[0] == GIB + story.state.nodes[0].devices[0].memory_bytes


def test_the_policy_may_park_no_jobs(story: Story) -> None:
    story.apply_policy(_limit(None))
    assert why_not_parked(story.state, story.job("job")) == "the policy parks no jobs"


def _limit(limit: int | None) -> Any:
    return policy(snapshots={"park_limit": limit})


def test_of_equal_victims_the_one_that_can_be_parked_is_chosen() -> None:
    for parking in ("n1", "n2"):
        story = Story()
        for name in ("n1", "n2"):
            joins(story, name, 10 * GIB if name == parking else 0)
        for name in ("a", "b"):
            runs(story, name)
        story.wait(30 * MINUTE)
        story.submit("high", GROUP, cls="inference")
        story.propose_all()
        decided = [*story.decisions("PreemptionDecided")][-1]
        on = "a" if parking == "n1" else "b"
        assert [(each.job, each.parked) for each in decided.victims] == [(on, True)]


def test_after_its_limit_it_is_saved_to_disk_and_may_start_anywhere(story: Story) -> None:
    story.apply_policy(_limit(5 * MINUTE))
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    assert [*pending_saves(story.state)] == []
    story.wait(5 * MINUTE)
    (due,) = story.decisions("ParkedJobSaveDue")
    assert (due.why, due.attempt) == ("park-limit", 1)
    (order,) = pending_saves(story.state)
    assert isinstance(order, SaveTasks)
    assert (order.node, order.attempt, order.tasks) == ("n1", 1, (0,))
    for name in ("frozen", "dumped"):
        saved(story, name, driver="criu")
    assert [each.stage for each in saved(story, "stored", driver="criu", bytes=2 * GIB, sha256=STORED)] == ["stored"]
    assert ([*story.state.parked], [*pending_saves(story.state)], free(story)) == ([], [], 10 * GIB)
    job = story.job("job")
    assert job.snapshot is not None
    assert [(each.driver, each.sha256) for each in job.snapshot.tasks] == [("criu", STORED)]
    assert job.demand.tasks[0].nodes == ()
    story.holds()


@pytest.mark.parametrize(("what", "why"), [("drain", "drain"), ("policy", "policy")])
def test_it_is_saved_at_once_where_it_cannot_stay(story: Story, what: str, why: str) -> None:
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    if what == "drain":
        story.drain("n1")
    else:
        story.apply_policy(_limit(None))
    assert [each.why for each in story.decisions("ParkedJobSaveDue")] == [why]


def test_one_that_cannot_be_saved_stays_parked_and_may_begin_anew_elsewhere(story: Story) -> None:
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    (sentence,) = [each.text for each in claim_sentences(story.state, story.job("job")) if "parked" in each.text]
    assert sentence.startswith("It is parked on n1, where it holds 3GiB")
    assert "in 10m it is saved to disk (snapshots.park_limit)" in sentence
    story.wait(10 * MINUTE)
    saved(story, "save_failed", driver="criu", reason="it has an open TCP connection")
    job = story.job("job")
    assert ([*story.state.parked], [*pending_saves(story.state)]) == (["job"], [])
    assert story.state.nodes[job.tasks[0].node].name == "n2"
    story.cycle(facts.TaskStarted(**story.at("job", 0), not_restored=job.tasks[0].not_restored, lost_gpu_ms=1))
    assert (job.snapshot, [*story.state.parked]) == (None, [])
    story.holds()


def test_a_parked_task_that_is_gone_is_a_loss_on_record(story: Story) -> None:
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    (lost,) = saved(story, "park_lost", driver="park", reason="its processes have ended")
    assert lost.lost_gpu_ms == pytest.approx(600_000, abs=10_000)
    row = lost_work_of(story.state, story.records[-1])
    assert row is not None
    assert (row[1].outcome, row[1].work_gpu_ms) == ("not-restored", lost.lost_gpu_ms)
    story.wait(MINUTE)
    assert story.state.nodes[story.job("job").tasks[0].node].name == "n2", "it waits for n1 no more"
    story.holds()


def test_nobody_else_says_that_it_is_gone(story: Story) -> None:
    is_parked(story)
    job = story.job("job")
    at = {"job": "job", "attempt": 1, "task": 0, "number": 9, "stage": "park_lost", "driver": "park"}
    other = story.state.nodes[story.state.node_numbers["n2"]]
    assert facts_of_report(story.state, SnapshotStageReport(node="n2", incarnation=other.incarnation, **at)) == []
    assert job.snapshot is not None
    assert saved(story, "stored", driver="criu", bytes=1, sha256=STORED) == [], "nothing ordered that"


def inventory(story: Story, *tasks: TrackedTask, machine: str | None = None) -> NodeInventory:
    node = story.state.nodes[0]
    about = {"node": "n1", "incarnation": "next", "number": 0, "boot_id": node.boot_id, "release": "1", "tasks": tasks}
    return NodeInventory(machine_id=machine or node.machine_id, cpu_milli=1, memory_bytes=1, **about)


def test_the_next_agent_has_it_or_has_lost_it(story: Story) -> None:
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    tracked = TrackedTask(job="job", attempt=1, task=0, state="released", parked=True)
    found = facts_of_report(story.state, inventory(story, tracked))
    assert isinstance(found, list)
    assert not any(isinstance(each, facts.ParkedTaskStageReached) for each in found)
    assert [each.job for each in orphans_of(story.state, inventory(story, tracked))] == []
    other = tracked.model_copy(update={"attempt": 0})
    assert [each.attempt for each in orphans_of(story.state, inventory(story, other))] == [0], "the log does not have it"
    for tasks in ((), (tracked.model_copy(update={"parked": False}),)):
        found = facts_of_report(story.state, inventory(story, *tasks))
        assert isinstance(found, list)
        (lost,) = [each for each in found if isinstance(each, facts.ParkedTaskStageReached)]
        assert (lost.stage, lost.reason) == ("park_lost", "its node does not have it any more")


def test_where_its_node_is_lost_it_starts_elsewhere_and_the_record_says_what_that_loses(story: Story) -> None:
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    story.cycle(facts.NodeUnreachable(node="n1", last_contact=story.time))
    story.cycle(facts.NodeLost(node="n1", last_contact=story.time))
    story.wait(MINUTE)
    (task,) = story.job("job").tasks
    assert (story.state.nodes[task.node].name, task.not_restored) == ("n2", "other-node")


def test_what_nobody_needs_is_ended_by_its_node(story: Story) -> None:
    ended, records = EndedSnapshots(), len(story.records)
    story.submit("blocks", TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
    is_parked(story)
    story.cancel("job")
    commands = [each for record in story.records[records:] for each in ended.observe(story.state, record)]
    assert [(each.node, each.snapshots[0].sha256) for each in commands] == [("n1", PARKED)]


def test_where_parking_fails_it_is_saved_and_its_memory_counts_no_more(story: Story) -> None:
    begins(story, "job")
    stage(story, "job", "noticed")
    stage(story, "job", "park_failed", driver="park", reason="its processes do not stop")
    assert (free(story), [*story.state.parked]) == (10 * GIB, [])
    for name, fields in (("frozen", {}), ("dumped", {"bytes": 1}), ("stored", {"bytes": 1, "sha256": STORED})):
        stage(story, "job", name, driver="criu", **fields)
    story.ends("job", -9)
    assert story.job("job").snapshot is not None
    assert [*story.decisions("JobRequeued")][-1].outcome == "preempted"
    story.holds()


class Kept:
    """A job with a snapshot on disk, that both nodes see, which is parked a minute after it, while another has its place."""

    def __init__(self) -> None:
        self.story, self.ended, self._seen = Story(), EndedSnapshots(), 0
        joins(self.story, "n1", checkpoints="nfs")
        runs(self.story, "job")
        joins(self.story, "n2", 0, checkpoints="nfs")
        self.story.time += 10 * MINUTE
        self.story.cycle(facts.ClockAdvanced())
        self.story.cycle(facts.JobCheckpointRequested(request=self.story.request(), job="job", reason="first"))
        at = self.story.at("job", 0)
        for name, fields in (("frozen", {}), ("dumped", {}), ("stored", {"bytes": GIB, "sha256": ON_DISK})):
            self.story.cycle(facts.SnapshotStageReached.model_validate({**at, "stage": name, "driver": "criu", **fields}))
        self.is_parked("blocks", PARKED)

    def is_parked(self, by: str, sha256: str) -> None:
        """A minute later, by a job that gets its place."""
        self.story.time += MINUTE
        self.story.submit(by, TaskGroup(count=1, cpu_milli=16_000, nodes=("n1",)), cls="inference")
        is_parked(self.story, sha256=sha256)

    def removed(self) -> list[str]:
        """What nodes were told to remove since the last time."""
        new = self.story.records[self._seen :]
        self._seen += len(new)
        found = [command for record in new for command in self.ended.observe(self.story.state, record)]
        return [each.sha256 for command in found for each in command.snapshots]

    def restores(self) -> str | None:
        """What its task, which starts, is to continue from."""
        job = self.story.job("job")
        node = self.story.state.nodes[job.tasks[0].node]
        found = start_command(self.story.state, job, node, job.tasks, JobSpec(command="x")).tasks[0].restore
        return None if found is None else found.sha256

    def restarts(self) -> None:
        """From what is on disk, on the other node."""
        job = self.story.job("job")
        (task,) = job.tasks
        assert (self.story.state.nodes[task.node].name, self.restores()) == ("n2", ON_DISK)
        node = self.story.state.nodes[task.node]
        said = TaskStartedReport(**self.story.at("job", 0), incarnation=node.incarnation, number=9)
        started = facts_of_report(self.story.state, said)
        assert isinstance(started, list)
        self.story.cycle(*started)
        assert self.removed() == [PARKED]
        restored = TaskRestoredReport(
            **self.story.at("job", 0), incarnation=node.incarnation, number=10, from_attempt=1, driver="criu", bytes=GIB
        )
        found = facts_of_report(self.story.state, restored)
        assert isinstance(found, list)
        self.story.cycle(*found)
        assert task.restored
        assert job.unsaved_before == 0
        assert job.snapshot is not None
        assert ([each.sha256 for each in job.snapshot.tasks], self.removed()) == ([ON_DISK], [])
        self.story.holds()


@pytest.fixture
def kept() -> Kept:
    kept = Kept()
    assert kept.removed() == [], "it may be needed yet"
    assert snapshot_bytes(kept.story.state)[""] == GIB
    (sentence,) = [each.text for each in claim_sentences(kept.story.state, kept.story.job("job")) if "parked" in each.text]
    assert sentence.endswith("; without it the job continues from its snapshot of attempt 1.")
    return kept


def test_a_parked_job_that_is_gone_continues_from_what_was_on_disk(kept: Kept) -> None:
    (lost,) = saved(kept.story, "park_lost", driver="park", reason="its processes have ended")
    assert lost.lost_gpu_ms == pytest.approx(60_000, abs=10_000), "not what is on disk"
    assert kept.removed() == []
    kept.story.wait(MINUTE)
    kept.restarts()


@pytest.mark.parametrize("what", ["its node is lost", "it cannot be saved"])
def test_a_parked_job_that_cannot_resume_continues_from_what_was_on_disk(kept: Kept, what: str) -> None:
    story = kept.story
    if what == "its node is lost":
        story.cycle(facts.NodeUnreachable(node="n1", last_contact=story.time))
        story.cycle(facts.NodeLost(node="n1", last_contact=story.time))
    else:
        story.wait(10 * MINUTE)
        saved(story, "save_failed", driver="criu", reason="it has an open TCP connection")
    assert kept.removed() == []
    story.wait(MINUTE)
    (task,) = story.job("job").tasks
    assert (task.not_restored, task.restores) == ("other-node", True)
    kept.restarts()
    (started,) = [each.data for each in story.records if isinstance(each.data, facts.TaskStarted) and each.data.attempt == 2]
    assert started.lost_gpu_ms == pytest.approx(60_000, abs=10_000)


def test_what_was_on_disk_stays_once_it_goes_on_and_its_next_snapshot_replaces_it(kept: Kept) -> None:
    story, job = kept.story, kept.story.job("job")
    story.started("blocks")
    story.ends("blocks")
    assert kept.restores() == PARKED
    story.started("job")
    story.cycle(facts.TaskRestored(**story.at("job", 0), from_attempt=1, driver="park", bytes=3 * GIB))
    assert job.snapshot is not None
    assert ([each.sha256 for each in job.snapshot.tasks], job.unsaved_before) == ([ON_DISK], pytest.approx(MINUTE, abs=10**7))
    kept.is_parked("more", digest("again"))
    assert kept.removed() == [PARKED]
    assert job.snapshot.work_gpu_ms == pytest.approx(720_000, abs=30_000), "of all that it has worked"
    story.wait(10 * MINUTE)
    assert [each.stage for each in saved(story, "stored", driver="criu", bytes=2 * GIB, sha256=STORED)] == ["stored"]
    assert sorted(kept.removed()) == sorted([ON_DISK, digest("again")])
    assert (snapshot_bytes(story.state)[""], job.snapshot.work_gpu_ms) == (2 * GIB, pytest.approx(720_000, abs=30_000))
    story.holds()
