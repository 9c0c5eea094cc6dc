"""A thief with the key of one of three nodes, tokens that are used again, clocks that step, and keys that change in evictions.

All with the real services and real signatures. What holds is in the tables of docs/concepts/attacks.md.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kits.signed_pool import DAY, POOL, START, Machine, SignedPool, in_signed_pool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff import Client
from bailiff.doctor.liveness import node_checks
from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages import devices as device_reports
from bailiff_bus.messages import reports
from bailiff_bus.messages.commands import EncryptedStartTask, Evict, Fence, RecordRef
from bailiff_bus.messages.progress import StartEviction
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.messages.reports import NodeInventory, TrackedTask
from bailiff_bus.messages.telemetry import DeviceTelemetry, NodeTelemetry
from bailiff_bus.port import Message
from bailiff_core.admission.reported import contradiction
from bailiff_core.engine import LOGIC
from bailiff_core.model.state import Node, PoolState
from bailiff_core.records.facts import InputRejected, NodeEnrolled, NodeJoined, NodeLost, TaskReleased
from bailiff_core.records.job_requests import CancelJob
from bailiff_core.records.pool_requests import ChangeRootKey, EnrolNode, RevokeKey
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_log.credentials import Credentials
from bailiff_log.encryption import CannotDecrypt
from bailiff_log.enrolment import EnrolmentToken
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.node_messages import NodeMessages
from bailiff_log.root_keys import change_root_key
from bailiff_log.start_encryption import decrypt_start
from bailiff_node_agent.runtime import Running
from bailiff_rollup.pool_rollup import PoolRollup
from bailiff_service.metrics import Metrics
from bailiff_service.settings import PoolDeclaration

pytestmark = pytest.mark.slow  # all services and keys of a pool, for each test

MINUTE, HOUR = 60_000_000, 3_600_000_000
MACHINE_DEVICES = 4  # as `SignedPool` has them


async def three_nodes(pool: SignedPool) -> None:
    """n1, whose key is stolen, n2 and n3, with a job of all GPUs on each."""
    for name in ("n2", "n3"):
        pool.certify(f"nodes/{name}", "node", name)
        pool.start_agent(name)
        await pool.until(f"{name} has joined", lambda state, name=name: name in state.node_numbers)  # type: ignore[misc]
    for number in (1, 2, 3):
        pool.submit(f"job-{number}")
        await pool.until_running(f"job-{number}")


async def kept(_: PoolRollup) -> None:
    """The roll-up stores nothing here."""


def node(pool: SignedPool, name: str) -> Node:
    return pool.state.nodes[pool.state.node_numbers[name]]


def jobs_on(pool: SignedPool, *names: str) -> list[str]:
    """The jobs that run on these nodes."""
    numbers = {pool.state.node_numbers[name] for name in names}
    return sorted(
        job.id for job in pool.state.jobs.values() if job.phase == "running" and any(task.node in numbers for task in job.tasks)
    )


async def passes(pool: SignedPool, seconds: float) -> None:
    """Let this time pass."""
    until = pool.now() + int(seconds * 1_000_000)
    await pool.until("time passes", lambda _: pool.now() >= until, within_s=2 * seconds + 60)


TASK_REPORTS: dict[type[reports.TaskReport], dict[str, Any]] = {
    reports.TaskStartRefusedReport: {"reason": "x"},
    reports.EvictionStageReport: {"stage": "kill_sent"},
    reports.TaskProgressReport: {"step": 9_999_999},
    reports.TaskResumedReport: {"step": 1},
    reports.TaskExitedReport: {"exit_code": 0, "done": True},
    reports.TaskReleasedReport: {},
    reports.TaskEvictionCancelledReport: {},
    reports.TaskCancelEvictionRefusedReport: {},
    device_reports.TaskIdleReport: {"idle": True, "duration": 1},
}


# --- a stolen node key


@in_signed_pool
async def test_it_says_nothing_about_the_tasks_and_devices_of_other_nodes(pool: SignedPool) -> None:
    """Under its own name about their tasks, under their names, and with their tasks and devices in its inventory."""
    await three_nodes(pool)
    stolen, others = pool.credentials("nodes/n1"), jobs_on(pool, "n2", "n3")
    await pool.stop("agent-n1")
    sent = [unwrap(message).body for message in pool.messages(topics.NODE_REPORTS.name)]
    number = max(each.number for each in sent if isinstance(each, reports.ReportBody) and each.node == "n1")
    for victim in others:
        job = pool.state.jobs[victim]
        about = {"job": victim, "attempt": job.attempt, "task": 0, "ordered_by": job.tasks[0].start_seq}
        for name in ("n1", "n2", "n3"):
            for kind, content in TASK_REPORTS.items():
                await asyncio.sleep(0.001)  # each has a later time than the one before, as it must
                number += name == "n1"
                body = kind(node=name, incarnation=node(pool, name).incarnation, number=number, **about, **content)
                pool.send(topics.NODE_REPORTS.name, *pool.signed(stolen, body))
        await asyncio.sleep(0.001)
        number += 1
        claimed = TrackedTask(job=victim, attempt=job.attempt, task=0, state="exited", exit_code=0, done=True)
        inventory = NodeInventory(
            node="n1",
            incarnation=node(pool, "n1").incarnation,
            number=number,
            machine_id=node(pool, "n1").machine_id,
            boot_id=node(pool, "n1").boot_id,
            release="0",
            cpu_milli=1000,
            memory_bytes=1 << 30,
            tasks=(claimed,),
        )
        pool.send(topics.NODE_REPORTS.name, *pool.signed(stolen, inventory))
    await passes(pool, 60)
    assert jobs_on(pool, "n2", "n3") == others
    assert {node(pool, name).state for name in ("n2", "n3")} == {"ready"}
    assert not [fact for fact in pool.facts(TaskReleased) if fact.job in others]
    assert {fact.code for fact in pool.facts(InputRejected)} >= {"second-key"}  # each attempt under their names is on record


@in_signed_pool
async def test_it_silences_no_other_node_under_that_node_s_incarnation(pool: SignedPool) -> None:
    """Reports under its own name that claim the incarnation of n2, numbered and dated far ahead: those of n2 count as before."""
    await three_nodes(pool)
    stolen, others = pool.credentials("nodes/n1"), jobs_on(pool, "n2", "n3")
    await pool.stop("agent-n1")
    claimed = {"node": "n1", "incarnation": node(pool, "n2").incarnation, "number": 1 << 40}
    about = {"source": "/node/n1", "pool": POOL, "time_us": pool.now() + 365 * DAY}
    headers, value = wrap_signed(stolen, reports.NodeHeartbeat(**claimed, refused_commands=1 << 40), id="ahead", **about)
    pool.send(topics.NODE_REPORTS.name, headers, value)
    await passes(pool, 900)  # longer than the lease of n2
    assert {node(pool, name).state for name in ("n2", "n3")} == {"ready"}
    assert jobs_on(pool, "n2", "n3") == others
    assert not [fact for fact in pool.facts(InputRejected) if fact.code == "replayed"]


@in_virtual_time
async def test_it_measures_no_other_node_and_nothing_twice(tmp_path: Path) -> None:
    """Telemetry about n2 that n1 has signed, or nobody, and what n1 itself has sent, again: by the roll-up and the console."""
    async with SignedPool(tmp_path) as pool:
        await three_nodes(pool)
        await passes(pool, 60)
        stolen, messages = pool.credentials("nodes/n1"), NodeMessages()
        declared = PoolDeclaration(name=POOL, partition=0)
        rollup = PoolRollup(pool.cluster.client("rollup"), declared, Metrics(), tmp_path, None, kept)
        await rollup.open()

        def busy(name: str, credentials: Credentials | None) -> Message:
            gpu = DeviceTelemetry(device="GPU-0", jobs=("job-1",), busy_percent=100, memory_used=1, memory_bytes=2)
            body = NodeTelemetry(node=name, interval_ms=10_000, devices=(gpu,))
            pool.send(topics.TELEMETRY.name, *pool.signed(credentials, body))
            return pool.messages(topics.TELEMETRY.name)[-1]

        own = busy("n1", stolen)
        forged = [busy("n2", stolen), busy("n2", None), busy("n1", None)]
        await rollup.measure([own, *forged, own])
        counted = rollup.aggregates.telemetry.totals["gpu", ""]
        assert counted == 100 * 10_000_000
        messages.check(unwrap(own), pool.state, "n1")
        for message, name in zip((*forged, own), ("n2", "n2", "n1", "n1"), strict=True):
            with pytest.raises(InvalidMessage):
                messages.check(unwrap(message), pool.state, name)
        await pool.stop("agent-n1")
        pool.start_agent("n1", behind=lambda: HOUR)  # its clock was set back meanwhile
        await passes(pool, 30)
        announced = pool.state.enrolled["n1"].announced
        assert announced < unwrap(own).time
        about = {"source": "/node/n1", "id": "behind", "pool": POOL, "time_us": announced + 1}
        pool.send(topics.TELEMETRY.name, *wrap_signed(stolen, unwrap(own).body, **about))
        await rollup.measure(pool.messages(topics.TELEMETRY.name)[-1:])
        assert rollup.aggregates.telemetry.totals["gpu", ""] == 2 * counted
        await rollup.close()


@in_signed_pool
async def test_it_signs_nothing_but_reports(pool: SignedPool) -> None:
    """No command to another node, no proposal, no progress of an eviction, no request, no record of the log."""
    await three_nodes(pool)
    stolen, running = pool.credentials("nodes/n1"), jobs_on(pool, "n1", "n2", "n3")
    to_n2 = {"node": "n2", "incarnation": node(pool, "n2").incarnation, "sender_epoch": pool.state.epoch}
    evict = Evict(
        **to_n2,
        sender="executor",
        ordered_by=RecordRef(epoch=pool.state.epoch, seq=pool.state.seq),
        job=jobs_on(pool, "n2")[0],
        attempt=1,
        tasks=(0,),
        grace=0,
        cause="x",
    )
    fence = Fence(**to_n2, sender="admission", revoked_keys=(pool.credentials("admission").certificate.key,))
    for command in (evict, fence):
        pool.send(topics.NODE_COMMANDS.name, *pool.signed(stolen, command), key="n2")
    proposal = ProposalBatch(selection=1, computed_at=pool.state.seq, logic=LOGIC, proposals=())
    for topic, body in (
        (topics.PROPOSALS.name, proposal),
        (topics.EVICTION_PROGRESS.name, StartEviction(job=running[0], attempt=1, decided_by=pool.state.seq)),
    ):
        pool.send(topic, *pool.signed(stolen, body))
    pool.request(CancelJob(job=running[1]), stolen.private_key)
    pool.request(RevokeKey(key=pool.state.enrolled["n2"].key), stolen.private_key)
    assert "n2 has refused" in await pool.until_alarm("commands-refused")
    await passes(pool, 30)
    assert jobs_on(pool, "n1", "n2", "n3") == running
    assert pool.state.enrolled["n2"].key not in pool.state.revoked_keys
    assert {"bad-certificate", "unknown-key"} <= {fact.code for fact in pool.facts(InputRejected)}


@in_signed_pool
async def test_it_reads_no_start_of_another_node(pool: SignedPool) -> None:
    await three_nodes(pool)
    key = pool.credentials("nodes/n1").decryption_key
    of_others = [*starts_to(pool, "n2"), *starts_to(pool, "n3")]
    assert len(of_others) == 2
    for start in of_others:
        with pytest.raises(CannotDecrypt):
            decrypt_start(start, POOL, key)


@in_signed_pool
async def test_it_takes_its_own_node_over_on_record_until_it_is_revoked(pool: SignedPool) -> None:
    """The thief's machine says that it is n1. The true agent stops its task and announces itself again, all on record.
    What is placed on n1 meanwhile goes to the thief, as to any node. Others are not concerned; the revocation ends it."""
    await three_nodes(pool)
    others = jobs_on(pool, "n2", "n3")
    pool.start_agent("n1", machine="thief")
    await pool.until("it has joined", lambda _: [fact.node for fact in pool.facts(NodeJoined)].count("n1") == 2)
    await passes(pool, 60)
    assert [fact.node for fact in pool.facts(NodeJoined)][3:5] == ["n1", "n1"]  # the true agent has come back
    assert len([key for name in ("n1", "thief") for key in running_on(pool, name)]) <= 1
    assert jobs_on(pool, "n2", "n3") == others
    pool.request(RevokeKey(key=pool.state.enrolled["n1"].key, reason="stolen"), pool.root)
    await pool.until("it is revoked", lambda state: "n1" not in state.enrolled)
    placed_before = len(starts_to(pool, "n1"))
    pool.submit("later")
    await pool.until_rejected("revoked-key")
    await pool.until("n1 is lost", lambda _: pool.facts(NodeLost), within_s=900)
    assert len(starts_to(pool, "n1")) == placed_before
    assert not running_on(pool, "n1")
    assert jobs_on(pool, "n2", "n3") == others


@in_virtual_time
async def test_it_has_no_more_devices_than_it_was_enrolled_for(tmp_path: Path) -> None:
    """At first, under a permit; later, in an inventory of the enrolled node; and the log of a writer that took it is named."""
    async with SignedPool(tmp_path) as pool:
        once = EnrolmentToken(new_private_key(), key_id(pool.root))
        for most, joins in ((MACHINE_DEVICES - 1, False), (MACHINE_DEVICES, True)):
            body = EnrolNode(node="n2", expires=pool.now() + DAY, token_key=key_id(once.private_key), max_devices=most)
            pool.request(body, pool.root)
            await pool.until("it is permitted", lambda state, most=most: permits(state, "n2", most))  # type: ignore[misc]
            if not joins:
                pool.start_agent("n2", token=once.text())
                rejected = await pool.until_rejected("too-many-devices")
                assert f"n2 says that it has {MACHINE_DEVICES} GPUs, and an operator permits at most {most}" in rejected.reason
                assert "n2" not in pool.state.enrolled
                await pool.stop("agent-n2")
            else:
                pool.start_agent("n2", token=once.text())
                await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
        await pool.stop("agent-n2")
        joined = next(fact for fact in pool.facts(NodeJoined) if fact.node == "n2")
        more = joined.model_copy(update={"devices": (*joined.devices, joined.devices[0].model_copy(update={"id": "GPU-more"}))})
        assert contradiction(pool.state, joined) == ""
        assert "an operator permits at most" in contradiction(pool.state, more)
        machine = pool.machines["n2"]
        machine.inventory = SimulatedInventory(f"{MACHINE_DEVICES + 1}xH100-80GB", "n2", machine.machine.identify)
        rejections = len(pool.facts(InputRejected))
        pool.start_agent("n2")
        await pool.until("it is rejected", lambda _: len(pool.facts(InputRejected)) > rejections)
        assert pool.facts(InputRejected)[-1].code == "too-many-devices"
        assert node(pool, "n2").incarnation == joined.incarnation


@in_virtual_time
async def test_it_draws_no_more_jobs_by_enrolling_anew_with_a_certificate(tmp_path: Path) -> None:
    """The limit of a permit outlasts the key that was enrolled by it: a certificate states none."""
    async with SignedPool(tmp_path) as pool:
        once = EnrolmentToken(new_private_key(), key_id(pool.root))
        body = EnrolNode(node="n2", expires=pool.now() + DAY, token_key=key_id(once.private_key), max_devices=MACHINE_DEVICES)
        pool.request(body, pool.root)
        await pool.until("it is permitted", lambda state: permits(state, "n2", MACHINE_DEVICES))
        pool.start_agent("n2", token=once.text())
        await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
        await pool.stop("agent-n2")
        pool.request(RevokeKey(key=pool.state.enrolled["n2"].key, reason="stolen"), pool.root)
        await pool.until("it is revoked", lambda state: "n2" not in state.enrolled)
        shutil.rmtree(tmp_path / "nodes" / "n2")
        pool.certify("nodes/n2", "node", "n2")
        machine = pool.machines["n2"]
        machine.inventory = SimulatedInventory(f"{4 * MACHINE_DEVICES}xH100-80GB", "n2", machine.machine.identify)
        pool.start_agent("n2")
        rejected = await pool.until_rejected("too-many-devices")
        assert f"says that it has {4 * MACHINE_DEVICES} GPUs, and an operator permits at most" in rejected.reason
        for number in range(4):
            pool.submit(f"job-{number}")
        await passes(pool, 60)
        assert "n2" not in pool.state.enrolled
        assert len(pool.facts(NodeJoined)) == 2, "n1 and n2, each once"
        assert not starts_to(pool, "n2")


def permits(state: PoolState, name: str, most: int) -> bool:
    """Whether the node may enrol with at most so many devices."""
    return name in state.permits and state.permits[name].max_devices == most


def running_on(pool: SignedPool, machine: str) -> list[object]:
    """The tasks that run on this machine, whatever the log says."""
    return [each.key for each in pool.machines[machine].machine.states() if isinstance(each, Running)]


def starts_to(pool: SignedPool, name: str) -> list[EncryptedStartTask]:
    """Commands to start a task that were sent to this node."""
    sent = [unwrap(message).body for message in pool.messages(topics.NODE_COMMANDS.name)]
    return [each for each in sent if isinstance(each, EncryptedStartTask) and each.node == name]


# --- enrolment tokens


def enrol(pool: SignedPool, name: str, **key: str) -> None:
    """An operator permits an enrolment for a day."""
    pool.request(EnrolNode(node=name, expires=pool.now() + DAY, **key), pool.root)


@in_signed_pool
async def test_of_two_machines_with_one_token_one_is_enrolled(pool: SignedPool) -> None:
    once = EnrolmentToken(new_private_key(), key_id(pool.root))
    enrol(pool, "n2", token_key=key_id(once.private_key))
    pool.start_agent("n2", token=once.text())
    pool.start_agent("n2", credentials="thief", token=once.text(), machine="thief")
    refused = await pool.until_rejected("second-key")
    assert "bailiff node approve n2" in refused.reason
    assert [fact.node for fact in pool.facts(NodeEnrolled)] == ["n1", "n2"]


@in_signed_pool
async def test_neither_a_kept_enrolment_nor_its_token_brings_back_a_revoked_node(pool: SignedPool) -> None:
    once = EnrolmentToken(new_private_key(), key_id(pool.root))
    enrol(pool, "n2", token_key=key_id(once.private_key))
    pool.start_agent("n2", token=once.text())
    await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
    kept = [each for each in pool.messages(topics.NODE_REPORTS.name) if b"token_signature" in each.value]
    pool.request(RevokeKey(key=pool.state.enrolled["n2"].key), pool.root)
    await pool.until("it is revoked", lambda state: "n2" not in state.enrolled)
    await pool.stop("agent-n2")
    for message in kept:
        pool.send(topics.NODE_REPORTS.name, message.headers, message.value)
    pool.start_agent("n2", credentials="thief", token=once.text(), machine="thief")
    await pool.until("the thief waits", lambda state: "n2" in state.waiting_nodes)
    await passes(pool, 60)
    assert "n2" not in pool.state.enrolled
    assert len(pool.facts(NodeEnrolled)) == 2


@in_signed_pool
async def test_a_token_is_of_no_use_for_another_name_or_after_its_time(pool: SignedPool) -> None:
    once = EnrolmentToken(new_private_key(), key_id(pool.root))
    pool.request(EnrolNode(node="n2", expires=pool.now() + MINUTE, token_key=key_id(once.private_key)), pool.root)
    await pool.until("it is permitted", lambda state: "n2" in state.permits)
    pool.start_agent("n3", token=once.text())
    await pool.until("n3 waits", lambda state: "n3" in state.waiting_nodes)
    await passes(pool, 61)
    pool.start_agent("n2", token=once.text())
    await pool.until("n2 waits", lambda state: "n2" in state.waiting_nodes)
    assert [fact.node for fact in pool.facts(NodeEnrolled)] == ["n1"]


# --- clocks


@in_signed_pool
async def test_an_expired_certificate_is_not_obeyed_by_a_node_whose_clock_is_behind(pool: SignedPool) -> None:
    """A thief with a key that has expired, and a node whose clock somebody has set back."""
    pool.submit("job-1")
    await pool.until_running("job-1")
    expired = pool.certify("expired", "eviction-executor", expires=pool.now() + MINUTE)
    await pool.stop("agent-n1")
    pool.start_agent("n1", behind=lambda: 30 * DAY)
    await passes(pool, 70)
    pool.send(topics.NODE_COMMANDS.name, *pool.signed(expired, eviction(pool, "job-1")), key="n1")
    assert "is valid from" in await pool.until_alarm("commands-refused")
    assert jobs_on(pool, "n1") == ["job-1"]


def eviction(pool: SignedPool, job: str) -> Evict:
    at = RecordRef(epoch=pool.state.epoch, seq=pool.state.seq)
    about = {"node": "n1", "incarnation": node(pool, "n1").incarnation, "sender": "executor", "sender_epoch": pool.state.epoch}
    attempt = pool.state.jobs[job].attempt
    return Evict(**about, ordered_by=at, job=job, attempt=attempt, tasks=(0,), grace=0, cause="x")


@pytest.mark.parametrize("step", [-HOUR, HOUR, 800 * DAY])
@in_signed_pool
async def test_a_node_whose_clock_steps_stays_in_the_pool(pool: SignedPool, step: int) -> None:
    """Its certificate and those of services have expired by its own clock, or are not valid yet; its reports stay in order."""
    behind = [0]
    await pool.stop("agent-n1")
    pool.start_agent("n1", behind=lambda: behind[0])
    pool.submit("job-1")
    await pool.until_running("job-1")
    behind[0] = -step
    await passes(pool, 900)  # longer than its lease
    async with Client(pool.cluster.client("doctor"), source="doctor", now=pool.now) as client:
        assert [check["status"] for check in await node_checks(client, pool.state)] == ["ok"]
    assert node(pool, "n1").state == "ready"
    assert jobs_on(pool, "n1") == ["job-1"]
    pool.submit("serve-1", kind="inference")
    await pool.until_running("serve-1")
    assert not pool.facts(InputRejected)


@in_signed_pool
async def test_a_certificate_that_expires_ends_its_service_and_a_new_one_carries_on(pool: SignedPool) -> None:
    await pool.stop("eviction-executor")
    pool.certify("eviction-executor", "eviction-executor", expires=pool.now() + MINUTE)
    pool.start_pool_service("eviction-executor", pool._execute)
    pool.submit("job-1")
    await pool.until_running("job-1")
    await passes(pool, 50)
    pool.submit("serve-1", kind="inference")
    assert "is valid from" in str(await pool.error_of("eviction-executor"))
    pool.certify("eviction-executor", "eviction-executor", expires=START + 365 * DAY)
    pool.start_pool_service("eviction-executor", pool._execute)
    await pool.until_running("serve-1")


# --- keys that change in the middle of an eviction


def stage(name: str) -> Callable[[PoolState], object]:
    """Whether the eviction of job-1 has come this far."""

    def reached(state: PoolState) -> object:
        job = state.jobs["job-1"]
        if name == "decided":
            return job.eviction is not None or any(task.eviction for task in job.tasks)
        return any(getattr(task, name) for task in job.tasks)

    return reached


async def new_executor(pool: SignedPool) -> None:
    """The executor's key is revoked; it gets another."""
    pool.request(RevokeKey(key=pool.credentials("eviction-executor").certificate.key), pool.root)
    assert "was revoked" in str(await pool.error_of("eviction-executor"))
    renew(pool, "eviction-executor")
    pool.start_pool_service("eviction-executor", pool._execute)


