"""The exact text line of every record type."""
# ruff: noqa: E501 - expected lines are not wrapped

import json
import typing
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.client.kit import GIB, MINUTE, NOON, SECOND, LogWriter, finished_story, preemption_story

from bailiff.render.events import events_of
from bailiff.render.record_text.event_words import WORDS
from bailiff.render.record_text.line import styled
from bailiff.render.record_text.lines import ENTRIES, lines, sentence
from bailiff_core.explain import jobs_of
from bailiff_core.humanize import cost_text, duration_text
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.state import PoolState
from bailiff_core.records import AUDIT_TYPES, Record

REQUEST = {"source": "laptop", "id": "r-1", "digest": "d" * 64}
TASK = {"job": "train-7", "attempt": 1, "task": 0, "node": "gpu-01"}
PREEMPTOR = {"job": "serve-2", "class_name": "inference", "priority": 125}
PLACE = [{"node": 0, "tasks": "0", "devices": "0-3"}]
VICTIM = {"job": "train-7", "attempt": 1, "priority": 50, "gpus": 4, "lost_gpu_ms": 186_000}
DECIDED = {"request": 19, "preemptor": PREEMPTOR, "attempt": 1, "placement": PLACE, "expires": NOON, "explanation": {}}

CHECKPOINT = {"step": 120, "bytes": 256 << 20, "duration": SECOND, "sha256": "0" * 64}

