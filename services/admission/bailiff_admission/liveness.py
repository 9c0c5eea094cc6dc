"""Detects silent nodes by the append times of their reports (docs/reference/log-protocol-fences.md#silent-nodes).

Silence counts only after the reports were read to the end and then observed for one full interval without a pause of this
writer: otherwise every node would look lost after an outage of Kafka.
"""

from collections.abc import Iterator

from bailiff_core.model.state import SILENT_AFTER, Node, PoolState
from bailiff_core.records.facts import NodeLost, NodeReachable, NodesSilent, NodeUnreachable
from bailiff_core.records.payload import Fact
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import NODE_SILENCE, Sample

from .agent_values import AgentValues

MAX_PAUSE = 2_000_000
CHECK_EVERY = 1_000_000


class Liveness:
    """Append times by node, and how long this writer has observed without a pause. Times in µs."""

    def __init__(self, clock_and_ids: ClockAndIds) -> None:
        self._clock_and_ids = clock_and_ids
        self._last_reports = AgentValues[int]()
        self._named: set[str] = set()
        self._broker = (0, 0)
        self._observing_since = self._read_at = self._checked_at = self._silence_checked_at = clock_and_ids.boot()

    def observe(self, state: PoolState, node: str, incarnation: str, append_time: int) -> None:
        """Record the append time of a report of this incarnation."""
        self._last_reports.put(state, node, incarnation, append_time)

    def broker_time(self, append_time: int) -> None:
        """Synchronise with the broker's clock: a message was just appended at this time."""
        self._broker = (append_time, self._clock_and_ids.boot())

    def broker_now(self) -> int:
        """Estimate of the broker's clock."""
        append_time, at = self._broker
        return append_time + (self._clock_and_ids.boot() - at)

    def inputs_read(self, at_end: bool) -> None:
        """The writer has read its inputs. If it is behind or was paused, the observation starts again."""
        boot = self._clock_and_ids.boot()
        if not at_end or boot - self._read_at > MAX_PAUSE:
            self._observing_since = boot
        self._read_at = boot

    def check(self, state: PoolState) -> list[Fact]:
        """Facts about nodes that became silent or reachable; checks at most once a second."""
        boot = self._clock_and_ids.boot()
        if boot - self._checked_at < CHECK_EVERY or self._broker[0] == 0:
            return []
        self._checked_at = boot
        rules, nodes = state.rules.nodes, [node for node in state.nodes.values() if node.state != "lost"]
        silence = {node.name: self._silence(node, boot) for node in nodes}
        facts: list[Fact] = [
            NodeReachable(node=node.name)
            for node in nodes
            if node.state == "unreachable" and silence[node.name] <= rules.unreachable_after
        ]
        if boot - self._observing_since < rules.unreachable_after:
            return facts
        silent = [node for node in nodes if silence[node.name] > rules.unreachable_after]
        newly_silent = [node for node in silent if not node.silence_confirmed]
        if len(newly_silent) > 1 and len(newly_silent) * 100 > len(nodes) * rules.silent_share_percent:
            names = tuple(sorted(node.name for node in newly_silent))
            if not set(names) <= set(state.silent_nodes):
                facts.append(NodesSilent(nodes=names))
            silent = [node for node in silent if node.silence_confirmed]
        for node in silent:
            last = self._last_reports.get(node.name, node.incarnation) or 0
            if node.state == "ready":
                facts.append(NodeUnreachable(node=node.name, last_contact=last))
            elif silence[node.name] > node.lease + rules.lost_margin and node.name not in state.silent_nodes:
                facts.append(NodeLost(node=node.name, last_contact=last))
        return facts

    def silent(self, state: PoolState) -> list[tuple[Node, int]]:
        """Nodes that should report and have not for a minute, and for how long. Nobody is, until that long was observed."""
        boot = self._clock_and_ids.boot()
        if boot - self._observing_since < SILENT_AFTER or self._broker[0] == 0:
            return []
        silence = [(node, self._silence(node, boot)) for node in state.nodes.values() if node.expected]
        return [(node, duration) for node, duration in silence if duration > SILENT_AFTER]

    def newly_silent(self, state: PoolState) -> list[tuple[Node, int]]:
        """Those of `silent` that this writer has not named since their last report. Looks at most once a second."""
        boot = self._clock_and_ids.boot()
        if boot - self._silence_checked_at < CHECK_EVERY:
            return []
        self._silence_checked_at = boot
        silent = self.silent(state)
        new = [(node, duration) for node, duration in silent if node.name not in self._named and node.state != "lost"]
        self._named = {node.name for node, _ in silent}
        return new

    def samples(self, state: PoolState) -> Iterator[Sample]:
        """The metric of silent nodes."""
        for node, duration in self.silent(state):
            yield NODE_SILENCE, (node.name,), duration // 1_000_000

    def _silence(self, node: Node, boot: int) -> int:
        """µs since the node's last report on the broker's clock; since the observation started if there is none."""
        last = self._last_reports.get(node.name, node.incarnation)
        if last is None:
            return boot - self._observing_since
        return max(0, self.broker_now() - last)
