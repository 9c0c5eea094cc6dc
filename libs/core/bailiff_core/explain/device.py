"""State of each GPU of a node at a point in time: its job, the jobs before and after, reservations, faults, drains."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from bailiff_core.fold import apply
from bailiff_core.humanize import duration_text
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Device, Job, Node, PoolState, Task
from bailiff_core.records import Record, facts

from .sentences import Section, Sentence, clock, jobs_of, seqs_of, without_stop

Kind = Literal["allocated", "reserved", "quarantined", "unhealthy", "drained", "unreachable", "lost"]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One state of a device from one record to another. until: None if it lasts to the end of the log. Times in µs.

    job, attempt, task: to which it is allocated or for which it is reserved. why: the fault, as in the record.
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
    """One GPU. states: at the given time; before, after: the last and the next allocation."""

    number: int
    id: str
    model: str
    states: tuple[DeviceState, ...]
    before: DeviceState | None
    after: DeviceState | None


@dataclass(frozen=True, slots=True)
class NodeAtTime:
    """A node at a point in time, µs. seq: the last record until then. devices: empty if the node had not joined yet."""

    node: str
    time: int
    seq: int
    devices: tuple[DeviceAtTime, ...]
    first_seen: int | None
    head_time: int


Key = tuple[str, str, int, int, str]


@dataclass
class NodeHistory:
    """Fed with every record of a log in order, it knows the state of one node's devices at any time."""

    node: str
    state: PoolState = field(default_factory=PoolState)
    _open: dict[int, dict[Key, DeviceState]] = field(default_factory=dict)
    _closed: dict[int, list[DeviceState]] = field(default_factory=dict)
    _on: dict[str, dict[int, dict[Key, None]]] = field(default_factory=dict)
    _times: list[tuple[int, int]] = field(default_factory=list)
    _joined: int | None = None

    def take(self, record: Record) -> None:
        """Process the next record."""
        about = jobs_of(record)
        apply(self.state, record)
        self._times.append((record.time, record.seq))
        number = self.state.node_numbers.get(self.node)
        node = self.state.nodes.get(number) if number is not None else None
        if node is None:
            return
        self._joined = record.time if self._joined is None else self._joined
        of_node = getattr(record.data, "node", None) == self.node or isinstance(record.data, facts.NodeReturned)
        if of_node and not isinstance(record.data, facts.TaskFact):
            about |= dict.fromkeys(self._on)
            self._look_at_node(record, node)
        for name in about:
            self._look_at(record, name, node)

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
        stays = [*self._closed.get(number, ()), *self._open.get(number, {}).values()]
        then = tuple(stay for stay in stays if stay.since_seq <= seq and (stay.until_seq is None or stay.until_seq > seq))
        held = [stay for stay in stays if stay.kind == "allocated"]
        before = max((stay for stay in held if stay.until_seq is not None and stay.until_seq <= seq), key=_ended, default=None)
        after = min((stay for stay in held if stay.since_seq > seq), key=lambda stay: stay.since_seq, default=None)
        then = tuple(sorted(then, key=lambda stay: stay.since_seq))
        return DeviceAtTime(number, device.id, device.model, then, before, after)

    def _look_at(self, record: Record, name: str, node: Node) -> None:
        """Compare the job's tasks on the node with those before the record."""
        job = self.state.jobs.get(name)
        now: dict[int, dict[Key, None]] = {}
        for key, task in _places(job) if job is not None else ():
            if task.node == node.number:
                for device in bits(task.devices):
                    now.setdefault(device, {})[key] = None
        before = self._on.get(name, {})
        for device in dict.fromkeys((*before, *now)):
            for key in before.get(device, ()):
                if key not in now.get(device, {}):
                    self._close(record, device, key)
            for key in now.get(device, ()):
                if key not in before.get(device, {}):
                    kind: Kind = "reserved" if key[0] == "reserved" else "allocated"
                    self._begin(device, key, DeviceState(kind, record.time, record.seq, key[1], key[2], key[3]))
        self._on[name] = now

    def _look_at_node(self, record: Record, node: Node) -> None:
        """Faults and drains of the node and its devices."""
        whole: dict[Kind, str] = {}
        if node.drain is not None:
            whole["drained"] = node.drain.reason
        if node.state == "unreachable":
            whole["unreachable"] = ""
        elif node.state == "lost":
            whole["lost"] = ""
        for device in node.devices:
            now = dict(whole)
            left = f"{device.fault}{f' (after {device.fault_job})' if device.fault_job else ''}"
            if node.quarantined >> device.number & 1:
                now["quarantined"] = left
            if not device.healthy:
                now["unhealthy"] = left
            before = [key for key in self._open.get(device.number, {}) if key[1] == ""]
            for key in before:
                if now.get(_kind(key)) != key[4]:
                    self._close(record, device.number, key)
            for kind, why in now.items():
                key = (kind, "", 0, 0, why)
                if key not in self._open.get(device.number, {}):
                    self._begin(device.number, key, DeviceState(kind, record.time, record.seq, why=why))

    def _begin(self, device: int, key: Key, stay: DeviceState) -> None:
        self._open.setdefault(device, {})[key] = stay

    def _close(self, record: Record, device: int, key: Key) -> None:
        stay = self._open[device].pop(key)
        self._closed.setdefault(device, []).append(replace(stay, until=record.time, until_seq=record.seq))