EXAMPLES: dict[str, tuple[dict[str, Any], str | list[str]]] = {
    "PoolCreated": ({"pool": "pool-a", "partition": 0, "nonce": "n"}, "pool created         pool-a  partition 0, format bailiff-audit-1"),
    "PolicyApplied": (
        {"policy": DEFAULT_POLICY.model_dump(mode="json")},
        "policy in force      inference 125 > build 100 > interactive 75 > train 50  actions allocate, consolidate, reclaim, preempt",
    ),
    "WriterStarted": (
        {"writer": "abcdef0123", "release": "0.1.0", "digest": "e" * 64, "logic": 1, "state_schema": 1},
        "writer started       abcdef01  release 0.1.0, logic 1, engine eeeeeeeeeeee",
    ),
    "KeyRevoked": ({"key": "k" * 43, "reason": "stolen laptop"}, f"key revoked          {'k' * 43}  stolen laptop"),
    "RootKeyChanged": (
        {"change": {"identity": "a" * 64, "key": "r" * 43, "signature": "s" * 86}},
        f"root key changed     {'r' * 43}  signed with the key before it",
    ),
    "EnrolmentPermitted": (
        {"request": REQUEST, "node": "n1", "token_key": "t" * 43, "expires": 1_767_225_600_000_000},
        "enrolment permitted  n1  one agent with the token, until 2026-01-01T00:00:00",
    ),
    "NodeWaiting": (
        {"node": "n1", "key": "k" * 43},
        f"node waiting         n1  not enrolled; to allow it: bailiff node approve n1 {'k' * 43}",
    ),
    "NodeEnrolled": (
        {"node": "n1", "key": "k" * 43, "encryption_key": "e" * 43, "by": "token", "permitted_by": 9},
        f"node enrolled        n1  by token, as #9 permits, key {'k' * 43}",
    ),
    "ClockAdvanced": ({}, "clock                a timer expired"),
    "ClockStepped": ({"jump": -90 * SECOND}, "clock stepped        the writer's clock jumped back by 1m30s; not counted"),
    "InputsAdvanced": ({}, "inputs read          no input for this pool"),
    "InputsLost": (
        {"topic": "bailiff.requests", "partition": 2, "from_offset": 5, "to_offset": 8},
        "inputs lost          bailiff.requests/2  3 messages expired before they were read (offsets 5 to 7)",
    ),
    "InputRejected": (
        {"topic": "bailiff.requests", "partition": 1, "offset": 7, "digest": "d" * 64, "code": "no-such-job",
         "reason": "there is no job 'x'", "job": "x"},
        "rejected             x  no-such-job: there is no job 'x'",
    ),
    "StateDigest": ({"schema_version": 1, "digest": "c" * 64}, "state digest         cccccccccccc  schema 1"),
    "DecisionFailed": ({"job": "odd", "error": "KeyError: 3"}, "decision failed      odd  suspended until it is cancelled: KeyError: 3"),
    "LogTruncated": (
        {"request": REQUEST, "epoch": 3, "seq": 90, "reason": "power loss"},
        "truncation accepted  agents had executed commands up to epoch 3 seq 90; accepted by an operator: power loss",
    ),
    "TruncationReconciled": ({}, "log reconciled       every agent has reported its tasks; scheduling continues"),
    "JobSubmitted": (
        {"request": REQUEST, "spec_digest": "a" * 64, "demand": {
            "job": "train-7", "priority_class": "train",
            "tasks": [{"count": 2, "gpu_milli": 4000, "cpu_milli": 2000, "memory_bytes": 8 * GIB}, {"cpu_milli": 500}]}},
        "job submitted        train-7  2 × (4 GPUs, 2 CPU, 8GiB) + 0.5 CPU, train",
    ),
    "JobCancelled": ({"request": REQUEST, "job": "train-7", "reason": "wrong data"}, "cancel requested     train-7  wrong data"),
    "JobScaled": ({"request": REQUEST, "job": "train-7", "tasks": 6, "min_tasks": 2}, "scale requested      train-7  6 tasks, at least 2 together"),
    "JobPriorityClassChanged": ({"request": REQUEST, "job": "train-7", "priority_class": "build"}, "class changed        train-7  to build"),
    "JobEvictionRequested": ({"request": REQUEST, "job": "train-7", "reason": "noon"}, "eviction requested   train-7  noon"),
    "JobPaused": ({"request": REQUEST, "job": "train-7", "reason": "bad data"}, "job paused           train-7  bad data"),
    "JobResumed": ({"request": REQUEST, "job": "train-7"}, "job resumed          train-7  returns to the queue"),
    "JobMigrationRequested": (
        {"request": REQUEST, "job": "train-7", "node": "gpu-02", "reason": "noise"}, "migration requested  train-7  to gpu-02: noise",
    ),
    "NodeDrained": (
        {"request": REQUEST, "node": "gpu-01", "mode": "fast", "deadline": 60 * SECOND, "reason": "new driver"},
        "node drained         gpu-01  no new placements, jobs are evicted now with the short grace, within 1m: new driver",
    ),
    "NodeUndrained": ({"request": REQUEST, "node": "gpu-01"}, "node undrained       gpu-01  schedulable again"),
    "JobIdle": (
        {"job": "train-7", "attempt": 1, "duration": 600 * SECOND, "action": "pause"},
        "job idle             train-7  its GPUs were idle for 10m: it is paused",
    ),
    "TaskIdle": ({**TASK, "duration": 60 * SECOND}, "task idle            train-7/0  on gpu-01, its GPUs were idle for 1m"),
    "AttachGranted": (
        {**TASK, "request": REQUEST, "client_certificate": "A" * 400}, "attach granted       train-7/0  on gpu-01",
    ),
    "JobSpecGranted": (
        {"job": "train-7", "request": REQUEST, "encryption_key": "A" * 43},
        "spec granted         train-7  its command may be read by who asked",
    ),
    "AttachReady": (
        {**TASK, "grant": 7, "address": "gpu-01:7443", "fingerprint": "0" * 64},
        "attach ready         train-7/0  on gpu-01, at gpu-01:7443",
    ),
    "AttachStarted": ({**TASK, "grant": 7}, "attached             train-7/0  on gpu-01, granted by #7"),
    "AttachEnded": (
        {**TASK, "grant": 7, "reason": "detached"}, "attachment ended     train-7/0  on gpu-01, the client detached, granted by #7",
    ),
    "DrainDeadlineReached": ({"node": "gpu-01"}, "drain deadline       gpu-01  remaining jobs are evicted"),
    "MigrationDecided": (
        {"job": "train-7", "attempt": 1, "placement": PLACE, "grace": 30 * SECOND, "expires": NOON, "reason": "noise"},
        "job migrates         train-7 → node 0 [0-3]  noise, grace 30s, reserved until 12:00:00",
    ),
    "MigrationRefused": (
        {"job": "train-7", "attempt": 1, "reason": "no node has 4 GPUs free"}, "migration refused    train-7  not moved: no node has 4 GPUs free",
    ),
    "NodeReplaced": (
        {"request": REQUEST, "node": "gpu-01", "machine_id": "m2"}, "node replaced        gpu-01  machine m2 may register under this name",
    ),
    "NodeReturned": ({"request": REQUEST}, "node returned        all nodes  missing heartbeats count again"),
    "NodeJoined": (
        {"node": "gpu-01", "number": 0, "incarnation": "i", "machine_id": "m", "boot_id": "b", "report_number": 0, "cpu_milli": 8000,
         "memory_bytes": 64 * GIB, "devices": [{"id": "G0", "model": "H100", "memory_bytes": 80 * GIB},
                                               {"id": "G1", "model": "H100", "memory_bytes": 80 * GIB, "healthy": False}]},
        "node joined          gpu-01  2 × H100, 8 CPU, 64GiB, 1 device unhealthy",
    ),
    "NodeRefused": (
        {"node": "gpu-01", "machine_id": "m2", "reason": "the name is taken"},
        "node refused         gpu-01  machine m2: the name is taken (to allow it: bailiff node replace gpu-01 m2)",
    ),
    "NodeUnreachable": ({"node": "gpu-01", "last_contact": NOON}, "node unreachable     gpu-01  last contact 12:00:00; no new placements"),
    "NodeReachable": ({"node": "gpu-01"}, "node reachable       gpu-01  heartbeats resumed"),
    "NodeLost": ({"node": "gpu-01", "last_contact": NOON}, "node lost            gpu-01  last contact 12:00:00; lease expired, its tasks are lost"),
    "NodesSilent": (
        {"nodes": ["gpu-01", "gpu-02"]},
        "nodes silent         2 nodes  gpu-01, gpu-02; not declared lost until an operator runs: bailiff node return",
    ),
    "DeviceQuarantined": (
        {"node": "gpu-01", "device": "G0", "reason": "not-free", "detail": "memory is left", "job": "train-7", "attempt": 1, "task": 0,
         "reading": {"device": "G0", "memory_used": 4 * GIB, "processes": 1}},
        "device quarantined   gpu-01 G0  memory is left, 4GiB and 1 process on it, after train-7/0",
    ),
    "DeviceClearRequested": (
        {"request": REQUEST, "node": "gpu-01", "device": "G0", "reason": "rebooted the card"}, "clear requested      gpu-01 G0  rebooted the card",
    ),
    "DeviceCleared": ({"node": "gpu-01", "device": "G0"}, "device cleared       gpu-01 G0  it was verified free; schedulable again"),
    "DeviceUnhealthy": (
        {"node": "gpu-01", "device": "G0", "reason": "xid", "code": 79, "detail": "fallen off the bus"},
        "device unhealthy     gpu-01 G0  Xid 79, fallen off the bus, out of service",
    ),
    "DeviceHealthy": ({"node": "gpu-01", "device": "G0"}, "device healthy       gpu-01 G0  schedulable again"),
    "ShareExceeded": (
        {**TASK, "device": "G0", "used_bytes": 6 * GIB, "share_bytes": 4 * GIB},
        "share exceeded       train-7/0  on gpu-01, 6GiB of G0, its share is 4GiB",
    ),
    "TaskStarted": (TASK, "task started         train-7/0  on gpu-01"),
    "TaskStartRefused": ({**TASK, "reason": "device in use"}, "start refused        train-7/0  on gpu-01, device in use"),
    "TaskExited": ({**TASK, "attempt": 2, "exit_code": -9}, "task exited          train-7/0  on gpu-01, attempt 2, by signal 9"),
    "TaskReleased": (
        {**TASK, "after": [{"device": "G0", "memory_used": 0, "processes": 0}]}, "task released        train-7/0  on gpu-01, 1 device verified free",
    ),
    "TaskVanished": (TASK, "task vanished        train-7/0  on gpu-01, unknown to its node; exit status unknown"),
    "EvictionStageReached": ({**TASK, "stage": "term_sent", "elapsed": 2 * SECOND}, "eviction             train-7/0  TERM sent, on gpu-01, 2s after the notice"),
    "TaskProgressed": (
        {**TASK, "step": 130, "total_steps": 500, "checkpoint": CHECKPOINT, "checkpoint_age": 3 * SECOND},
        "progress             train-7/0  on gpu-01, step 130 of 500, checkpoint of step 120, 256MiB in 1s, 3s ago",
    ),
    "TaskResumed": (
        {**TASK, "attempt": 2, "step": 120, "from_attempt": 1, "skipped_checkpoints": 1, "steps_lost": 10},
        "task resumed         train-7/0  on gpu-01, attempt 2, at step 120, saved by attempt 1, 10 steps lost, 1 damaged checkpoint skipped",
    ),
    "TaskEvictionCancelled": (TASK, "eviction cancelled   train-7/0  on gpu-01, keeps running"),
    "TaskCancelEvictionRefused": (TASK, "cancel refused       train-7/0  on gpu-01, too late, the eviction continues"),
    "ProposalReceived": (
        {"selection": 4, "computed_at": 19, "logic": 1, "proposals": [
            {"request": 19, "job": "serve-2", "victims": [VICTIM]}, {"request": 20, "job": "big", "refused": "gave-up"}]},
        "proposal             selection 4  computed at #19; #19 serve-2: 1 victim, #20 big: gave-up",
    ),
    "EvictionStarted": ({"job": "train-7", "attempt": 1, "decided_by": 21}, "eviction started     train-7  decided at #21; notices sent"),
    "PreemptionAbandoned": ({"preemption": 21, "reason": "serve-2 was cancelled"}, "preemption abandoned preemption #21  no eviction needed: serve-2 was cancelled"),
    "JobPlaced": (
        {"job": "train-7", "attempt": 2, "placement": PLACE, "backfilled": True},
        "job placed           train-7  → node 0 [0-3], attempt 2, backfilled",
    ),
    "JobGrown": (
        {"job": "train-7", "attempt": 1, "placement": [{"node": 0, "tasks": "4-5", "devices": "4-5"}]},
        "job grown            train-7  2 tasks more → node 0 [4-5]",
    ),
    "JobShrunk": (
        {"job": "train-7", "attempt": 1, "tasks": "4-5", "outcome": "preempted", "cause": "preemption", "lost_gpu_ms": 186_000},
        "job shrunk           train-7/4-5  continues without them: preemption, lost 3.1 GPU-min",
    ),
    "JobPriorityBoosted": (
        {"job": "train-7", "priority": 50, "effective_priority": 60, "reason": "evicted 3 times"},
        "priority boosted     train-7  effective priority 60 instead of 50, evicted 3 times",
    ),
    "ScheduleTimedOut": (
        {"job": "train-7", "waited": 300 * SECOND, "action": "pass", "reason": "needs 8 GPUs"},
        "schedule timeout     train-7  unschedulable for 5m: smaller jobs may be placed before it, needs 8 GPUs",
    ),
    "JobStarting": ({"job": "serve-2", "attempt": 1}, "job starting         serve-2  its reserved resources are free"),
    "ReservationDropped": ({"job": "serve-2", "reason": "expired", "preemption": 21}, "reservation dropped  serve-2  the reservation expired, preemption #21"),
    "JobPending": ({"job": "train-9", "reason": "needs 8 GPUs"}, "job pending          train-9  needs 8 GPUs"),
    "DependenciesMet": ({"job": "train-9"}, "dependencies met     train-9  it joins the queue"),
    "PreemptionRequested": (
        {"job": "serve-2", "selection": 1, "class_name": "inference", "priority": 125, "reason": "needs 8 GPUs"},
        "preemption requested serve-2  (inference 125) needs 8 GPUs",
    ),
    "PreemptionDecided": (
        {**DECIDED, "victims": [VICTIM, {**VICTIM, "job": "train-8", "reserved": True}], "graces": [SECOND, SECOND], "unneeded_victims": ["x"]},
        [
            "preemption decided   train-7 → evict  for serve-2 (inference 125 > priority 50), loses 3.1 GPU-min",
            "preemption decided   train-8 → drop reservation  for serve-2 (inference 125 > priority 50)",
            "                     2 jobs in total, 3.1 GPU-min lost, serve-2 is placed on node 0 [0-3], no longer needed: x",
        ],
    ),
    "PreemptionRefused": (
        {"request": 19, "preemptor": PREEMPTOR, "reason": "impossible", "would_need": "8 more GPUs",
         "explanation": {"excluded": [{"rule": "priority", "jobs": 3}]}},
        "preemption refused   serve-2  no permitted set of victims is sufficient, which victim selection claims to have proven, it would need: 8 more GPUs, excluded: 3 priority",
    ),
    "SelectionTimedOut": (
        {"selection": 4, "failures": 2, "retry_at": NOON + SECOND},
        "selection timed out  selection 4  victim selection did not answer in time, failure 2, retries at 12:00:01",
    ),
    "EvictionDecided": (
        {"job": "train-7", "attempt": 1, "cause": "gang-failure", "grace": 30 * SECOND},
        "eviction decided     train-7  another task of its gang failed, grace 30s",
    ),
    "EvictionStuck": ({"job": "train-7", "attempt": 1}, "eviction stuck       train-7  its GPUs were not released in time and count as allocated until they are"),
    "EvictionCancelled": (
        {"job": "train-7", "attempt": 1, "preemption": 21, "notified": False, "reason": "preemption abandoned"},
        "eviction cancelled   train-7  preemption abandoned, no notice had been sent",
    ),
    "JobRequeued": (
        {"job": "train-7", "attempt": 1, "outcome": "preempted", "cause": "preemption", "lost_gpu_ms": 186_000},
        "job requeued         train-7  attempt 1 preempted: preemption, lost 3.1 GPU-min",
    ),
    "JobEnded": (
        {"job": "train-7", "attempt": 1, "outcome": "failed", "exit_codes": {"0": 3, "1": 0}, "reason": "out of tries"},
        "job ended            train-7  failed, out of tries, exit codes task 0: 3",
    ),
}  # fmt: skip


