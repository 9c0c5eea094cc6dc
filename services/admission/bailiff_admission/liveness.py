"""Which nodes have fallen silent, judged by the append times of their reports (log protocol §7).

Silence counts only after the reports were read to the end and then watched for one full interval without a pause of
this writer's own: after an outage of Kafka every node would look dead.
"""

from bailiff_bus.ambient import Ambient
from bailiff_core.model.pool import Node, Pool
from bailiff_core.records.facts import NodeLost, NodeReachable, NodeUnreachable, ReportsStale
from bailiff_core.records.payload import Fact

LONGEST_PAUSE = 2_000_000
JUDGE_EVERY = 1_000_000


class Liveness:
    """Append times by node, and how long this writer has watched without a break. All times in µs."""

    def __init__(self, ambient: Ambient) -> None:
        self._ambient = ambient
        self._heard: dict[str, int] = {}
        self._broker = (0, 0)
        self._watching_since = self._looked = self._judged = ambient.boot()

    def heard(self, node: str, incarnation: str, append_time: int) -> None:
        """A report of this incarnation was appended then."""
        self._heard[f"{node}/{incarnation}"] = append_time

    def broker_time(self, append_time: int) -> None:
        """Something was appended at this time, just now as far as this writer can tell."""
        self._broker = (append_time, self._ambient.boot())

    def broker_now(self) -> int:
        """What the broker's clock shows now, as far as this writer can tell."""
        append_time, at = self._broker
        return append_time + (self._ambient.boot() - at)

    def looked(self, at_end: bool) -> None:
        """The writer has looked at its inputs. Behind, or late to look: the watch begins anew."""
        boot = self._ambient.boot()
        if not at_end or boot - self._looked > LONGEST_PAUSE:
            self._watching_since = boot
        self._looked = boot

    def judge(self, pool: Pool) -> list[Fact]:
        """What the silence, or the voice, of nodes means now; at most one look a second."""
        boot = self._ambient.boot()
        if boot - self._judged < JUDGE_EVERY or self._broker[0] == 0:
            return []
        self._judged = boot
        rules, nodes = pool.rules.nodes, [node for node in pool.nodes.values() if node.state != "lost"]
        silence = {node.name: self._silence(node, boot) for node in nodes}
        facts: list[Fact] = [
            NodeReachable(node=node.name)
            for node in nodes
            if node.state == "unreachable" and silence[node.name] <= rules.unreachable_after
        ]
        if boot - self._watching_since < rules.unreachable_after:
            return facts
        silent = [node for node in nodes if silence[node.name] > rules.unreachable_after]
        doubtful = [node for node in silent if not node.silence_counts]
        if len(doubtful) > 1 and len(doubtful) * 100 > len(nodes) * rules.stale_share_percent:
            names = tuple(sorted(node.name for node in doubtful))
            if not set(names) <= set(pool.reports_stale):
                facts.append(ReportsStale(nodes=names))
            silent = [node for node in silent if node.silence_counts]
        for node in silent:
            last = self._heard.get(f"{node.name}/{node.incarnation}", 0)
            if node.state == "ready":
                facts.append(NodeUnreachable(node=node.name, last_heard=last))
            elif silence[node.name] > node.lease + rules.lost_margin and node.name not in pool.reports_stale:
                facts.append(NodeLost(node=node.name, last_heard=last))
        return facts

    def _silence(self, node: Node, boot: int) -> int:
        """µs since the node's last report was appended, on the broker's clock; counted from the watch if none was seen."""
        last = self._heard.get(f"{node.name}/{node.incarnation}")
        if last is None:
            return boot - self._watching_since
        return max(0, self.broker_now() - last)
