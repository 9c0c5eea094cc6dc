"""Almost valid messages: valid ones of every type, and mutations of them.

All randomness comes from the given generator. Plausible forgeries by an agent or a service are not tested here: log positions
of a command or a fence are only removed, never raised.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages import commands, devices, reports
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.port import Headers
from bailiff_core.engine import LOGIC
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MessageBody
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.records import job_requests
from bailiff_core.records.facts import Checkpoint, DeviceReading
from bailiff_core.records.node_requests import ClearQuarantine, DrainNode, ReplaceNode, ReturnNode, UndrainNode
from bailiff_core.records.pool_requests import AcceptTruncation, ApplyPolicy
from bailiff_log.signatures import sign

GIB = 1 << 30
NOW, NOW_TEXT = 1_800_000_000_000_000, "2027-01-15T08:00:00Z"
JOBS = 2000
KEY = bytes(range(32))  # a private key; the policy has its public key
POSITIONS = frozenset(("fence", "sender_epoch", "ordered_by", "lease", "lost_margin"))
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)

ODD_VALUES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**63, -(2**63), 10**400, 0.5, 1e308, "", " ", "x", "0", "-1"),
    *("x" * 300, "x" * 5000, "\u0000", "\ud800", "🦊", "../../etc", "'; drop table", "unknown", [], [[]], {}, {"": {}}),
    *([None] * 50, {"a": [1, {"b": 2}]}, "9" * 100, "2026-01-01T00:00:00Z", "NaN"),
)


@dataclass(frozen=True)
class Valid:
    """A message that is accepted, or rejected with a reason, if unchanged."""

    topic: str
    body: MessageBody


def valid_messages(node: str, incarnation: str) -> list[Valid]:
    """One message of every type on the input and command topics. They refer to no existing object but the node."""
    name: dict[str, Any] = {"node": node, "incarnation": incarnation}
    at: dict[str, Any] = {**name, "number": 0, "job": "unknown", "attempt": 1, "task": 0}
    ordered: dict[str, Any] = {
        **name,
        "sender": "executor",
        "sender_epoch": 1,
        "ordered_by": commands.RecordRef(epoch=1, seq=3),
        "job": "unknown",
        "attempt": 1,
    }
    group = TaskGroup(gpu_milli=1000, cpu_milli=10, memory_bytes=GIB)
    spec = JobSpec(
        command=("true",), env={"A": "b", "BAILIFF_SIM_RUN_FOR": "1", "BAILIFF_SIM_ON_TERM": "exit:0:1"}, runtime="simulated"
    )
    choice = VictimChoice(job="unknown", attempt=1, priority=50, gpus=1, lost_gpu_ms=0)
    answer = Proposal(request=5, job="unknown", victims=(choice,), placement=(NodeShare(node=0, tasks="0", devices="0-3"),))
    start = commands.StartTask(
        **{**ordered, "sender": "admission"},
        tasks=(
            commands.TaskAssignment(task=0, cpu_milli=10, memory_bytes=GIB),
            commands.TaskAssignment(task=1, devices=("GPU-unknown",)),
        ),
        spec=spec,
        grace=1_000_000,
        master_node=node,
    )
    about: dict[str, Any] = {**name, "number": 0, "device": "GPU-unknown"}
    reading = DeviceReading(device="GPU-unknown", memory_used=GIB, processes=1)
    saved = Checkpoint(step=1, bytes=1, duration=1, sha256="0" * 64)
    ghost = {**name, "node": "ghost", "incarnation": "f" * 32, "number": 0}
    ended = commands.TaskSnapshot(job="no-such-job", attempt=1, task=0, sha256="0" * 64)
    by_topic: dict[str, tuple[MessageBody, ...]] = {
        topics.REQUESTS.name: (
            job_requests.SubmitJob(demand=JobDemand(job="unknown", tasks=(group,), labels={"a": "b"}), spec=spec),
            job_requests.CancelJob(job="unknown", reason="no"),
            job_requests.ScaleJob(job="unknown", tasks=2, min_tasks=1),
            job_requests.SetPriorityClass(job="unknown", priority_class="train"),
            job_requests.EvictJob(job="unknown", reason="no"),
            job_requests.PauseJob(job="unknown", reason="no"),
            job_requests.ResumeJob(job="unknown"),
            job_requests.CheckpointJob(job="unknown", reason="no"),
            job_requests.MigrateJob(job="unknown", node="unknown", reason="no"),
            DrainNode(node="unknown", mode="quick", deadline=1_000_000, reason="no"),
            UndrainNode(node="unknown"),
            ApplyPolicy(policy=DEFAULT_POLICY, expected_revision=1),
            ReplaceNode(node="unknown", machine_id="machine"),
            ReturnNode(node="unknown"),
            AcceptTruncation(epoch=1, seq=3, reason="no"),
            ClearQuarantine(node="unknown", device="0", reason="no"),
        ),
        topics.PROPOSALS.name: (ProposalBatch(selection=1_000_000, computed_at=5, logic=LOGIC, proposals=(answer,)),),
        topics.EVICTION_PROGRESS.name: (
            StartEviction(job="unknown", attempt=1, decided_by=3),
            AbandonPreemption(preemption=3, reason="no"),
        ),
        topics.NODE_REPORTS.name: (
            reports.NodeHeartbeat(**name, number=0),
            reports.NodeInventory(**ghost, machine_id="m", boot_id="b", release="0", cpu_milli=1000, memory_bytes=GIB),
            reports.TaskStartedReport(**at),
            reports.TaskStartRefusedReport(**at, reason="no"),
            reports.EvictionStageReport(**at, stage="noticed"),
            reports.SnapshotStageReport(**at, stage="stored", driver="criu", bytes=1, sha256="0" * 64),
            reports.EvictionStageReport(**at, stage="checkpoint_committed", checkpoint=saved),
            reports.TaskProgressReport(**at, step=1, total_steps=2, step_rate_milli=1000, checkpoint=saved, checkpoint_age=1),
            reports.TaskResumedReport(**at, step=1, from_attempt=0),
            reports.TaskExitedReport(**at, exit_code=0),
            reports.TaskReleasedReport(**at),
            reports.TaskEvictionCancelledReport(**at),
            reports.TaskCancelEvictionRefusedReport(**at),
            devices.ShareExceededReport(**at, device="GPU-unknown", used_bytes=2, share_bytes=1),
            devices.TaskIdleReport(**at, duration=60_000_000),
            devices.DeviceQuarantinedReport(
                **about, quarantine=reports.QuarantinedDevice(device="GPU-unknown", reason="foreign", reading=reading)
            ),
            devices.DeviceClearedReport(**about, reading=reading),
            devices.DeviceUnhealthyReport(**about, reason="xid", code=79),
            devices.DeviceHealthyReport(**about),
        ),
        topics.NODE_COMMANDS.name: (
            commands.Fence(**name, sender="admission", sender_epoch=1),
            commands.SendInventory(**name, sender="admission", sender_epoch=1),
            commands.RemoveSnapshots(**name, sender="admission", sender_epoch=1, snapshots=(ended,)),
            start,
            commands.Evict(**ordered, tasks=(0,), grace=0, cause="preemption"),
            commands.CheckpointAtStep(**ordered, tasks=(0,), step=1),
            commands.SnapshotStep(**ordered, tasks=(0,), step="end"),
            commands.SaveTasks(**ordered, tasks=(0,)),
            commands.CancelEviction(**ordered, tasks=(0,)),
            devices.ClearDevice(**name, sender="admission", sender_epoch=1, device="GPU-unknown", requested_by=1),
        ),
    }
    return [Valid(topic, body) for topic, bodies in by_topic.items() for body in bodies]


def mutated(rng: Random, valid: Valid, number: int, pool: str) -> tuple[Headers, bytes]:
    """The message with up to three mutations of its data, attributes, headers or bytes."""
    tree = json.loads(json.dumps(valid.body.to_data()))
    _renew(tree, number)
    attributes: dict[str, object] = {
        "specversion": "1.0",
        "id": f"chance-{number if rng.randrange(20) else number % 50}",
        "source": f"/rng/{number % 7}",
        "type": valid.body.TYPE,
        "pool": pool,
    }
    after: list[Callable[[bytes], bytes]] = []
    headers_after: list[Callable[[Headers], Headers]] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        match rng.randrange(16):
            case 0 | 1 | 2 | 3 | 4:
                mutate(rng, tree)
            case 5 | 6:
                mutate(rng, attributes)
            case 7:
                attributes[rng.choice(("time", "auth", "actor", "sig", "keyid", "subject"))] = _odd(rng)
            case 8:
                attributes["type"] = _other_type(rng, valid.body.TYPE)
            case 9:
                attributes["pool"] = rng.choice(("pool-b", "pool-z", "Pool A!", "x" * 300, ""))
            case 10:
                _badly_signed(rng, valid.body, attributes)
            case 11:
                after.append(_nested(rng.choice((10, 63, 64, 65, 1000, 20_000))))
            case 12:
                after.append(_longer(rng.choice((1000, 70_000, 300_000)) if not rng.randrange(20) else 100))
            case 13:
                headers_after.append(_odd_headers(rng))
            case _:
                after.append(_broken_bytes(rng))
    if rng.random() < 0.2:
        headers, value = STRUCTURED, json.dumps({**attributes, "data": tree}).encode()
    else:
        headers = tuple((f"ce_{name}", text(item)) for name, item in attributes.items())
        value = json.dumps(tree).encode()
    for change in after:
        if not _raises_a_position(changed := change(value), valid.body.to_data()):
            value = changed
    for change_headers in headers_after:
        headers = change_headers(headers)
    return headers, value


def _raises_a_position(value: bytes, original: dict[str, Any]) -> bool:
    """Whether a flipped bit raised a log position."""
    try:
        tree = json.loads(value)
    except (ValueError, RecursionError):
        return False
    data = tree.get("data", tree) if isinstance(tree, dict) else None
    return isinstance(data, dict) and any(data[name] != original.get(name) for name in POSITIONS & data.keys())


def _renew(tree: dict[str, Any], number: int) -> None:
    """A new job name for each submission: a repeated name would be rejected before further checks."""
    if "spec" in tree:
        about = tree.get("demand", tree)
        about["job"] = f"{about['job']}-{number % JOBS}"
        tree["spec"]["secrets"] = {} if number % 3 else {"TOKEN": "missing"}


def mutate(rng: Random, tree: dict[str, Any]) -> None:
    """Change, remove, rename, duplicate or add one value somewhere in it."""
    place: Any = tree
    while True:
        names = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not names:
            return
        name = rng.choice(names)
        if name in POSITIONS:
            del place[name]
            return
        if isinstance(place[name], dict | list) and place[name] and rng.random() < 0.7:
            place = place[name]
            continue
        match rng.randrange(7):
            case 0:
                del place[name]
            case 1 if isinstance(place, dict):
                place[f"more{rng.randrange(5)}"] = _odd(rng)
            case 2 if isinstance(place, dict):
                place[rng.choice((name.upper(), f"{name} ", f"{name}s", "", "\u0000"))] = place.pop(name)
            case 1 | 2 | 3 if isinstance(place, list):
                place.extend(place[name : name + 1] * rng.choice((1, 2, 100)))
            case 3:
                place[name] = {name: place[name]}
            case _:
                place[name] = _odd(rng)
        return


def _odd(rng: Random) -> object:
    """A fresh copy each time, because it may be mutated further."""
    return deepcopy(rng.choice(ODD_VALUES))


def _other_type(rng: Random, kind: str) -> str:
    stem = kind.rpartition(".")[0]
    others = (
        job_requests.SubmitJob.TYPE,
        reports.NodeHeartbeat.TYPE,
        ProposalBatch.TYPE,
        commands.Evict.TYPE,
        "bailiff.audit.JobPlaced.v1",
    )
    return rng.choice((f"{stem}.v2", f"{stem}.v99999", stem, f"{kind}.v1", kind.lower(), "", *others))


def _badly_signed(rng: Random, body: MessageBody, attributes: dict[str, object]) -> None:
    """A signature of other content, of another key, or a valid one."""
    words = {name: text(attributes.get(name)).decode(errors="replace") for name in ("source", "id", "pool")}
    other = rng.choice(("source", "id", "pool", ""))
    if other:
        words[other] = "another"
    key = KEY if rng.randrange(3) else rng.randbytes(32)
    keyid, signature = sign(key, body, **words, time_us=NOW)
    attributes |= {"keyid": keyid, "sig": signature[: rng.choice((None, None, 40, 0))], "time": NOW_TEXT}


def _nested(depth: int) -> Callable[[bytes], bytes]:
    return lambda value: b'{"deep":' * depth + (value or b"1") + b"}" * depth


def _longer(count: int) -> Callable[[bytes], bytes]:
    return lambda value: value[:-1] + b',"fill":"' + b"x" * count + b'"}' if value.endswith(b"}") else value + b" " * count


def _odd_headers(rng: Random) -> Callable[[Headers], Headers]:
    extra = rng.choice(
        (
            ("ce_id", b"twice"),
            ("ce_type", rng.randbytes(20)),
            ("content-type", b"text/xml"),
            ("content-type", b"application/cloudevents+json; charset=latin-1"),
            ("", b""),
            ("x" * 300, b"x" * 300),
            ("ce_pool", b"\xff"),
        )
    )
    cut = rng.randrange(8)
    return lambda headers: (*headers[:cut], extra, *headers[cut + rng.randrange(2) :])


def _broken_bytes(rng: Random) -> Callable[[bytes], bytes]:
    at, bit = rng.randrange(10_000), 1 << rng.randrange(8)
    inserted = rng.choice((b"\xff", b"\xed\xa0\x80", b"\x00", b'"', b"}", b'"job":"x","job":"y",', b"\\ud800"))
    return rng.choice(
        (
            lambda value: value[: at % 200],
            lambda value: value + value,
            lambda value: flipped(value, at, bit),
            lambda value: value[: at % (len(value) + 1)] + inserted + value[at % (len(value) + 1) :],
            lambda value: value[::-1],
            lambda value: b"\xef\xbb\xbf" + value,
        )
    )


def text(value: object) -> bytes:
    """A header's bytes."""
    written = value if isinstance(value, str) else json.dumps(value)
    return written.encode(errors="surrogatepass")


