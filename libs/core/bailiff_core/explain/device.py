"""State of each GPU of a node at a point in time: its job, the jobs before and after, reservations, faults, drains."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from bailiff_core.fold import apply
from bailiff_core.humanize import duration_text
from bailiff_core.model.placement_ranges import bits, ranges
from bailiff_core.model.state import Device, Job, Node, PoolState, Task
from bailiff_core.records import Record, facts
from bailiff_core.records.subjects import jobs_of

from .sentences import Section, Sentence, clock, seqs_of, without_stop

Kind = Literal["allocated", "reserved", "quarantined", "unhealthy", "drained", "unreachable", "lost"]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One state of a device from one record to another. Times are µs UTC.

    Attributes:
        until: None if it persists at the end of the log.
        job: The job to which it is allocated, or for which it is reserved.
        attempt: The attempt of this job.
        task: The task of this job.
        why: The fault, as in the record.
    """

    kind: Kind
    since: int
    since_seq: int
    job: str = ""
    attempt: int = 0
    task: int = 0
    why: str = ""
    until: int | None = None
    until_seq: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceAtTime:
    """One GPU.

    Attributes:
        states: Its states at the given time.
        before: The last allocation before that time.
        after: The next allocation.
    """

    number: int
    id: str
    model: str
    states: tuple[DeviceState, ...]
    before: DeviceState | None
    after: DeviceState | None


@dataclass(frozen=True, slots=True)
class NodeAtTime:
    """A node at a point in time, µs.

    Attributes:
        seq: The last record until then.
        devices: Empty if the node had not joined yet.
    """

    node: str
    time: int
    seq: int
    devices: tuple[DeviceAtTime, ...]
    first_seen: int | None
    head_time: int


Key = tuple[str, str, int, int, str]


@dataclass
class NodeHistory:
    """State of one node's devices at any time, from all records of a log in order."""

    node: str
    state: PoolState = field(default_factory=PoolState)
    _open: dict[int, dict[Key, DeviceState]] = field(default_factory=dict)
    _closed: dict[int, list[DeviceState]] = field(default_factory=dict)
    _keys_by_job: dict[str, dict[int, dict[Key, None]]] = field(default_factory=dict)
    _times: list[tuple[int, int]] = field(default_factory=list)
    _joined: int | None = None

    def take(self, record: Record) -> None:
        """Process the next record."""
        jobs = jobs_of(record)
        apply(self.state, record)
        self._times.append((record.time, record.seq))
        number = self.state.node_numbers.get(self.node)
        node = self.state.nodes.get(number) if number is not None else None
        if node is None:
            return
        self._joined = record.time if self._joined is None else self._joined
        of_node = getattr(record.data, "node", None) == self.node or isinstance(record.data, facts.NodeReturned)
        if of_node and not isinstance(record.data, facts.TaskFact):
            jobs |= dict.fromkeys(self._keys_by_job)
            self._track_node(record, node)
        for name in jobs:
            self._track_job(record, name, node)

    def at(self, time: int) -> NodeAtTime:
        """The node at this time, µs."""
        seq = next((seq for moment, seq in reversed(self._times) if moment <= time), -1)
        number = self.state.node_numbers.get(self.node)
        node = self.state.nodes[number] if number is not None else None
        known = node is not None and self._joined is not None and self._joined <= time
        devices = tuple(self._device(each, seq) for each in node.devices) if node is not None and known else ()
        return NodeAtTime(self.node, time, seq, devices, self._joined, self.state.now)

    def _device(self, device: Device, seq: int) -> DeviceAtTime:
        number = device.number
        intervals = [*self._closed.get(number, ()), *self._open.get(number, {}).values()]
        current = tuple(
            interval
            for interval in intervals
            if interval.since_seq <= seq and (interval.until_seq is None or interval.until_seq > seq)
        )
        allocations = [interval for interval in intervals if interval.kind == "allocated"]
        before = max(
            (interval for interval in allocations if interval.until_seq is not None and interval.until_seq <= seq),
            key=_interval_end,
            default=None,
        )
        after = min(
            (interval for interval in allocations if interval.since_seq > seq),
            key=lambda interval: interval.since_seq,
            default=None,
        )
        current = tuple(sorted(current, key=lambda interval: interval.since_seq))
        return DeviceAtTime(number, device.id, device.model, current, before, after)

    def _track_job(self, record: Record, name: str, node: Node) -> None:
        """Compare the job's tasks on the node with those before the record."""
        job = self.state.jobs.get(name)
        now: dict[int, dict[Key, None]] = {}
        for key, task in _placements(job) if job is not None else ():
            if task.node == node.number:
                for device in bits(task.devices):
                    now.setdefault(device, {})[key] = None
        before = self._keys_by_job.get(name, {})
        for device in dict.fromkeys((*before, *now)):
            for key in before.get(device, ()):
                if key not in now.get(device, {}):
                    self._close_interval(record, device, key)
            for key in now.get(device, ()):
                if key not in before.get(device, {}):
                    kind: Kind = "reserved" if key[0] == "reserved" else "allocated"
                    self._open_interval(device, key, DeviceState(kind, record.time, record.seq, key[1], key[2], key[3]))
        self._keys_by_job[name] = now

    def _track_node(self, record: Record, node: Node) -> None:
        """Faults and drains of the node and its devices."""
        node_states: dict[Kind, str] = {}
        if node.drain is not None:
            node_states["drained"] = node.drain.reason
        if node.state == "unreachable":
            node_states["unreachable"] = ""
        elif node.state == "lost":
            node_states["lost"] = ""
        for device in node.devices:
            now = dict(node_states)
            fault = f"{device.fault}{f' (after {device.fault_job})' if device.fault_job else ''}"
            if node.quarantined >> device.number & 1:
                now["quarantined"] = fault
            if not device.healthy:
                now["unhealthy"] = fault
            before = [key for key in self._open.get(device.number, {}) if key[1] == ""]
            for key in before:
                if now.get(_kind(key)) != key[4]:
                    self._close_interval(record, device.number, key)
            for kind, why in now.items():
                key = (kind, "", 0, 0, why)
                if key not in self._open.get(device.number, {}):
                    self._open_interval(device.number, key, DeviceState(kind, record.time, record.seq, why=why))

    def _open_interval(self, device: int, key: Key, interval: DeviceState) -> None:
        self._open.setdefault(device, {})[key] = interval

    def _close_interval(self, record: Record, device: int, key: Key) -> None:
        interval = self._open[device].pop(key)
        self._closed.setdefault(device, []).append(replace(interval, until=record.time, until_seq=record.seq))


