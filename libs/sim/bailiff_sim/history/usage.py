"""GPUs in use over time, from the attempts in order of their start: the most at once, and on each node."""

from collections.abc import Iterable
from heapq import heappop, heappush

from bailiff_sim.cluster import Machine

MOST_GPUS = 64


class Peaks:
    """total: the most GPUs in use at once; by_node: the same for each node; unplaced: attempts whose nodes are not given."""

    def __init__(self, attempts: Iterable[tuple[int, int, int, int, tuple[str, ...]]]) -> None:
        self.total = self.unplaced = 0
        self.by_node: dict[str, int] = {}
        used, now = dict[str, int](), 0
        running: list[tuple[int, int, int, tuple[str, ...]]] = []  # as many as run at once
        for start, end, gpus, count, nodes in attempts:
            while running and running[0][0] <= start:
                _, gone, each, where = heappop(running)
                now -= gone
                for node in where:
                    used[node] -= each
            each = gpus // max(1, len(nodes) or count)
            self.unplaced += not nodes
            heappush(running, (end, gpus, each, nodes))
            now += gpus
            self.total = max(self.total, now)
            for node in nodes:
                used[node] = used.get(node, 0) + each
                self.by_node[node] = max(self.by_node.get(node, 0), used[node])

    def machines(self) -> list[Machine]:
        """Machines that hold what was seen; empty if the record names no nodes."""
        return [Machine(node, min(MOST_GPUS, gpus)) for node, gpus in sorted(self.by_node.items()) if gpus]
