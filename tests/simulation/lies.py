"""What a participant that lies may send: every kind of lie, by the role whose key it has.

A lie is made when it is sent, from what the log says then: the adversary reads every topic.
"""

from collections.abc import Callable, Iterator
from typing import Any

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.commands import (
    CancelEviction,
    CheckpointAtStep,
    CommandBody,
    Evict,
    Fence,
    RecordRef,
    RemoveSnapshots,
    SaveTasks,
    SendInventory,
    SnapshotStep,
    StartTask,
    TaskAssignment,
    TaskSnapshot,
)
from bailiff_bus.messages.devices import DeviceClearedReport, DeviceHealthyReport, DeviceUnhealthyReport
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_bus.messages.reports import (
    EvictionStageReport,
    FenceStatus,
    NodeHeartbeat,
    NodeInventory,
    ReportBody,
    TaskExitedReport,
    TaskProgressReport,
    TaskReleasedReport,
    TaskResumedReport,
    TaskStartedReport,
    TaskStartRefusedReport,
    TrackedTask,
)
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.document import MAX_INTEGER, TEN_YEARS
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MessageBody
from bailiff_core.records.facts import MAX_DEVICES, Checkpoint, DeviceInfo, DeviceReading
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_core.records.pool_requests import AcceptTruncation, EnrolNode, RevokeKey
from bailiff_core.records.request import RequestBody
from bailiff_log.signatures import sign

from .false_proposals import proposal
from .liar import Forgery, Liar

STAGES = ("noticed", "yielding", "term_sent", "kill_sent", "checkpoint_committed")
ODD = ("", "x" * 1000, "\u202e🦊\u0007", "unknown", "'; drop table jobs; --")

Lie = Callable[[Liar], Iterator[Forgery]]


# --- reports


def reports(liar: Liar) -> Iterator[Forgery]:
    """A report about a task, a device, or a node that somebody else speaks for, or a false one about its own."""
    node, random = liar.victim(), liar.random
    if node is None:
        return
    incarnation = random.choice([node.incarnation] * 5 + ["0" * 32])
    name: dict[str, Any] = {
        "node": node.name,
        "incarnation": incarnation,
        "number": random.choice((0, min(node.last_report + 1, MAX_INTEGER), MAX_INTEGER)),
    }
    at = {**name, **liar.task(mine=True), "ordered_by": random.choice((None, None, liar.seq()))}
    device = {**name, "device": random.choice([each.id for each in node.devices] or ["GPU-unknown"])}
    saved = Checkpoint(step=liar.count(), bytes=liar.count(), duration=min(TEN_YEARS, liar.count()), sha256="0" * 64)
    reading = DeviceReading(device="GPU-unknown", memory_used=MAX_INTEGER, processes=MAX_INTEGER)
    made: ReportBody = random.choice(
        (
            lambda: TaskReleasedReport(**at, before=(reading,), after=(reading,)),
            lambda: TaskReleasedReport(**at),
            lambda: TaskExitedReport(
                **at, exit_code=random.choice((0, 85, -MAX_INTEGER, MAX_INTEGER)), step=liar.count(), done=True
            ),
            lambda: TaskStartedReport(**at),
            lambda: TaskStartRefusedReport(**at, reason=random.choice(ODD)),
            lambda: TaskProgressReport(
                **at, step=liar.count(), total_steps=liar.count(), step_rate_milli=liar.count(), checkpoint=saved
            ),
            lambda: TaskResumedReport(**at, step=liar.count(), from_attempt=liar.count(), skipped_checkpoints=liar.count()),
            lambda: EvictionStageReport(
                **at, stage=random.choice(STAGES), elapsed=min(TEN_YEARS, liar.count()), checkpoint=saved
            ),
            lambda: DeviceUnhealthyReport(**device, reason="xid", code=liar.count(), detail=random.choice(ODD)),
            lambda: DeviceHealthyReport(**device),
            lambda: DeviceClearedReport(**device, reading=reading),
        )
    )()
    yield liar.forged(topics.NODE_REPORTS.name, made)


def heartbeats(liar: Liar) -> Iterator[Forgery]:
    """A heartbeat that names a record beyond the log, with and without a command as evidence."""
    node = liar.victim()
    if node is None:
        return
    fence = FenceStatus(epoch=liar.epoch(), seq=liar.seq(), newest_epoch=liar.epoch())
    body = NodeHeartbeat(node=node.name, incarnation=node.incarnation, number=liar.count(), fence=fence)
    yield liar.forged(topics.NODE_REPORTS.name, body)