def _placements(job: Job) -> Iterator[tuple[Key, Task]]:
    for task in job.tasks:
        if task.state != "released":
            yield ("reserved" if task.state == "reserved" else "allocated", job.id, job.attempt, task.index, ""), task
    for task in job.reservation:
        yield ("reserved", job.id, job.attempt + 1, task.index, "reservation"), task


def _kind(key: Key) -> Kind:
    found: Kind = key[0]  # type: ignore[assignment]
    return found


def _interval_end(interval: DeviceState) -> int:
    return interval.until_seq or 0


# --- sentences


def explain_node(found: NodeAtTime, device: int | None = None) -> list[Section]:
    """One section for the GPUs of which the same is to be said.

    Args:
        device: Only this GPU.
    """
    if not found.devices:
        known = f"it joined at {clock(found.first_seen)}" if found.first_seen is not None else "the log has no record of it"
        unknown = Sentence(f"The node is unknown at that time: {known}.")
        return [Section(f"What was on {found.node} at {clock(found.time)}?", (unknown,))]
    which = "What was on {}, {} {} ({}), at {}?"
    alike: dict[tuple[str, tuple[Sentence, ...]], list[int]] = {}
    for each in found.devices:
        if device is None or each.number == device:
            alike.setdefault((each.model, tuple(_device_sentences(found, each))), []).append(each.number)
    return [
        Section(
            which.format(found.node, "GPU" if len(numbers) == 1 else "GPUs", ranges(numbers), model, clock(found.time)),
            sentences,
        )
        for (model, sentences), numbers in alike.items()
    ]


def _device_sentences(found: NodeAtTime, device: DeviceAtTime) -> Iterable[Sentence]:
    allocations = [interval for interval in device.states if interval.kind == "allocated"]
    for interval in allocations:
        yield Sentence(
            f"Allocated to {_holder_text(interval)} {_interval_text(interval, found)}.",
            seqs_of(interval.since_seq, interval.until_seq),
        )
    if not allocations:
        since = f" since {clock(device.before.until)}" if device.before is not None else ""
        yield Sentence(f"Idle{since}.", seqs_of(device.before.until_seq if device.before is not None else None))
    for interval in device.states:
        if interval.kind == "reserved":
            yield Sentence(
                f"Reserved for {_holder_text(interval)} {_interval_text(interval, found)}.",
                seqs_of(interval.since_seq, interval.until_seq),
            )
        elif interval.kind != "allocated":
            why = f": {without_stop(interval.why)}" if interval.why else ""
            yield Sentence(
                f"{FAULTS[interval.kind]} {_interval_text(interval, found)}{why}.",
                seqs_of(interval.since_seq, interval.until_seq),
            )
    if device.before is not None:
        text = f"Before: {_holder_text(device.before)}, from {clock(device.before.since)} to {clock(device.before.until)}."
        yield Sentence(text, seqs_of(device.before.since_seq, device.before.until_seq))
    if device.after is not None:
        yield Sentence(
            f"After: {_holder_text(device.after)}, from {clock(device.after.since)} on.", seqs_of(device.after.since_seq)
        )


FAULTS: dict[Kind, str] = {
    "quarantined": "Quarantined",
    "unhealthy": "Unhealthy",
    "drained": "Node drained",
    "unreachable": "Node unreachable",
    "lost": "Node lost",
}


def _holder_text(interval: DeviceState) -> str:
    return f"{interval.job} (attempt {interval.attempt}, task {interval.task})"


def _interval_text(interval: DeviceState, found: NodeAtTime) -> str:
    so_far = duration_text(max(0, found.time - interval.since))
    if interval.until is None:
        return f"since {clock(interval.since)} ({so_far} at that time), still at the end of the log"
    return f"since {clock(interval.since)} ({so_far} at that time), until {clock(interval.until)}"