def record(name: str, data: dict[str, Any], **about: Any) -> Record:
    kind = next(kind for kind in AUDIT_TYPES.values() if name == kind.NAME)
    return Record(
        pool="pool-a", seq=118, epoch=1, cycle=3, cycle_end=True, time=NOON + 271 * SECOND, prev="", writer="w", engine="e",
        policy=1, type=kind.type_name(), data=kind.model_validate_json(json.dumps(data)), **about,
    )  # fmt: skip


def test_every_record_type_has_a_line_and_an_example() -> None:
    assert set(ENTRIES) == set(AUDIT_TYPES.values())
    assert set(EXAMPLES) == {kind.NAME for kind in AUDIT_TYPES.values()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_event_of_every_record_is_of_a_known_type(name: str) -> None:
    for event in events_of(record(name, EXAMPLES[name][0]), PoolState()):
        assert event["type"] in WORDS


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_enumerated_field_value_has_a_text(name: str) -> None:
    """Every reason, cause and outcome that a record type allows is printed; none raises an error in `audit tail`."""
    data = EXAMPLES[name][0]
    kind = next(kind for kind in AUDIT_TYPES.values() if name == kind.NAME)
    for field, about in kind.model_fields.items():
        for value in typing.get_args(about.annotation) if typing.get_origin(about.annotation) is typing.Literal else ():
            assert lines(record(name, {**data, field: value}))


def test_a_refusal_lists_every_attempted_action() -> None:
    tried = {
        "action": "reclaim",
        "refused": "impossible",
        "would_need": "2 more GPUs",
        "excluded": [{"rule": "scope", "jobs": 1}],
    }
    data = EXAMPLES["PreemptionRefused"][0]
    why = {"excluded": [{"rule": "not-preemptible", "jobs": 3}], "attempted_actions": [tried]}
    (line,) = lines(record("PreemptionRefused", {**data, "explanation": why}))
    assert str(line).endswith(
        "it would need: preempt: 8 more GPUs; reclaim: 2 more GPUs, excluded: reclaim: 1 scope; preempt: 3 not-preemptible"
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"action": "reclaim"}, "train-7 → evict  for serve-2 (reclaim: b is entitled, a is over its share), loses 3.1 GPU-min"),
        ({"action": "preempt"}, "train-7 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min"),
        (
            {"action": "consolidate", "moved_to": [{"node": 1, "tasks": "0", "devices": "0-3"}]},
            "train-7 → move to node 1 [0-3]  for serve-2 (consolidate: all victims are moved), loses 3.1 GPU-min",
        ),
        ({"action": "preempt", "tasks": "4-5"}, "train-7/4-5 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min"),
    ],
)
def test_each_action_states_why_the_victim_is_evicted(more: dict[str, Any], expected: str) -> None:
    victim = {
        **VICTIM,
        "class_name": "train",
        "project": "a",
        "moved_to": more.get("moved_to", []),
        "tasks": more.get("tasks", ""),
    }
    preemptor = {**PREEMPTOR, "project": "b"}
    (line,) = lines(
        record(
            "PreemptionDecided",
            {**DECIDED, "preemptor": preemptor, "action": more["action"], "victims": [victim], "graces": [SECOND]},
        )
    )
    assert str(line) == f"12:04:31 pool-a#118 preemption decided   {expected}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_line(name: str) -> None:
    data, expected = EXAMPLES[name]
    found = [str(line) for line in lines(record(name, data))]
    assert found == [f"12:04:31 pool-a#118 {text}" for text in ([expected] if isinstance(expected, str) else expected)]


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("PreemptionRequested", {}, "Preemption requested: serve-2 (inference 125) needs 8 GPUs."),
        ("PreemptionRequested", {"reason": ""}, "Preemption requested: serve-2 (inference 125)."),
        (
            "PreemptionDecided",
            {},
            "Preemption decided: 2 jobs in total, 3.1 GPU-min lost, serve-2 is placed on node 0 [0-3], no longer needed: x.",
        ),
        (
            "PreemptionRefused",
            {"would_need": "needs 8 more GPUs", "explanation": {}},
            "Preemption refused: serve-2, no permitted set of victims is sufficient, which victim selection claims to have proven, it would need: 8 more GPUs.",
        ),
        ("JobPending", {}, "Job pending: train-9 needs 8 GPUs."),
        ("JobPlaced", {}, "Job placed: train-7 → node 0 [0-3], attempt 2, backfilled."),
        ("NodeUndrained", {"reason": "done"}, "Node undrained: gpu-01, schedulable again: done."),
        (
            "TaskReleased",
            {"evidence": "api"},
            "Task released: train-7/0, on gpu-01, 1 device free by the Kubernetes API's word alone.",
        ),
        (
            "EvictionDecided",
            {"cause": "drain", "reason": "node-1 is drained (quick): new driver"},
            "Eviction decided: train-7, node-1 is drained (quick): new driver, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "requested", "reason": "eviction requested: wrong data"},
            "Eviction decided: train-7, its eviction was requested: wrong data, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "cancelled", "reason": "cancellation requested"},
            "Eviction decided: train-7, it was cancelled, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "scaled", "reason": "scaled down to 3 tasks"},
            "Eviction decided: train-7, it was scaled down to 3 tasks, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "paused", "reason": "its GPUs were idle for 600 s"},
            "Eviction decided: train-7, it was paused: its GPUs were idle for 600 s, grace 30s.",
        ),
    ],
)
def test_sentence(name: str, more: dict[str, Any], expected: str) -> None:
    assert sentence(record(name, EXAMPLES[name][0] | more)) == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_coloured_line_has_the_same_text(name: str) -> None:
    for line in lines(record(name, EXAMPLES[name][0])):
        assert styled(line).plain == str(line)