async def new_admission(pool: SignedPool) -> None:
    """Admission's key is revoked; it gets another, and keeps the key of the specs."""
    pool.request(RevokeKey(key=pool.credentials("admission").certificate.key), pool.root)
    assert "was revoked" in str(await pool.error_of("admission"))
    specs_key = pool.folder / "admission" / "specs.key"
    pool.certify("admission-2", "admission")
    pool.start_admission("admission-2", "admission", specs_key=specs_key)


async def new_root(pool: SignedPool) -> None:
    """The pool's root key changes; every service is certified anew."""
    root = new_private_key()
    services = ("admission", "victim-selection", "eviction-executor")
    pool.request(ChangeRootKey(change=change_root_key(pool.root, pool.state.identity, root)))
    for name in services:
        assert "root key" in str(await pool.error_of(name))
    for name in services:
        pool.certify(name, name, root=root)
    pool.start_admission()
    pool.start_pool_service("victim-selection", pool._select)
    pool.start_pool_service("eviction-executor", pool._execute)


def renew(pool: SignedPool, name: str) -> Credentials:
    """Another key in the folder of this service."""
    folder = pool.folder / name
    for file in folder.iterdir():
        if file.name != "specs.key":
            file.unlink()
    return pool.certify(name, name)  # type: ignore[arg-type]


