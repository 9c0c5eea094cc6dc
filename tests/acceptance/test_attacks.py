"""Somebody attacks a running system: without a key, with one of their own, or with a stolen one. It is refused, or found.

On a real Kafka, with the keys that `make up` makes, an auditor and a witness. In this file's order: nobody's key, a node's key,
victim selection's key, and last whoever may write to Kafka's disk; at the end `bailiff doctor` names all of it. The same again
with access lists (`SECURE=1`): the attacker is then the user that may do everything, the operator has an operator's rights.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.archived_pool import bailiff
from tests.kits.system import POLICY, System, Watch

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.messages.commands import Evict, RecordRef, StartTask, TaskAssignment
from bailiff_bus.messages.progress import StartEviction
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.messages.reports import FenceStatus, NodeHeartbeat, NodeInventory, TaskReleasedReport
from bailiff_core.engine import LOGIC
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.placement_ranges import bits, ranges
from bailiff_core.records import encode
from bailiff_core.records.facts import ClockAdvanced, InputRejected, JobSubmitted
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.pool_requests import AcceptTruncation
from bailiff_core.victims.batch import compute_proposals
from bailiff_devstack.secure_kafka import SecureKafka
from bailiff_log.credentials import read_credentials
from bailiff_log.keys import new_private_key
from bailiff_log.message_signatures import wrap_with_key

pytestmark = pytest.mark.kafka

SELECTION = POLICY.preemption.model_copy(update={"selection_timeout": 600_000_000})  # a false proposal must come before it
PATIENT = POLICY.model_copy(update={"preemption": SELECTION})


@pytest.fixture(scope="module", params=[pytest.param("plain"), pytest.param("secure", marks=pytest.mark.long)])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One machine with eight GPUs. A separate system: its log will contain orphans."""
    folder, env = tmp_path_factory.mktemp("attacks"), {"BAILIFF_SEAL_RECORDS": "1"}
    kafka = SecureKafka(folder / "kafka", progress=print) if request.param == "secure" else None
    with System(folder, kafka=kafka, pools={"pool-a": 1}, audited=True, env=env, policy=PATIENT) as made:
        yield made


@pytest.fixture
async def pool(system: System) -> AsyncIterator[Watch]:
    """Reads as an operator, and sends as the attacker."""
    kafka = system.stack.kafka
    bus = KafkaBus(kafka.superuser() if isinstance(kafka, SecureKafka) else kafka.settings("operator"))
    try:
        async with system.watch("pool-a") as watching:
            watching.producer = await bus.producer()
            yield watching
    finally:
        await bus.close()


async def rejected(pool: Watch, code: str) -> InputRejected:
    return await pool.record(InputRejected, code=code)


# --- without a certified key


async def test_a_forged_start_runs_nothing_and_raises_an_alarm(pool: Watch, tmp_path: Path) -> None:
    (node,) = pool.state.nodes.values()
    forged = StartTask(
        node=node.name,
        incarnation=node.incarnation,
        sender="admission",
        sender_epoch=pool.state.epoch,
        ordered_by=RecordRef(epoch=pool.state.epoch, seq=pool.state.seq),
        job="intruder",
        attempt=1,
        tasks=(TaskAssignment(task=0),),
        spec=JobSpec(command=f"touch {tmp_path}/was-here"),
        grace=1_000_000,
        master_node=node.name,
    )
    await pool.publish(topics.NODE_COMMANDS.name, forged)
    assert node.name in await pool.until_alarm("commands-refused")
    # commands to one node are obeyed in order: a job that was started after the forged one shows that it was passed over
    await pool.submit("after-the-forged-start", "true", gpus=0)
    await pool.until_ended("after-the-forged-start")
    assert not (tmp_path / "was-here").exists()


async def test_a_forged_eviction_stops_nobody(pool: Watch) -> None:
    await pool.submit("stays")
    await pool.until_running("stays")
    job, (node,) = pool.job("stays"), pool.state.nodes.values()
    await pool.publish(
        topics.NODE_COMMANDS.name,
        Evict(
            node=node.name,
            incarnation=node.incarnation,
            sender="executor",
            sender_epoch=pool.state.epoch,
            job="stays",
            ordered_by=RecordRef(epoch=pool.state.epoch, seq=MAX_INTEGER),
            attempt=job.attempt,
            tasks=(0,),
            grace=1_000_000,
            cause="preemption",
        ),
    )
    await pool.publish(topics.EVICTION_PROGRESS.name, StartEviction(job="stays", attempt=job.attempt, decided_by=pool.state.seq))
    assert (await rejected(pool, "not-signed")).topic == topics.EVICTION_PROGRESS.name
    await pool.submit("later", "true", gpus=0)
    await pool.until_ended("later")
    assert pool.running("stays")
    await pool.cancel("stays")
    await pool.until_ended("stays", "cancelled")


