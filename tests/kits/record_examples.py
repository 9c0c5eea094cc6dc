"""An example of every record."""
# ruff: noqa: E501 - expected lines are not wrapped

import json
from typing import Any

from tests.unit.client.kit import GIB, NOON, SECOND

from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import AUDIT_TYPES, Record

REQUEST = {"source": "laptop", "id": "r-1", "digest": "d" * 64}
TASK = {"job": "train-7", "attempt": 1, "task": 0, "node": "gpu-01"}
PREEMPTOR = {"job": "serve-2", "class_name": "inference", "priority": 125}
PLACE = [{"node": 0, "tasks": "0", "devices": "0-3"}]
VICTIM = {"job": "train-7", "attempt": 1, "priority": 50, "gpus": 4, "lost_gpu_ms": 186_000}
DECIDED = {"request": 19, "preemptor": PREEMPTOR, "attempt": 1, "placement": PLACE, "expires": NOON, "explanation": {}}
CHECKPOINT = {"step": 120, "bytes": 256 << 20, "duration": SECOND, "sha256": "0" * 64}
DATA: dict[str, dict[str, Any]] = {
    "PoolCreated": {"pool": "pool-a", "partition": 0, "nonce": "n"},
    "PolicyApplied": {"policy": DEFAULT_POLICY.model_dump(mode="json")},
    "WriterStarted": {"writer": "abcdef0123", "release": "0.1.0", "digest": "e" * 64, "logic": 1, "state_schema": 1},
    "KeyRevoked": {"request": REQUEST, "key": "k" * 43, "reason": "stolen laptop"},
    "RootKeyChanged": {"request": REQUEST, "change": {"identity": "a" * 64, "key": "r" * 43, "signature": "s" * 86}},
    "EnrolmentPermitted": {"request": REQUEST, "node": "n1", "token_key": "t" * 43, "expires": 1_767_225_600_000_000},
    "NodeWaiting": {"node": "n1", "key": "k" * 43},
    "NodeEnrolled": {"node": "n1", "key": "k" * 43, "encryption_key": "e" * 43, "by": "token", "permitted_by": 9},
    "ClockAdvanced": {},
    "ClockStepped": {"jump": -90 * SECOND},
    "InputsAdvanced": {},
    "InputsLost": {"topic": "bailiff.requests", "partition": 2, "from_offset": 5, "to_offset": 8},
    "InputRejected": {
        "topic": "bailiff.requests",
        "partition": 1,
        "offset": 7,
        "digest": "d" * 64,
        "code": "no-such-job",
        "reason": "there is no job 'x'",
        "job": "x",
    },
    "StateDigest": {"schema_version": 1, "digest": "c" * 64},
    "DecisionFailed": {"job": "odd", "error": "KeyError: 3"},
    "LogTruncated": {"request": REQUEST, "epoch": 3, "seq": 90, "reason": "power loss"},
    "TruncationReconciled": {},
    "JobSubmitted": {
        "request": REQUEST,
        "spec_digest": "a" * 64,
        "demand": {
            "job": "train-7",
            "priority_class": "train",
            "tasks": [{"count": 2, "gpu_milli": 4000, "cpu_milli": 2000, "memory_bytes": 8 * GIB}, {"cpu_milli": 500}],
        },
    },
    "JobCancelled": {"request": REQUEST, "job": "train-7", "reason": "wrong data"},
    "JobScaled": {"request": REQUEST, "job": "train-7", "tasks": 6, "min_tasks": 2},
    "JobPriorityClassChanged": {"request": REQUEST, "job": "train-7", "priority_class": "build"},
    "JobEvictionRequested": {"request": REQUEST, "job": "train-7", "reason": "noon"},
    "JobPaused": {"request": REQUEST, "job": "train-7", "reason": "bad data"},
    "JobCheckpointRequested": {"request": REQUEST, "job": "train-7", "reason": "before the new script"},
    "JobCheckpointDue": {"job": "train-7", "attempt": 1},
    "ParkedJobSaveDue": {"job": "train-7", "attempt": 1, "why": "park-limit"},
    "SnapshotExpired": {"job": "train-7", "attempt": 1, "lost_gpu_ms": 7_200_000},
    "JobResumed": {"request": REQUEST, "job": "train-7"},
    "JobMigrationRequested": {"request": REQUEST, "job": "train-7", "node": "gpu-02", "reason": "noise"},
    "NodeDrained": {"request": REQUEST, "node": "gpu-01", "mode": "fast", "deadline": 60 * SECOND, "reason": "new driver"},
    "NodeUndrained": {"request": REQUEST, "node": "gpu-01"},
    "JobIdle": {"job": "train-7", "attempt": 1, "duration": 600 * SECOND, "action": "pause"},
    "ShareTurnBegan": {"owed": [{"project": "vision", "gpu_milli": 500}, {"project": "speech", "gpu_milli": -500}]},
    "BudgetLevelChanged": {
        "budget": "vision",
        "level": "warning",
        "month": NOON,
        "used_gpu_ms": 80 * 3_600_000,
        "of_gpu_ms": 100 * 3_600_000,
    },
    "BudgetToppedUp": {"request": REQUEST, "budget": "vision", "gpu_hours": 20, "reason": "paper"},
    "BudgetTransferred": {"request": REQUEST, "budget": "speech", "to": "vision", "gpu_hours": 8, "reason": "a gift"},
    "GpusReserved": {
        "request": REQUEST,
        "reservation": "course",
        "project": "vision",
        "gpus": 16,
        "begin": NOON,
        "duration": 36_000 * SECOND,
        "repeat": "weekly",
        "weekdays": [0, 2],
        "times": 8,
        "reason": "practicals",
    },
    "ReservationCancelled": {"request": REQUEST, "reservation": "course", "reason": "ill"},
    "ReservationBegan": {
        "reservation": "course",
        "project": "vision",
        "gpus": 16,
        "begin": NOON,
        "end": NOON + 3600 * SECOND,
        "missing": 8,
        "unavailable": ["gpu-01"],
        "leaving": ["train-7"],
    },
    "ReservationEnded": {"reservation": "course", "begin": NOON, "end": NOON + 3600 * SECOND, "last": False},
    "TaskIdle": {**TASK, "duration": 60 * SECOND},
    "AttachGranted": {**TASK, "request": REQUEST, "client_certificate": "A" * 400},
    "JobSpecGranted": {"job": "train-7", "request": REQUEST, "encryption_key": "A" * 43},
    "AttachReady": {**TASK, "grant": 7, "address": "gpu-01:7443", "fingerprint": "0" * 64},
    "AttachStarted": {**TASK, "grant": 7},
    "AttachEnded": {**TASK, "grant": 7, "reason": "detached"},
    "DrainDeadlineReached": {"node": "gpu-01"},
    "MaintenanceBegan": {"node": "gpu-01", "begin": NOON, "end": NOON + 3600 * SECOND, "leaving": ["train-7"]},
    "MaintenanceEnded": {"node": "gpu-01", "begin": NOON, "end": NOON + 3600 * SECOND},
    "MigrationDecided": {
        "job": "train-7",
        "attempt": 1,
        "placement": PLACE,
        "grace": 30 * SECOND,
        "expires": NOON,
        "reason": "noise",
    },
    "MigrationRefused": {"job": "train-7", "attempt": 1, "reason": "no node has 4 GPUs free"},
    "NodeReplaced": {"request": REQUEST, "node": "gpu-01", "machine_id": "m2"},
    "NodeReturned": {"request": REQUEST},
    "NodeJoined": {
        "node": "gpu-01",
        "number": 0,
        "incarnation": "i",
        "machine_id": "m",
        "boot_id": "b",
        "report_number": 0,
        "cpu_milli": 8000,
        "memory_bytes": 64 * GIB,
        "devices": [
            {"id": "G0", "model": "H100", "memory_bytes": 80 * GIB},
            {"id": "G1", "model": "H100", "memory_bytes": 80 * GIB, "healthy": False},
        ],
    },
    "NodeRefused": {"node": "gpu-01", "machine_id": "m2", "reason": "the name is taken"},
    "NodeUnreachable": {"node": "gpu-01", "last_contact": NOON},
    "NodeReachable": {"node": "gpu-01"},
    "NodeLost": {"node": "gpu-01", "last_contact": NOON},
    "NodesSilent": {"nodes": ["gpu-01", "gpu-02"]},
    "DeviceQuarantined": {
        "node": "gpu-01",
        "device": "G0",
        "reason": "not-free",
        "detail": "memory is left",
        "job": "train-7",
        "attempt": 1,
        "task": 0,
        "reading": {"device": "G0", "memory_used": 4 * GIB, "processes": 1},
    },
    "DeviceClearRequested": {"request": REQUEST, "node": "gpu-01", "device": "G0", "reason": "rebooted the card"},
    "DeviceCleared": {"node": "gpu-01", "device": "G0"},
    "DeviceUnhealthy": {"node": "gpu-01", "device": "G0", "reason": "xid", "code": 79, "detail": "fallen off the bus"},
    "DeviceHealthy": {"node": "gpu-01", "device": "G0"},
    "ShareExceeded": {**TASK, "device": "G0", "used_bytes": 6 * GIB, "share_bytes": 4 * GIB},
    "TaskStarted": TASK,
    "TaskStartRefused": {**TASK, "reason": "device in use"},
    "TaskExited": {**TASK, "attempt": 2, "exit_code": -9},
    "TaskReleased": {**TASK, "after": [{"device": "G0", "memory_used": 0, "processes": 0}]},
    "TaskVanished": TASK,
    "EvictionStageReached": {**TASK, "stage": "term_sent", "elapsed": 2 * SECOND},
    "ParkedTaskStageReached": {
        **TASK,
        "stage": "park_lost",
        "driver": "park",
        "bytes": 1 << 30,
        "reason": "its processes have ended",
        "lost_gpu_ms": 3_600_000,
    },
    "SnapshotStageReached": {
        **TASK,
        "stage": "stored",
        "elapsed": 2 * SECOND,
        "driver": "criu",
        "bytes": 1 << 30,
        "sha256": "0" * 64,
    },
    "TaskProgressed": {**TASK, "step": 130, "total_steps": 500, "checkpoint": CHECKPOINT, "checkpoint_age": 3 * SECOND},
    "TaskResumed": {**TASK, "attempt": 2, "step": 120, "from_attempt": 1, "skipped_checkpoints": 1, "steps_lost": 10},
    "TaskRestored": {
        **TASK,
        "attempt": 2,
        "from_attempt": 1,
        "driver": "criu",
        "bytes": 1 << 30,
        "verified": SECOND,
        "restored": 2 * SECOND,
    },
    "TaskRestoreFailed": {
        **TASK,
        "attempt": 2,
        "from_attempt": 1,
        "driver": "criu",
        "reason": "pages-1.img is not as it was saved",
        "lost_gpu_ms": 3_600_000,
    },
    "TaskEvictionCancelled": TASK,
    "TaskCancelEvictionRefused": TASK,
    "ProposalReceived": {
        "selection": 4,
        "computed_at": 19,
        "logic": 1,
        "proposals": [
            {"request": 19, "job": "serve-2", "victims": [VICTIM]},
            {"request": 20, "job": "big", "refused": "gave-up"},
        ],
    },
    "EvictionStarted": {"job": "train-7", "attempt": 1, "decided_by": 21},
    "PreemptionAbandoned": {"preemption": 21, "reason": "serve-2 was cancelled"},
    "JobPlaced": {"job": "train-7", "attempt": 2, "placement": PLACE, "backfilled": True},
    "JobGrown": {"job": "train-7", "attempt": 1, "placement": [{"node": 0, "tasks": "4-5", "devices": "4-5"}]},
    "JobShrunk": {
        "job": "train-7",
        "attempt": 1,
        "tasks": "4-5",
        "outcome": "preempted",
        "cause": "preemption",
        "lost_gpu_ms": 186_000,
    },
    "JobPriorityBoosted": {"job": "train-7", "priority": 50, "effective_priority": 60, "reason": "evicted 3 times"},
    "ScheduleTimedOut": {"job": "train-7", "waited": 300 * SECOND, "action": "pass", "reason": "needs 8 GPUs"},
    "JobStarting": {"job": "serve-2", "attempt": 1},
    "ReservationDropped": {"job": "serve-2", "reason": "expired", "preemption": 21},
    "JobPending": {"job": "train-9", "reason": "needs 8 GPUs"},
    "DependenciesMet": {"job": "train-9"},
    "PreemptionRequested": {
        "job": "serve-2",
        "selection": 1,
        "class_name": "inference",
        "priority": 125,
        "reason": "needs 8 GPUs",
    },
    "PreemptionDecided": {
        **DECIDED,
        "victims": [VICTIM, {**VICTIM, "job": "train-8", "reserved": True}],
        "graces": [SECOND, SECOND],
        "unneeded_victims": ["x"],
    },
    "PreemptionRefused": {
        "request": 19,
        "preemptor": PREEMPTOR,
        "reason": "impossible",
        "would_need": "8 more GPUs",
        "explanation": {"excluded": [{"rule": "priority", "jobs": 3}]},
    },
    "SelectionTimedOut": {"selection": 4, "failures": 2, "retry_at": NOON + SECOND},
    "EvictionDecided": {"job": "train-7", "attempt": 1, "cause": "gang-failure", "grace": 30 * SECOND},
    "EvictionStuck": {"job": "train-7", "attempt": 1},
    "GraceShortened": {"job": "train-7", "attempt": 1, "grace": 9 * SECOND, "earlier": 150 * SECOND, "cause": "requested"},
    "EvictionCancelled": {"job": "train-7", "attempt": 1, "preemption": 21, "notified": False, "reason": "preemption abandoned"},
    "JobRequeued": {"job": "train-7", "attempt": 1, "outcome": "preempted", "cause": "preemption", "lost_gpu_ms": 186_000},
    "JobEnded": {"job": "train-7", "attempt": 1, "outcome": "failed", "exit_codes": {"0": -15, "1": 0}, "reason": "out of tries"},
}
LINES = """
PoolCreated: pool created         pool-a  partition 0, format bailiff-audit-1
PolicyApplied: policy in force      inference 125 > build 100 > interactive 75 > train 50  actions allocate, consolidate, reclaim, preempt
WriterStarted: writer started       abcdef01  release 0.1.0, logic 1, engine eeeeeeeeeeee
KeyRevoked: key revoked          kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk  stolen laptop
RootKeyChanged: root key changed     rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr  signed with the key before it
EnrolmentPermitted: enrolment permitted  n1  one agent with the token, until 2026-01-01T00:00:00
NodeWaiting: node waiting         n1  its key is not enrolled: kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
NodeEnrolled: node enrolled        n1  by token, as #9 permits, key kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
ClockAdvanced: clock                a timer expired
ClockStepped: clock stepped        the writer's clock jumped back by 1m30s; not counted
InputsAdvanced: inputs read          no input for this pool
InputsLost: inputs lost          bailiff.requests/2  3 messages expired before they were read (offsets 5 to 7)
InputRejected: rejected             x  no-such-job: there is no job 'x'
StateDigest: state digest         cccccccccccc  schema 1
DecisionFailed: decision failed      odd  suspended until it is cancelled: KeyError: 3
LogTruncated: truncation accepted  agents had executed commands up to epoch 3 seq 90; accepted by an operator: power loss
TruncationReconciled: log reconciled       every agent has reported its tasks; scheduling continues
JobSubmitted: job submitted        train-7  2 × (4 GPUs, 2 CPU, 8GiB) + 0.5 CPU, train
JobCancelled: cancel requested     train-7  wrong data
JobScaled: scale requested      train-7  6 tasks, at least 2 together
JobPriorityClassChanged: class changed        train-7  to build
JobEvictionRequested: eviction requested   train-7  noon
JobPaused: job paused           train-7  bad data
JobCheckpointRequested: save requested       train-7  by its nodes, while it runs: before the new script
JobCheckpointDue: save due             train-7  its nodes save it while it runs
ParkedJobSaveDue: save due             train-7  it has been parked for long: its node saves it to disk
SnapshotExpired: snapshot over        train-7  kept as long as the policy says: it begins anew, which loses 2.0 GPU-h of work
JobResumed: job resumed          train-7  returns to the queue
JobMigrationRequested: migration requested  train-7  to gpu-02: noise
NodeDrained: node drained         gpu-01  no new placements, jobs are evicted now with the short grace, within 1m: new driver
NodeUndrained: node undrained       gpu-01  schedulable again
JobIdle: job idle             train-7  its GPUs were idle for 10m: it is paused
ShareTurnBegan: share turn           the pool  what rounding leaves over of the GPUs of the pool goes in turn; owed: 0.5 GPUs to project vision
BudgetLevelChanged: budget warning       vision  80.0 GPU-h of 100.0 GPU-h used in 2026-11
BudgetToppedUp: budget topped up     vision  20 GPU-h more this month: paper
BudgetTransferred: budget transferred   speech  8 GPU-h to vision this month: a gift
GpusReserved: GPUs reserved        course  16 GPUs for project vision, 2026-11-21 12:00 to 22:00 UTC, weekly, 8 times: practicals
ReservationCancelled: reservation cancelled course  ill
ReservationBegan: reservation began    course  16 GPUs for project vision, 2026-11-21 12:00 to 13:00 UTC: 8 are missing; gpu-01 take no tasks; train-7 have not left yet
ReservationEnded: reservation ended    course  until the next time
TaskIdle: task idle            train-7/0  on gpu-01, its GPUs were idle for 1m
AttachGranted: attach granted       train-7/0  on gpu-01
JobSpecGranted: spec granted         train-7  its command may be read by who asked
AttachReady: attach ready         train-7/0  on gpu-01, at gpu-01:7443
AttachStarted: attached             train-7/0  on gpu-01, granted by #7
AttachEnded: attachment ended     train-7/0  on gpu-01, the client detached, granted by #7
DrainDeadlineReached: drain deadline       gpu-01  remaining jobs are evicted
MaintenanceBegan: maintenance begins   gpu-01  2026-11-21 12:00 to 13:00 UTC, still there: train-7
MaintenanceEnded: maintenance ended    gpu-01  schedulable again
MigrationDecided: job migrates         train-7 → node 0 [0-3]  noise, grace 30s, reserved until 12:00:00
MigrationRefused: migration refused    train-7  not moved: no node has 4 GPUs free
NodeReplaced: node replaced        gpu-01  machine m2 may register under this name
NodeReturned: node returned        all nodes  missing heartbeats count again
NodeJoined: node joined          gpu-01  2 × H100, 8 CPU, 64GiB, 1 device unhealthy
NodeRefused: node refused         gpu-01  machine m2: the name is taken (to allow it: bailiff node replace gpu-01 m2)
NodeUnreachable: node unreachable     gpu-01  last contact 12:00:00; no new placements
NodeReachable: node reachable       gpu-01  heartbeats resumed
NodeLost: node lost            gpu-01  last contact 12:00:00; lease expired, its tasks are lost
NodesSilent: nodes silent         2 nodes  gpu-01, gpu-02; not declared lost until an operator runs: bailiff node return
DeviceQuarantined: device quarantined   gpu-01 G0  memory is left, 4GiB and 1 process on it, after train-7/0
DeviceClearRequested: clear requested      gpu-01 G0  rebooted the card
DeviceCleared: device cleared       gpu-01 G0  it was verified free; schedulable again
DeviceUnhealthy: device unhealthy     gpu-01 G0  Xid 79, fallen off the bus, out of service
DeviceHealthy: device healthy       gpu-01 G0  schedulable again
ShareExceeded: share exceeded       train-7/0  on gpu-01, 6GiB of G0, its share is 4GiB
TaskStarted: task started         train-7/0  on gpu-01
TaskStartRefused: start refused        train-7/0  on gpu-01, device in use
TaskExited: task exited          train-7/0  on gpu-01, attempt 2, by signal 9 (SIGKILL)
TaskReleased: task released        train-7/0  on gpu-01, 1 device verified free
TaskVanished: task vanished        train-7/0  on gpu-01, unknown to its node; exit status unknown
EvictionStageReached: eviction             train-7/0  TERM sent, on gpu-01, 2s after the notice
ParkedTaskStageReached: parked               train-7/0  lost while parked, on gpu-01, its processes have ended, which loses 1.0 GPU-h of work
SnapshotStageReached: snapshot             train-7/0  snapshot stored, on gpu-01, 1GiB by criu, 2s after it was ordered
TaskProgressed: progress             train-7/0  on gpu-01, step 130 of 500, checkpoint of step 120, 256MiB in 1s, 3s ago
TaskResumed: task resumed         train-7/0  on gpu-01, attempt 2, at step 120, saved by attempt 1, 10 steps lost, 1 damaged checkpoint skipped
TaskRestored: task restored        train-7/0  on gpu-01, attempt 2, from the snapshot of attempt 1, 1GiB by criu, verified in 1s, restored in 2s
TaskRestoreFailed: restore failed       train-7/0  on gpu-01, attempt 2, pages-1.img is not as it was saved, the snapshot of attempt 1 is lost, with 1.0 GPU-h of work
TaskEvictionCancelled: eviction cancelled   train-7/0  on gpu-01, keeps running
TaskCancelEvictionRefused: cancel refused       train-7/0  on gpu-01, too late: it was already told to stop; it resumes later
ProposalReceived: proposal             selection 4  computed at #19; #19 serve-2: 1 victim, #20 big: gave-up
EvictionStarted: eviction started     train-7  decided at #21; notices sent
PreemptionAbandoned: preemption abandoned preemption #21  no eviction needed: serve-2 was cancelled
JobPlaced: job placed           train-7  → node 0 [0-3], attempt 2, backfilled
JobGrown: job grown            train-7  2 tasks more → node 0 [4-5]
JobShrunk: job shrunk           train-7/4-5  continues without them: preemption, lost 3.1 GPU-min of work and assumed restart together
JobPriorityBoosted: priority boosted     train-7  effective priority 60 instead of 50, evicted 3 times
ScheduleTimedOut: schedule timeout     train-7  unschedulable for 5m: smaller jobs may be placed before it, needs 8 GPUs
JobStarting: job starting         serve-2  its reserved resources are free
ReservationDropped: reservation dropped  serve-2  the reservation expired, preemption #21
JobPending: job pending          train-9  needs 8 GPUs
DependenciesMet: dependencies met     train-9  it joins the queue
PreemptionRequested: preemption requested serve-2  (inference 125) needs 8 GPUs
PreemptionDecided: preemption decided   train-7 → evict  for serve-2 (inference 125 > priority 50), loses 3.1 GPU-min of work and assumed restart together
PreemptionDecided: preemption decided   train-8 → drop reservation  for serve-2 (inference 125 > priority 50)
PreemptionDecided:                      2 jobs in total, loss 3.1 GPU-min of work and assumed restart together, serve-2 is placed on node 0 [0-3], no longer needed: x
PreemptionRefused: preemption refused   serve-2  no permitted set of victims is sufficient, which victim selection claims to have proven, it would need: 8 more GPUs, excluded: 3 priority
SelectionTimedOut: selection timed out  selection 4  victim selection did not answer in time, failure 2, retries at 12:00:01
EvictionDecided: eviction decided     train-7  another task of its gang failed, grace 30s
EvictionStuck: eviction stuck       train-7  its GPUs were not released in time and count as allocated until they are
GraceShortened: grace shortened      train-7  2m30s to 9s, a request left it no more
EvictionCancelled: eviction cancelled   train-7  preemption abandoned, no notice had been sent
JobRequeued: job requeued         train-7  attempt 1 stopped in time: preemption, lost 3.1 GPU-min of work and assumed restart together
JobEnded: job ended            train-7  failed, out of tries, exit codes task 0: signal 15 (SIGTERM)
"""


def _expected(name: str) -> str | list[str]:
    lines = [line.removeprefix(f"{name}: ") for line in LINES.splitlines() if line.startswith(f"{name}: ")]
    return lines if len(lines) > 1 else lines[0]


EXAMPLES: dict[str, tuple[dict[str, Any], str | list[str]]] = {name: (DATA[name], _expected(name)) for name in DATA}


def record(name: str, data: dict[str, Any], **about: Any) -> Record:
    kind = next(kind for kind in AUDIT_TYPES.values() if name == kind.NAME)
    return Record(
        pool="pool-a",
        seq=118,
        epoch=1,
        cycle=3,
        cycle_end=True,
        time=NOON + 271 * SECOND,
        prev="",
        writer="w",
        engine="e",
        policy=1,
        type=kind.type_name(),
        data=kind.model_validate_json(json.dumps(data)),
        **about,
    )