def test_each_victim_has_a_line_with_both_priorities() -> None:
    log_writer = LogWriter()
    preemption_story(log_writer)
    decided = next(each for each in log_writer.records if each.type.endswith("PreemptionDecided.v1"))
    found = [str(line) for line in lines(decided, log_writer.state)]
    assert found == [
        "12:05:00 pool-a#21  preemption decided   train-7 → evict  for serve-2 (inference 125 > train 50), loses 20.0 GPU-min",
        "12:05:00 pool-a#21  preemption decided   train-8 → evict  for serve-2 (inference 125 > train 50), loses 16.0 GPU-min",
        "12:05:00 pool-a#21                       2 jobs in total, 36.0 GPU-min lost, serve-2 is placed on gpu-01 [0-7], gpu-02 [0-3]",
    ]


def test_no_victims_when_resources_became_free() -> None:
    (line,) = lines(record("PreemptionDecided", {**DECIDED, "victims": [], "graces": [], "unneeded_victims": ["train-7"]}))
    assert str(line).endswith("no victims  for serve-2: resources became free, placed on node 0 [0-3], no longer needed: train-7")


def test_the_actor_of_a_request_is_printed() -> None:
    (line,) = lines(record("JobCancelled", EXAMPLES["JobCancelled"][0], actor="alice", auth="signed"))
    assert str(line).endswith("wrong data, by alice (signed)")