async def test_a_heartbeat_with_a_huge_epoch_does_not_end_the_pool(pool: Watch) -> None:
    (node,) = pool.state.nodes.values()
    fence = FenceStatus(epoch=MAX_INTEGER, seq=MAX_INTEGER, newest_epoch=MAX_INTEGER)
    await pool.publish(
        topics.NODE_REPORTS.name, NodeHeartbeat(node=node.name, incarnation=node.incarnation, number=MAX_INTEGER, fence=fence)
    )
    await rejected(pool, "not-signed")
    await pool.submit("continues", "true")
    await pool.until_ended("continues")


async def test_a_forged_release_frees_no_gpu(pool: Watch) -> None:
    await pool.submit("holds", gpus=8)
    await pool.until_running("holds")
    job, (node,) = pool.job("holds"), pool.state.nodes.values()
    report = TaskReleasedReport(
        node=node.name, incarnation=node.incarnation, number=MAX_INTEGER, job="holds", attempt=job.attempt, task=0
    )
    await pool.publish(topics.NODE_REPORTS.name, report)
    assert (await rejected(pool, "not-signed")).topic == topics.NODE_REPORTS.name
    assert pool.running("holds")
    await pool.cancel("holds")
    await pool.until_ended("holds", "cancelled")


async def test_a_forged_record_does_not_continue_the_log(pool: Watch) -> None:
    last = pool.entries[-1]
    forged = replace(
        last.record,
        seq=last.record.seq + 1,
        prev=last.hash,
        type=ClockAdvanced.TYPE,
        data=ClockAdvanced(),
        writer="intruder",
        next_content="",
        signature="",
    )
    wire = encode(forged)
    partition = pool.projection.partition
    await pool.publish_raw(topics.AUDIT.name, wire.value, wire.headers, partition=partition)
    await pool.submit("after-the-forged-record", "true", gpus=0)
    await pool.until_ended("after-the-forged-record")
    assert [orphan.reason for orphan in pool.projection.reader.latest_orphans][-1:] == ["it is not signed"]
    await pool.verify(orphans=True)


async def test_a_request_that_says_signed_without_a_signature_is_recorded_as_what_it_is(pool: Watch) -> None:
    demand = JobDemand(job="claims", tasks=(TaskGroup(cpu_milli=1),))
    body = SubmitJob(demand=demand, spec=JobSpec(command="true"))
    now = time.time_ns() // 1000
    headers, value = wrap(body, source="/tests", id="claims", pool="pool-a", time_us=now, actor="root", auth="signed")
    await pool.publish_raw(topics.REQUESTS.name, value, headers)
    await pool.until_ended("claims")
    submissions = [each.record for each in pool.entries if isinstance(each.record.data, JobSubmitted)]
    (auth,) = [record.auth for record in submissions if record.data.demand.job == "claims"]
    assert auth == "none"


