"""A busy pool as a log, for the console: a thousand nodes full of jobs, of which some end and others come all the time.

What stands in it as decisions was not decided, so it is for reading only.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold import apply
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record, Wire, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_log.writer import chain_records

POOL = "pool-a"
GPUS = 8
PROJECTS = 24
WAITING = 300
SECOND = 1_000_000
GIB = 1 << 30


class BusyLog:
    """Wires that chain and fold. begin: its first time, µs UTC. waiting: how many jobs wait once it is full."""

    def __init__(self, nodes: int, begin: int, waiting: int = WAITING) -> None:
        self.nodes, self.now, self.waiting = nodes, begin, waiting
        self.state, self.head = PoolState(), ChainHead(POOL)
        self._free = deque((node, device) for node in range(nodes) for device in range(GPUS))
        self._running: deque[tuple[str, int, int]] = deque()
        self._number = 0

    def fill(self) -> Iterator[Wire]:
        """Up to where nineteen of twenty GPUs are held and some jobs wait."""
        first = [
            facts.PoolCreated(pool=POOL, partition=0, nonce="0" * 32),
            facts.PolicyApplied(policy=_policy(self.nodes * GPUS).complete()),
            facts.WriterStarted(writer="w", release="0", digest="0", logic=LOGIC, state_schema=STATE_SCHEMA),
        ]
        yield from self.turn(first, epochs=(0, 0, 1))
        yield from self.turn([_joined(node) for node in range(self.nodes)])
        for _ in range(self.nodes * GPUS * 19 // 20):
            yield from self.comes()
        for _ in range(self.waiting):
            yield from self.waits()

    def go_on(self) -> Iterator[Wire]:
        """For ever: a job takes steps, one ends, one comes."""
        while True:
            yield from self.steps()
            yield from self.ends()
            yield from self.comes()

    def comes(self) -> Iterator[Wire]:
        """A job is submitted, placed, and starts. Three records."""
        node, device = self._free.popleft()
        name = self._name()
        share = NodeShare(node=node, tasks="0", devices=str(device))
        placed = decisions.JobPlaced(job=name, attempt=1, placement=(share,), reserved=False)
        yield from self.turn([_submitted(name, self._number), placed])
        yield from self.turn([facts.TaskStarted(**_task(name, node))])
        self._running.append((name, node, device))

    def waits(self, user: str = "") -> Iterator[Wire]:
        """A job is submitted and waits. Two records."""
        name = self._name()
        yield from self.turn(
            [_submitted(name, self._number, user), decisions.JobPending(job=name, reason="needs a free GPU, there is none")]
        )

    def ends(self) -> Iterator[Wire]:
        """The job that runs longest ends. Three records."""
        name, node, device = self._running.popleft()
        yield from self.turn(
            [
                facts.TaskExited(**_task(name, node), exit_code=0),
                facts.TaskReleased(**_task(name, node)),
                decisions.JobEnded(job=name, attempt=1, outcome="succeeded"),
            ]
        )
        self._free.append((node, device))

    def steps(self) -> Iterator[Wire]:
        """Two jobs say how far they are. Two records."""
        for name, node, device in (self._running[len(self._running) // 3], self._running[-1]):
            yield from self.turn([facts.TaskProgressed(**_task(name, node), step=self.state.seq + device, step_rate_milli=2000)])

    def _name(self) -> str:
        self._number += 1
        return f"job-{self._number}"

    def turn(self, data: Sequence[Payload], epochs: Sequence[int] | None = None) -> Iterator[Wire]:
        """One decision cycle of these records."""
        records = [self._record(each, n, (epochs or [1] * len(data))[n]) for n, each in enumerate(data)]
        records[-1] = replace(records[-1], cycle_end=True)
        for record, wire, after in chain_records(self.head, records):
            apply(self.state, record)
            self.head = after
            yield wire

    def _record(self, data: Payload, n: int, epoch: int) -> Record:
        return Record(
            pool=POOL,
            seq=self.state.seq + 1 + n,
            epoch=epoch,
            cycle=self.state.cycle + 1,
            cycle_end=False,
            time=self.now,
            prev="",
            writer="w",
            engine="bench/0/1",
            policy=1,
            type=data.type_name(),
            data=data,
            cause=f"bailiff.requests/0/{self.state.seq}",
        )


def _policy(gpus: int) -> Policy:
    projects = [
        {"name": f"team-{n}", "quota": {"gpus": gpus // PROJECTS}, **({"parent": f"team-{n // 4 * 4}"} if n % 4 else {})}
        for n in range(PROJECTS)
    ]
    retention = {"ended_jobs": "10m", "request_ids": "10m"}
    return Policy.model_validate(
        {**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects, "retention": retention}, strict=False
    )


def _joined(number: int) -> facts.NodeJoined:
    devices = [facts.DeviceInfo(id=f"GPU-{number}-{n}", model="H100-80GB", memory_bytes=80 * GIB) for n in range(GPUS)]
    return facts.NodeJoined(
        node=f"node-{number}",
        number=number,
        incarnation="i",
        machine_id=f"m-{number}",
        boot_id="b",
        report_number=1,
        cpu_milli=128_000,
        memory_bytes=1 << 40,
        devices=tuple(devices),
    )


def _submitted(name: str, number: int, user: str = "") -> facts.JobSubmitted:
    demand = JobDemand(
        job=name,
        priority_class="train",
        project=f"team-{number % PROJECTS}",
        tasks=(TaskGroup(gpu_milli=1000, cpu_milli=8000, memory_bytes=64 * GIB),),
    )
    request = facts.RequestId(source="bench", id=name, digest="0" * 64)
    return facts.JobSubmitted(request=request, demand=demand, spec_digest="0" * 64, user=user)


def _task(name: str, node: int) -> dict[str, object]:
    return {"job": name, "attempt": 1, "task": 0, "node": f"node-{node}"}