def test_control_characters_are_replaced() -> None:
    (line,) = lines(record("JobPending", {"job": "a", "reason": "\x1b[2Jgone\r\nhello\u202e"}))
    assert str(line).endswith("�[2Jgone��hello�")


def test_a_record_type_of_a_later_release_is_named() -> None:
    later = record("JobPending", {"job": "a", "reason": "b"})
    (line,) = lines(replace(later, type="bailiff.audit.JobResized.v1", data=None))
    assert str(line) == "12:04:31 pool-a#118 JobResized.v1        written by a later release"


def test_records_are_indexed_by_job() -> None:
    log_writer = LogWriter()
    finished_story(log_writer)
    line_text = [each.type.split(".")[2] for each in log_writer.records if "train-8" in jobs_of(each)]
    assert line_text[:3] == ["JobSubmitted", "JobPlaced", "TaskStarted"]
    assert "PreemptionDecided" in line_text
    assert line_text[-1] == "TaskStarted"


@pytest.mark.parametrize(
    ("micros", "text"),
    [(5_000, "5ms"), (45 * SECOND, "45s"), (200 * SECOND, "3m20s"), (MINUTE, "1m"), (125 * MINUTE, "2h05m"),
     (60 * MINUTE, "1h"), (99 * 60 * MINUTE, "4d03h"), (48 * 60 * MINUTE, "2d")],
)  # fmt: skip
def test_durations(micros: int, text: str) -> None:
    assert duration_text(micros) == text