def flipped(value: bytes, at: int, bit: int) -> bytes:
    """One bit changed."""
    if not value:
        return value
    at %= len(value)
    return value[:at] + bytes([value[at] ^ bit]) + value[at + 1 :]


def forged_wires(rng: Random, headers: Headers, value: bytes) -> Iterator[tuple[Headers, bytes]]:
    """A record of the audit log with a mutation in its headers or value."""
    while True:
        names = list(headers)
        for _ in range(rng.choice((0, 1, 1, 2))):
            at = rng.randrange(len(names))
            name, old = names[at]
            match rng.randrange(5):
                case 0:
                    del names[at]
                case 1:
                    names.insert(at, names[rng.randrange(len(names))])
                case 2:
                    names[at] = (name, flipped(old, rng.randrange(100), 1 << rng.randrange(8)))
                case 3:
                    names[at] = (name, rng.choice((b"", b"0", b"-1", b"9" * 400, b"\xff", b"x" * 5000, str(2**63).encode())))
                case _:
                    names[at] = (rng.choice(("ce_cycle", "ce_seq", "ce_epoch", "", "x")), old)
        changed = value if rng.randrange(2) else _broken_bytes(rng)(value)
        yield tuple(names), changed


def plain(body: MessageBody, pool: str, id: str) -> tuple[Headers, bytes]:  # noqa: A002 - as CloudEvents has it
    """The unmodified message."""
    return wrap(body, source="/fuzz", id=id, pool=pool, time_us=NOW)