def inventories(liar: Liar) -> Iterator[Forgery]:
    """Another agent under this node's name, or under a name that does not exist, with devices that do not exist."""
    node, random = liar.victim(), liar.random
    if node is None:
        return
    size = random.choice((0, 1, MAX_DEVICES))
    devices = tuple(DeviceInfo(id=f"GPU-{number}", model="H100-80GB", memory_bytes=liar.count()) for number in range(size))
    tracked = [
        {**liar.task(), "state": random.choice(("running", "exited", "released")), "exit_code": liar.count()} for _ in range(3)
    ]
    body = NodeInventory(
        node=random.choice((node.name, node.name, f"ghost-{liar.number}")),
        incarnation=random.choice((f"{liar.number:032x}", node.incarnation)),
        number=liar.count(),
        machine_id=random.choice((node.machine_id, "another")),
        boot_id=random.choice((node.boot_id, "another")),
        release=random.choice(ODD),
        cpu_milli=liar.count(),
        memory_bytes=liar.count(),
        max_tasks=max(1, liar.count()),
        labels={text[:250]: text[:250] for text in ODD if text},
        devices=devices
        if random.randrange(2)
        else tuple(
            DeviceInfo(id=each.id, model=each.model, memory_bytes=each.memory_bytes) for each in node.devices[:MAX_DEVICES]
        ),
        tasks=tuple(TrackedTask.model_validate(each) for each in tracked),
        fence=FenceStatus(epoch=liar.epoch(), seq=liar.seq()),
    )
    yield liar.forged(topics.NODE_REPORTS.name, body)


# --- commands


def commands(liar: Liar) -> Iterator[Forgery]:
    """A start, a fence, an eviction, its cancellation, or a step, that no record orders."""
    nodes, random = list(liar.state.nodes.values()), liar.random
    if not nodes:
        return
    node, sender = random.choice(nodes), "executor" if liar.role == "executor" or random.randrange(4) == 0 else "admission"
    to: dict[str, Any] = {"node": node.name, "incarnation": node.incarnation, "sender_epoch": liar.epoch()}
    about = {**to, **liar.task(), "sender": sender, "ordered_by": RecordRef(epoch=liar.epoch(), seq=liar.seq())}
    index = about.pop("task")
    spec = JobSpec(command="true", runtime="simulated", env={"BAILIFF_SIM_RUN_FOR": "99"})
    assigned = TaskAssignment(task=index, devices=tuple(each.id for each in node.devices[:2]))
    ended = TaskSnapshot(job=about["job"], attempt=liar.count(), task=index, sha256="0" * 64)
    made: CommandBody = random.choice(
        (
            lambda: StartTask(**about, tasks=(assigned,), spec=spec, grace=0, master_node=node.name),
            lambda: Evict(**about, tasks=(index,), grace=0, cause="a lie"),
            lambda: Evict(**about, tasks=(index,), grace=0, cause="a lie"),
            lambda: CancelEviction(**about, tasks=(index,)),
            lambda: SnapshotStep(**about, tasks=(index,), step=random.choice(("dump", "end", "thaw", "continue", "anew"))),
            lambda: SaveTasks(**about, tasks=(index,), together=random.choice((False, True))),
            lambda: CheckpointAtStep(**about, tasks=(index,), step=liar.count(), agreed=True),
            lambda: Fence(**to, sender=sender, lease=0, lost_margin=0),
            lambda: SendInventory(**to, sender=sender),
            lambda: RemoveSnapshots(**to, sender=sender, snapshots=(ended,)),
        )
    )()
    yield liar.forged(topics.NODE_COMMANDS.name, made)


# --- proposals and progress


def proposals(liar: Liar) -> Iterator[Forgery]:
    """A false answer to the open selection, or an answer that nobody asked for."""
    yield liar.forged(topics.PROPOSALS.name, proposal(liar.state, liar.random))


def progress(liar: Liar) -> Iterator[Forgery]:
    """An eviction that is not decided is started, or a preemption is abandoned."""
    random, state = liar.random, liar.state
    plans = list(state.preemptions)
    if plans and random.randrange(2):
        body: MessageBody = AbandonPreemption(preemption=random.choice((*plans, liar.seq())), reason="no reason")
    else:
        at = liar.task()
        body = StartEviction(job=at["job"], attempt=at["attempt"], decided_by=random.choice((*plans, liar.seq())))
    yield liar.forged(topics.EVICTION_PROGRESS.name, body)