@pytest.mark.parametrize(("gpu_ms", "text"), [(900, "1 GPU-s"), (186_000, "3.1 GPU-min"), (7_200_000, "2.0 GPU-h")])
def test_costs(gpu_ms: int, text: str) -> None:
    assert cost_text(gpu_ms) == text


@pytest.mark.parametrize(
    ("stage", "line_text"),
    [
        ({"stage": "noticed", "term_after": 120 * SECOND, "kill_after": 150 * SECOND, "attached": True, "step": 7},
         "notice delivered, on gpu-01, step 7, TERM after 2m, KILL after 2m30s"),
        ({"stage": "noticed", "term_after": 120 * SECOND, "kill_after": 150 * SECOND},
         "notice delivered, on gpu-01, no notice channel: TERM at once, KILL after 2m30s"),
        ({"stage": "acknowledged", "step": 8, "elapsed": SECOND}, "notice acknowledged, on gpu-01, step 8, 1s after the notice"),
        ({"stage": "checkpoint_committed", "checkpoint": CHECKPOINT, "elapsed": SECOND},
         "checkpoint saved, on gpu-01, step 120, 256MiB in 1s, 1s after the notice"),
        ({"stage": "checkpoint_committed", "checkpoint": {**CHECKPOINT, "agreed": False}},
         "checkpoint saved, on gpu-01, step 120, 256MiB in 1s, not coordinated with its gang"),
        ({"stage": "kill_sent", "stuck_in": "noticed", "elapsed": 5 * SECOND},
         "KILL sent, on gpu-01, notice never acknowledged, 5s after the notice"),
    ],
)  # fmt: skip
def test_eviction_stages_are_printed_with_their_details(stage: dict[str, Any], line_text: str) -> None:
    (line,) = lines(record("EvictionStageReached", {**TASK, **stage}))
    assert str(line).endswith(f"train-7/0  {line_text}")