@pytest.mark.parametrize("at", ["decided", "noticed", "term_sent"])
@pytest.mark.parametrize("change", [new_executor, new_admission, new_root], ids=lambda each: each.__name__)
@in_signed_pool
async def test_an_eviction_ends_as_decided_although_keys_change(
    pool: SignedPool, change: Callable[[SignedPool], Any], at: str
) -> None:
    pool.submit("job-1", BAILIFF_SIM_ON_NOTICE="ignore", BAILIFF_SIM_ON_TERM="ignore")
    await pool.until_running("job-1")
    pool.submit("serve-1", kind="inference")
    await pool.until(f"the eviction is {at}", stage(at), within_s=600)
    await change(pool)
    await pool.until("serve-1 runs", lambda state: state.jobs["serve-1"].phase == "running", within_s=900)
    assert pool.state.jobs["job-1"].attempt == 1
    assert pool.state.jobs["job-1"].phase in ("pending", "queued")


@in_signed_pool
async def test_a_node_that_is_revoked_in_the_middle_of_an_eviction_frees_nothing(pool: SignedPool) -> None:
    """What it says of the release counts no more: its GPUs are given to nobody, and the job runs elsewhere."""
    pool.submit("job-1", BAILIFF_SIM_ON_NOTICE="ignore", BAILIFF_SIM_ON_TERM="ignore")
    await pool.until_running("job-1")
    pool.submit("serve-1", kind="inference")
    await pool.until("it is noticed", stage("noticed"), within_s=600)
    pool.request(RevokeKey(key=pool.state.enrolled["n1"].key), pool.root)
    await pool.until("n1 is lost", lambda state: state.nodes[0].state == "lost", within_s=1200)
    assert pool.state.jobs["serve-1"].phase != "running"
    assert not pool.facts(TaskReleased)
    pool.certify("nodes/n2", "node", "n2")
    pool.machines["n2"] = Machine("n2")
    pool.start_agent("n2")
    await pool.until_running("serve-1")