# --- requests


def requests(liar: Liar) -> Iterator[Forgery]:
    """In another's name, with a signature of something else, about keys, or at the limits of what a request may hold."""
    random, pool = liar.random, liar.state.pool
    source, identity = "/lies", f"lie-{liar.number}"
    group = TaskGroup(count=10_000, gpu_milli=random.choice((1000, 64_000)), cpu_milli=MAX_INTEGER, memory_bytes=MAX_INTEGER)
    body: RequestBody = random.choice(
        (
            SubmitJob(demand=JobDemand(job=f"lie-{liar.number}", tasks=(group,)), spec=JobSpec(command="true")),
            CancelJob(job="nowhere", reason="🦊" * 1000),
            RevokeKey(key=liar.keys.root_key),
            EnrolNode(node=liar.node, key=liar.keys.root_key, expires=MAX_INTEGER),
            AcceptTruncation(epoch=MAX_INTEGER, seq=MAX_INTEGER, reason="a lie"),
            AcceptTruncation(epoch=liar.state.epoch + 5, seq=liar.state.seq + 5, reason="a lie"),
        )
    )
    keyid, sig = "", ""
    if liar.role == "person":
        signed = random.choice((body, CancelJob(job="another")))
        keyid, sig = sign(b"\x09" * 32, signed, source=source, id=identity, pool=pool, time_us=liar.now)
    actor = random.choice(("", "root", "operator"))
    headers, value = wrap(body, source=source, id=identity, pool=pool, time_us=liar.now, actor=actor, keyid=keyid, sig=sig)
    yield Forgery(topics.REQUESTS.name, headers, value, f"{type(body).__name__} of {liar.role}")


# --- messages of others, and records


def replayed(liar: Liar) -> Iterator[Forgery]:
    """Old messages again: one, or several in reverse order."""
    topic = liar.random.choice(
        (topics.NODE_REPORTS, topics.NODE_REPORTS, topics.NODE_COMMANDS, topics.PROPOSALS, topics.EVICTION_PROGRESS, topics.AUDIT)
    ).name
    old = liar.messages(topic)
    if old:
        end = liar.random.randrange(len(old)) + 1
        for message in reversed(old[max(0, end - liar.random.choice((1, 1, 5))) : end]):
            kind = dict(message.headers).get("ce_type", b"?").decode(errors="replace")
            original = message.topic, message.partition, message.offset
            yield Forgery(topic, message.headers, message.value, f"{kind} again", copy_of=original)


def records(liar: Liar) -> Iterator[Forgery]:
    """The newest record with other content, under the next seq, with the old signature or with none."""
    old = liar.messages(topics.AUDIT.name)[-1]
    headers = dict(old.headers)
    headers["ce_seq"] = str(liar.state.seq + liar.random.choice((0, 1, 1, 2))).encode()
    if liar.random.randrange(2):
        headers["ce_prev"] = liar.random.choice((b"0" * 64, headers.get("ce_prev", b"")))
    if liar.random.randrange(2):
        headers.pop("ce_sig", None)
    if liar.random.randrange(3) == 0:
        headers["ce_epoch"] = str(liar.epoch()).encode()
    yield Forgery(topics.AUDIT.name, tuple(headers.items()), liar.random.choice((old.value, b"{}", b"")), "a record")


def specs(liar: Liar) -> Iterator[Forgery]:
    """A job's spec is replaced, under the key of the true one."""
    old = liar.messages(topics.JOB_SPECS.name)
    if old:
        key = liar.random.choice(old).key or b""
        yield Forgery(topics.JOB_SPECS.name, (), liar.random.choice((b"{", b"{}", b'{"encrypted":"AAAA"}')), "a spec", key)


EVERYWHERE: tuple[Lie, ...] = (
    reports,
    heartbeats,
    inventories,
    commands,
    proposals,
    progress,
    requests,
    replayed,
    records,
    specs,
)
OWN: dict[str, tuple[Lie, ...]] = {
    "node": (reports, reports, reports, heartbeats, heartbeats, inventories),
    "selection": (proposals, proposals, proposals),
    "executor": (progress, progress, commands, commands),
    "person": (requests, requests),
}
"""What the key of a role permits: sent more often than the rest."""


def kinds(role: str) -> tuple[str, ...]:
    """Names of the lies of this role."""
    return tuple(lie.__name__ for lie in (*EVERYWHERE, *OWN.get(role, ()) * 3))


BY_NAME = {lie.__name__: lie for lie in EVERYWHERE}