async def test_a_loss_that_did_not_happen_is_not_accepted(pool: Watch) -> None:
    """A log that is cut later, up to the record that it names, would raise no alarm."""
    body = AcceptTruncation(epoch=pool.state.epoch, seq=pool.state.seq + 1_000, reason="a lie")
    headers, value = wrap(body, source="/tests", id="no-loss", pool="pool-a", time_us=time.time_ns() // 1000)
    await pool.publish_raw(topics.REQUESTS.name, value, headers)
    await rejected(pool, "nothing-lost")
    assert pool.state.accepted_truncation == (0, -1)


@pytest.mark.parametrize(
    "header", [b"00-not-a-trace", b"0" * 30_000, b"00-" + b"f" * 32 + b"-" + b"f" * 16 + b"-01", b"\xff\x00"]
)
async def test_a_false_trace_header_has_no_effect(pool: Watch, header: bytes) -> None:
    job = f"traced-{len(header)}"
    body = SubmitJob(demand=JobDemand(job=job, tasks=(TaskGroup(cpu_milli=1),)), spec=JobSpec(command="true"))
    headers, value = wrap(body, source="/tests", id=job, pool="pool-a", time_us=time.time_ns() // 1000)
    await pool.publish_raw(topics.REQUESTS.name, value, (*headers, ("traceparent", header), ("tracestate", header)))
    await pool.until_ended(job)


async def test_a_second_key_for_a_node_is_refused_and_the_node_works_on(pool: Watch) -> None:
    (node,) = pool.state.nodes.values()
    another = NodeInventory(
        node=node.name,
        incarnation="another",
        number=0,
        machine_id=node.machine_id,
        boot_id="another",
        release="0",
        cpu_milli=MAX_INTEGER,
        memory_bytes=MAX_INTEGER,
    )
    headers, value = wrap_with_key(
        new_private_key(), another, source="/tests", id="second-key", pool="pool-a", time_us=time.time_ns() // 1000
    )
    await pool.publish_raw(topics.NODE_REPORTS.name, value, headers)
    assert f"bailiff node approve {node.name}" in (await rejected(pool, "second-key")).reason
    await pool.submit("after-the-second-key", "true")
    await pool.until_ended("after-the-second-key")
    assert pool.state.nodes[0].incarnation == node.incarnation


# --- with a stolen key


async def test_a_node_s_own_key_does_not_end_the_pool_with_a_huge_epoch(pool: Watch) -> None:
    (node,) = pool.state.nodes.values()
    fence = FenceStatus(epoch=MAX_INTEGER, seq=MAX_INTEGER, newest_epoch=MAX_INTEGER)
    body = NodeHeartbeat(node=node.name, incarnation=node.incarnation, number=0, fence=fence)
    # its time must be later than that of the agent's own heartbeats
    credentials = read_credentials(pool.system.folder / "credentials" / "node-agent" / node.name)
    for number in range(20):
        at = time.time_ns() // 1000 + 1_000
        headers, value = wrap_with_key(
            credentials.private_key, body, source="/tests", id=f"huge-{number}", pool="pool-a", time_us=at
        )
        await pool.publish_raw(topics.NODE_REPORTS.name, value, headers)
    assert "which no log of this pool can have had" in (await rejected(pool, "beyond-log")).reason
    await pool.submit("after-the-huge-epoch", "true")
    await pool.until_ended("after-the-huge-epoch")


async def test_a_proposal_that_claims_to_be_proven_is_found_by_the_auditor_and_by_every_replay(pool: Watch) -> None:
    await pool.submit("short", gpus=4, kind="train")
    await pool.until_running("short")
    await pool.submit("long", gpus=4, kind="train")
    await pool.until_running("long")
    pool.system.signal("victim-selection", signal.SIGSTOP)
    try:
        await pool.submit("urgent", gpus=4, kind="inference")
        await pool.until("a selection is open", lambda state: state.selection is not None and state.proposals is None)
        state = pool.state
        (honest,) = compute_proposals(state)
        (victim,) = honest.victims
        other = next(job for job in ("short", "long") if job != victim.job)
        task = pool.job(other).tasks[0]
        devices = ranges(bits(task.devices))
        false = honest.model_copy(
            update={
                "victims": (victim.model_copy(update={"job": other}),),
                "placement": (honest.placement[0].model_copy(update={"devices": devices}),),
                "explanation": honest.explanation.model_copy(update={"proven": True}),
            }
        )
        assert state.selection is not None
        batch = ProposalBatch(selection=state.selection.number, computed_at=state.seq, logic=LOGIC, proposals=(false,))
        await pool.publish(topics.PROPOSALS.name, batch, signed_by="victim-selection")
        await pool.until_running("urgent")
    finally:
        pool.system.signal("victim-selection", signal.SIGCONT)
    assert "is not reproduced" in await pool.until_alarm("proposal-not-reproduced")
    found = await asyncio.to_thread(bailiff, pool.system.stack, "audit", "replay", code=1)
    assert found["proposals_not_reproduced"] == 1


# --- with access to the disk of Kafka or of the archive


async def test_a_copy_whose_tail_is_cut_is_found_because_a_witness_remembers(pool: Watch, tmp_path: Path) -> None:
    stack, whole, cut = pool.system.stack, tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    vkey = ("--witnesses", "1", "--witness-key", stack.witness)

    async def cosigned() -> bool:
        try:
            found = await asyncio.to_thread(bailiff, stack, "audit", "verify", *vkey)
        except AssertionError:  # not yet: it has another exit code
            return False
        return bool(found["witnesses"]["cosigned"])

    await pool.until_true("a witness has cosigned the log", cosigned)
    await asyncio.to_thread(pool.system.command, "pool-a", "audit", "export", str(whole))
    lines = whole.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[: len(lines) // 3]))
    found = await asyncio.to_thread(bailiff, None, "audit", "verify", "--file", str(cut), *vkey, code=1)
    assert "cosigned" in found["witnesses"]["problems"][0]


# --- what an operator sees


async def test_doctor_names_every_attack(pool: Watch) -> None:
    text = await asyncio.to_thread(pool.system.command, "pool-a", "doctor")
    for code in (
        "not-signed",
        "nothing-lost",
        "second-key",
        "beyond-log",
        "commands-refused",
        "record-not-signed",
        "proposal-not-reproduced",
    ):
        assert f"{code} from " in text, f"{code}: {text}"
