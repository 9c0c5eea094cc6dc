"""Input of any shape to a running admission: it is rejected with a reason and kept as a dead letter, and admission continues."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from tests.fuzz.mutations import STRUCTURED, mutated, valid_messages
from tests.kits.system import GIB, POLICY, System, Watch

from bailiff_bus import topics
from bailiff_bus.envelope import unwrap_dead_letter
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.messages.reports import NodeHeartbeat, NodeInventory
from bailiff_bus.port import Headers
from bailiff_core.engine import LOGIC
from bailiff_core.model.message import MAX_INPUT_BYTES
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.state import OpenRequest, PoolState
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused
from bailiff_core.records.facts import InputRejected, JobSubmitted
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_core.records.node_requests import ReturnNode
from bailiff_core.records.pool_requests import ApplyPolicy

INPUTS = (topics.REQUESTS.name, topics.PROPOSALS.name, topics.EVICTION_PROGRESS.name, topics.NODE_REPORTS.name)
FUZZED = 400
FOR_ALL = (ApplyPolicy, NodeInventory, ReturnNode)  # tests share this system
HOUR = 3_600_000_000

Where = tuple[str, int, int]


def submit(job: str = "odd", *, spec: Mapping[str, Any] | None = None, **group: Any) -> dict[str, Any]:
    """The JSON data of a request to submit a job."""
    tasks = [{"gpu_milli": 1000, "cpu_milli": 1000, "memory_bytes": GIB, **group}]
    return {"demand": {"job": job, "tasks": tasks}, "spec": {"command": "true", **(spec or {})}}


def binary(data: object, kind: str = SubmitJob.TYPE, **attributes: str | None) -> tuple[Headers, bytes]:
    """A CloudEvent in binary mode as clients write it; attributes that are None are left out."""
    binary.count += 1
    known: dict[str, str | None] = {
        "specversion": "1.0",
        "id": f"odd-{binary.count}",
        "source": "/odd",
        "type": kind,
        "pool": "pool-a",
        **attributes,
    }
    headers = tuple((f"ce_{name}", value.encode()) for name, value in known.items() if value is not None)
    return headers, data if isinstance(data, bytes) else json.dumps(data).encode()


binary.count = 0


@dataclass(frozen=True)
class Odd:
    """An input without effect: what it is, how it is rejected, and what the reason must mention."""

    what: str
    sent: tuple[Headers, bytes]
    code: str
    mentions: tuple[str, ...]
    topic: str = topics.REQUESTS.name


EVENT = {"specversion": "1.0", "id": "s", "source": "/odd", "type": SubmitJob.TYPE, "pool": "pool-a"}

ODD = (
    Odd("nothing", ((), b""), "empty", ("empty",)),
    Odd("plain words", ((), b"please run my job"), "not-a-cloudevent", ("ce_id", "content-type")),
    Odd("not JSON", binary(b"{run: it}"), "not-json", ("line 1",)),
    Odd("not UTF-8", binary(b'{"demand": "\xff"}'), "not-json", ("UTF-8",)),
    Odd("a list", binary([1, 2]), "not-an-object", ("object",)),
    Odd("a key twice", binary(b'{"demand": 1, "demand": 2}'), "not-json", ("demand", "twice")),
    Odd("not a number", binary(b'{"demand": NaN}'), "not-json", ("NaN",)),
    Odd("deep", binary(b'{"a":' * 500 + b"1" + b"}" * 500), "not-json", ("64",)),
    Odd("very deep", binary(b"[" * 100_000), "not-json", ("64",)),
    Odd("many digits", binary(b'{"demand": ' + b"9" * 5000 + b"}"), "not-json", ("digits",)),
    Odd("half a character", binary(b'{"demand": "\\ud800"}'), "bad-field", ("surrogate",)),
    Odd("wrong version", binary(submit(), specversion="0.3"), "wrong-specversion", ("1.0", "0.3")),
    Odd("no id", binary(submit(), id=None), "no-id", ("id",)),
    Odd("no source", binary(submit(), source=None), "no-source", ("source",)),
    Odd("no type", binary(submit(), type=None), "no-type", ("type",)),
    Odd("unknown kind", binary(submit(), kind="com.example.Order.v7"), "unknown-type", ("com.example.Order.v7",)),
    Odd("a report", binary({}, kind=NodeHeartbeat.TYPE), "unknown-type", ("is not allowed on bailiff.requests",)),
    Odd("no pool", binary(submit(), pool=None), "no-pool", ("pool",)),
    Odd("unknown pool", binary(submit(), pool="pool-z"), "unknown-pool", ("pool-z", "pool-a")),
    Odd("no name of a pool", binary(submit(), pool="Pool A!"), "bad-field", ("pool",)),
    Odd("XML", ((*binary({})[0], ("content-type", b"text/xml")), b"<job/>"), "wrong-content-type", ("text/xml",)),
    Odd("a header of bytes", ((*binary({})[0], ("ce_actor", b"\xff\xfe")), b"{}"), "bad-field", ("ce_actor", "UTF-8")),
    Odd("structured, not JSON", (STRUCTURED, b"no"), "not-json", ("line 1",)),
    Odd("structured, no data", (STRUCTURED, json.dumps(EVENT).encode()), "not-an-object", ("data",)),
    Odd("structured, base64", (STRUCTURED, json.dumps({**EVENT, "data_base64": "e30="}).encode()), "bad-field", ("data_base64",)),
    Odd("no data", binary({}), "bad-field", ("demand",)),
    Odd("a word for a number", binary(submit(gpu_milli="two")), "bad-field", ("gpu_milli", "two")),
    Odd("a fraction", binary(submit(gpu_milli=1.5)), "bad-field", ("gpu_milli", "whole")),
    Odd("negative GPUs", binary(submit(gpu_milli=-1000)), "bad-field", ("gpu_milli",)),
    Odd("a huge number", binary(submit(memory_bytes=2**60)), "bad-field", ("memory_bytes",)),
    Odd("no tasks", binary({"demand": {"job": "odd", "tasks": []}, "spec": {"command": "true"}}), "bad-field", ("tasks",)),
    Odd("no tasks of a group", binary(submit(count=0)), "bad-field", ("count",)),
    Odd("no name of a job", binary(submit("My Job")), "bad-field", ("job",)),
    Odd("a command of nothing", binary(submit(spec={"command": []})), "bad-field", ("command",)),
    Odd("half a GPU", binary(submit(gpu_milli=500)), "malformed", ("500", "1000")),
    Odd("a gang larger than the pool", binary(submit(count=3, gpu_milli=4000)), "never-fits", ("3 tasks", "4 GPUs")),
    Odd("a task larger than a node", binary(submit(gpu_milli=9000)), "never-fits", ("9",)),
    Odd(
        "an unknown class",
        binary({**submit(), "demand": {**submit()["demand"], "priority_class": "vip"}}),
        "unknown-class",
        ("vip", "train"),
    ),
    Odd("cancels nothing", binary({"job": "unknown"}, kind=CancelJob.TYPE), "no-such-job", ("unknown",)),
    Odd("too long", binary(submit(spec={"env": {"X": "x" * MAX_INPUT_BYTES}})), "too-large", (str(MAX_INPUT_BYTES),)),
    Odd("a header too long", ((*binary({})[0], ("x", b"x" * 70_000)), b"{}"), "too-large", ("headers",)),
)


async def letters(pool: Watch) -> dict[Where, tuple[str, str, Headers, bytes]]:
    """All dead letters by position of the input: code, reason, original headers and bytes."""
    found = {}
    for message in await pool.everything(topics.DEAD_LETTERS.name):
        letter, headers, value = unwrap_dead_letter(message)
        found[(letter.topic, letter.partition, letter.offset)] = (letter.code, letter.reason, headers, value)
    return found


async def is_alive(pool: Watch, job: str) -> None:
    """Check that a valid job still runs to its end."""
    await pool.submit(job, "true")
    await pool.until_ended(job)


def failed_cycles(pool: Watch) -> int:
    """How often deciding has failed. Admission itself runs on; on a busy machine it may have started another writer."""
    pool.system.stack.processes.check("admission")
    return pool.system.log_of("admission").count("a cycle failed")


async def test_each_odd_input_is_rejected_with_a_reason_and_kept(system: System) -> None:
    async with system.watch("pool-a") as pool:
        failed = failed_cycles(pool)
        sent: list[tuple[Odd, Where]] = []
        for odd in ODD:
            receipt = await pool.publish_raw(odd.topic, odd.sent[1], odd.sent[0])
            assert receipt.offset is not None
            sent.append((odd, (odd.topic, receipt.partition, receipt.offset)))
        for odd, (topic, partition, offset) in sent:
            rejected = await pool.record(InputRejected, topic=topic, partition=partition, offset=offset)
            assert rejected.code == odd.code, f"{odd.what}: {rejected.reason}"
            missing = [word for word in odd.mentions if word not in rejected.reason]
            assert not missing, f"{odd.what}: {missing} not in {rejected.reason!r}"
            assert len(rejected.reason) < 500, f"{odd.what}: too long: {rejected.reason}"

        await is_alive(pool, "after-odd")
        found = await letters(pool)
        for odd, where in sent:
            code, reason, headers, value = found[where]
            assert (code, value) == (odd.code, odd.sent[1]), odd.what
            assert reason
            assert dict(headers).items() >= dict(odd.sent[0]).items() or odd.what == "a header too long"
        assert failed_cycles(pool) == failed, "an input has stopped the writer"
        assert "odd" not in pool.state.jobs
        await pool.verify()


async def test_garbage_on_every_input_topic(system: System) -> None:
    chance = random.Random(20)
    async with system.watch("pool-a") as pool:
        failed = failed_cycles(pool)
        sent: dict[Where, bytes] = {}
        for topic in INPUTS:
            for length in (1, 7, 100, 5000):
                value = chance.randbytes(length)
                receipt = await pool.publish_raw(topic, value, (("ce_type", chance.randbytes(length % 50)),) * (length % 2))
                assert receipt.offset is not None
                sent[(topic, receipt.partition, receipt.offset)] = value
        for topic, partition, offset in sent:
            await pool.record(InputRejected, topic=topic, partition=partition, offset=offset)
        await is_alive(pool, "after-garbage")
        found = await letters(pool)
        assert {where: found[where][3] for where in sent} == sent
        assert failed_cycles(pool) == failed
        await pool.verify()


async def test_the_same_id_again_has_no_effect_and_with_other_content_is_rejected(system: System) -> None:
    async with system.watch("pool-a") as pool:
        one = SubmitJob.model_validate_json(json.dumps(submit("again", gpu_milli=0)))
        other = SubmitJob.model_validate_json(json.dumps(submit("again-other", gpu_milli=0)))
        for body in (one, one, other, one):
            await pool.request(body, "the-same-id")
        rejected = await pool.record(InputRejected, id="the-same-id")
        assert rejected.code == "id-reused"
        assert "the-same-id" in rejected.reason
        await pool.until_ended("again")
        await is_alive(pool, "after-again")
        assert len([fact for fact in pool.facts(JobSubmitted) if fact.request.id == "the-same-id"]) == 1
        assert len(pool.facts(InputRejected, id="the-same-id")) == 1
        assert "again-other" not in pool.state.jobs


async def test_the_largest_request_is_accepted_and_a_larger_one_is_refused(system: System) -> None:
    async with system.watch("pool-a") as pool:
        # The largest readable request is rejected, because its start command is too large; the largest startable one runs.
        # Encrypted for its node, a spec has four thirds of its size.
        empty = len(json.dumps(submit("larger", spec={"env": {"FILL": ""}})))
        headers, value = binary(submit("larger", spec={"env": {"FILL": "x" * (MAX_INPUT_BYTES - empty)}}), id="larger")
        assert len(value) == MAX_INPUT_BYTES
        await pool.publish_raw(topics.REQUESTS.name, value, headers)
        rejected = await pool.record(InputRejected, id="larger")
        assert rejected.code == "too-large"
        assert str(MAX_INPUT_BYTES) in rejected.reason
        largest = submit("largest", spec={"env": {"FILL": "x" * (MAX_INPUT_BYTES * 3 // 4 - empty - 3000)}})
        largest["demand"]["max_failures"] = 0
        headers, value = binary(largest)
        await pool.publish_raw(topics.REQUESTS.name, value, headers)
        await pool.until("it is accepted", lambda seen: "largest" in seen.jobs)

        # One megabyte: the broker rejects it, whatever the client's limit is.
        async with AIOKafkaProducer(
            bootstrap_servers=system.stack.kafka.bootstrap, max_request_size=4 * 1024 * 1024, max_batch_size=4 * 1024 * 1024
        ) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topics.REQUESTS.name, b"x" * 1024 * 1024, headers=list(headers))
        await is_alive(pool, "after-largest")
        await pool.until("it has run", lambda seen: seen.jobs["largest"].phase in ("succeeded", "failed"))
        assert pool.job("largest").attempt == 1


async def test_a_job_that_no_start_command_can_hold_is_refused(system: System) -> None:
    async with system.watch("pool-a") as pool:
        data = submit("unstartable", spec={"env": {"FILL": "x" * 220_000}}, count=900, gpu_milli=0, cpu_milli=1)
        data["demand"]["tasks"][0]["memory_bytes"] = 0
        headers, value = binary(data, id="unstartable")
        await pool.publish_raw(topics.REQUESTS.name, value, headers)
        rejected = await pool.record(InputRejected, id="unstartable")
        assert rejected.code == "too-large"
        assert "900" in rejected.reason
        await is_alive(pool, "after-unstartable")


async def test_forged_proposals_decide_nothing(battered: System) -> None:
    async with battered.watch("pool-b") as pool:
        battered.kill("victim-selection")
        failed = failed_cycles(pool)
        patient = POLICY.preemption.model_copy(update={"selection_timeout": HOUR})
        await pool.apply(POLICY.model_copy(update={"preemption": patient}))  # enough time for the forgeries
        await pool.submit("forged-firm", gpus=4, kind="build")
        await pool.submit("forged-train", gpus=4)
        await pool.until_running("forged-firm", "forged-train")
        before = {name: pool.job(name).attempt for name in ("forged-firm", "forged-train")}
        node = pool.job("forged-train").tasks[0].node
        here = (NodeShare(node=node, tasks="0", devices="0-3"),)

        def victim(name: str, attempt: int = 1) -> tuple[VictimChoice, ...]:
            return (VictimChoice(job=name, attempt=attempt, priority=50, gpus=4, lost_gpu_ms=0),)

        forged: list[dict[str, Any]] = [
            {"victims": victim("unknown"), "placement": here},
            {"victims": victim("forged-firm"), "placement": here},  # may not be preempted
            {"victims": victim("forged-train", 99), "placement": here},
            {"victims": victim("forged-train"), "placement": ()},
            {"victims": victim("forged-train"), "placement": (NodeShare(node=77, tasks="0", devices="0-3"),)},
            {"victims": victim("forged-train"), "placement": (NodeShare(node=node, tasks="9-3", devices="x"),)},
            {"victims": victim("forged-train"), "placement": (NodeShare(node=node, tasks="0", devices="60-63"),)},
            {"victims": victim("forged-train") * 2, "placement": here},
            {"victims": (), "placement": here},
            {"victims": (), "placement": (NodeShare(node=node, tasks=",".join(["0-99999"] * 25_000)),)},
        ]
        by_job = {f"forged-{number}": answer for number, answer in enumerate(forged)}
        for name in by_job:
            await pool.submit(name, gpus=4, kind="inference")
        refused, rejected = set[str](), 0
        while refused < set(by_job):
            await pool.until("there is an open selection", lambda seen: seen.selection is not None)
            selection = pool.state.selection
            assert selection is not None
            requests = list(selection.requests)
            proposals = tuple(Proposal(request=each.seq, job=each.job, **by_job[each.job]) for each in requests)
            computed_at = max(each.seq for each in requests)  # a request may have come after the selection was opened
            proposal = ProposalBatch(selection=selection.number, computed_at=computed_at, logic=LOGIC, proposals=proposals)
            await pool.publish(topics.PROPOSALS.name, proposal, signed_by="victim-selection")

            def is_answered(_: PoolState, requests: list[OpenRequest] = requests, rejected: int = rejected) -> bool:
                whole = len(pool.facts(InputRejected, code="invalid-proposal")) > rejected
                return whole or all(pool.facts(PreemptionRefused, request=each.seq) for each in requests)

            await pool.until("the batch is rejected, or each request refused", is_answered)
            if len(pool.facts(InputRejected, code="invalid-proposal")) > rejected:
                rejected += 1
                by_job = dict.fromkeys(by_job, forged[0])  # one that is read, and then refused
            refused |= {each.job for each in requests if pool.facts(PreemptionRefused, request=each.seq)}
        assert not [fact for fact in pool.facts(PreemptionDecided) if fact.preemptor.job in by_job]
        assert {name: pool.job(name).attempt for name in before} == before
        assert failed_cycles(pool) == failed

        battered.start_service("victim-selection")
        await pool.until("one of them runs", lambda _: any(pool.running(name) for name in by_job))
        assert pool.running("forged-firm")
        await pool.apply(POLICY)
        await pool.verify()


# --- a few hundred random inputs from a seed


async def test_hundreds_of_random_inputs(system: System) -> None:
    chance = random.Random(4711)
    async with system.watch("pool-a") as pool:
        node = next(iter(pool.state.nodes.values()))
        valid = [each for each in valid_messages(node.name, node.incarnation) if not isinstance(each.body, FOR_ALL)]
        failed = failed_cycles(pool)
        sent: dict[Where, bytes] = {}
        for number in range(FUZZED):
            each = chance.choice(valid)
            headers, value = mutated(chance, each, number, "pool-a")
            receipt = await pool.publish_raw(each.topic, value, headers)
            assert receipt.offset is not None
            if each.topic in INPUTS:
                sent[(each.topic, receipt.partition, receipt.offset)] = value
        await is_alive(pool, "after-chance")
        await pool.until(
            "all inputs were read",
            lambda seen: all(seen.inputs.get(f"{topic}/{partition}", 0) > offset for topic, partition, offset in sent),
        )
        rejected = {(fact.topic, fact.partition, fact.offset): fact for fact in pool.facts(InputRejected)}
        wrong = [rejected[where] for where in sent if where in rejected]
        assert len(wrong) > FUZZED // 3, "too few inputs were rejected"
        assert {fact.code for fact in wrong} >= {"bad-field", "not-json", "unknown-type"}
        assert "internal-error" not in {fact.code for fact in wrong}, [fact for fact in wrong if fact.code == "internal-error"]
        assert all(fact.reason for fact in wrong)
        found = await letters(pool)
        for where, value in sent.items():
            if where in rejected:
                assert found[where][3] == value
        assert failed_cycles(pool) == failed, "an input has stopped the writer"
        assert pool.state.nodes[node.number].incarnation == node.incarnation
        await pool.verify()