def _places(job: Job) -> Iterator[tuple[Key, Task]]:
    for task in job.tasks:
        if task.state != "released":
            yield ("reserved" if task.state == "reserved" else "allocated", job.id, job.attempt, task.index, ""), task
    for task in job.reservation:
        yield ("reserved", job.id, job.attempt + 1, task.index, "promise"), task


def _kind(key: Key) -> Kind:
    found: Kind = key[0]  # type: ignore[assignment]
    return found


def _ended(stay: DeviceState) -> int:
    return stay.until_seq or 0


# --- in sentences


def explain_node(found: NodeAtTime, device: int | None = None) -> list[Section]:
    """One section per GPU, or of the one only."""
    if not found.devices:
        known = f"it joined at {clock(found.first_seen)}" if found.first_seen is not None else "the log has no record of it"
        nothing = Sentence(f"The node is unknown at that time: {known}.")
        return [Section(f"What was on {found.node} at {clock(found.time)}?", (nothing,))]
    return [
        Section(
            f"What was on {found.node}, GPU {each.number} ({each.model}), at {clock(found.time)}?",
            tuple(_device_sentences(found, each)),
        )
        for each in found.devices
        if device is None or each.number == device
    ]


def _device_sentences(found: NodeAtTime, device: DeviceAtTime) -> Iterable[Sentence]:
    held = [stay for stay in device.states if stay.kind == "allocated"]
    for stay in held:
        yield Sentence(f"Allocated to {_holder_text(stay)} {_span(stay, found)}.", seqs_of(stay.since_seq, stay.until_seq))
    if not held:
        since = f" since {clock(device.before.until)}" if device.before is not None else ""
        yield Sentence(f"Idle{since}.", seqs_of(device.before.until_seq if device.before is not None else None))
    for stay in device.states:
        if stay.kind == "reserved":
            yield Sentence(f"Reserved for {_holder_text(stay)} {_span(stay, found)}.", seqs_of(stay.since_seq, stay.until_seq))
        elif stay.kind != "allocated":
            why = f": {without_stop(stay.why)}" if stay.why else ""
            yield Sentence(f"{FAULTS[stay.kind]} {_span(stay, found)}{why}.", seqs_of(stay.since_seq, stay.until_seq))
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


def _holder_text(stay: DeviceState) -> str:
    return f"{stay.job} (attempt {stay.attempt}, task {stay.task})"


def _span(stay: DeviceState, found: NodeAtTime) -> str:
    so_far = duration_text(max(0, found.time - stay.since))
    if stay.until is None:
        return f"since {clock(stay.since)} ({so_far} at that time), still at the end of the log"
    return f"since {clock(stay.since)} ({so_far} at that time), until {clock(stay.until)}"
