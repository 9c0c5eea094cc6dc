"""GPUs, CPUs and memory in use over time, from the attempts in order of their start: the most at once on each node."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

from bailiff_sim.cluster import Machine

MOST_GPUS = 64


class Usage(NamedTuple):
    """What one attempt used, of all its nodes together. Times in µs UTC."""

    start: int
    end: int
    gpus: int
    cpu_milli: int
    memory_bytes: int
    node_count: int
    nodes: tuple[str, ...]

    def per_node(self) -> tuple[int, int, int]:
        """GPUs, thousandths of CPUs and bytes on each node."""
        count = max(1, len(self.nodes) or self.node_count)
        return self.gpus // count, self.cpu_milli // count, self.memory_bytes // count


class Peaks:
    """total: the most GPUs in use at once; unplaced: attempts whose nodes are not given."""

    def __init__(self, attempts: Iterable[Usage]) -> None:
        self.total = self.unplaced = 0
        self._most: dict[str, tuple[int, int, int]] = {}
        used, now = dict[str, tuple[int, int, int]](), 0
        running: list[tuple[int, Usage]] = []  # as many as run at once
        for each in attempts:
            while running and running[0][0] <= each.start:
                gone = heappop(running)[1]
                now -= gone.gpus
                _add(used, gone, -1)
            self.unplaced += not each.nodes
            heappush(running, (each.end, each))
            now += each.gpus
            self.total = max(self.total, now)
            _add(used, each, 1)
            for node in each.nodes:
                gpus, cpu, memory = self._most.get(node, (0, 0, 0))
                self._most[node] = max(gpus, used[node][0]), max(cpu, used[node][1]), max(memory, used[node][2])

    def machines(self) -> list[Machine]:
        """Machines that hold what was seen; empty if the record names no nodes."""
        return [
            Machine(node, min(MOST_GPUS, gpus), cpu_milli=cpu, memory_bytes=memory)
            for node, (gpus, cpu, memory) in sorted(self._most.items())
            if gpus
        ]

    def at_least(self, machines: Sequence[Machine]) -> tuple[list[Machine], int]:
        """The machines with at least the CPUs and memory that were in use there at once; the number of those enlarged."""
        found = []
        for machine in machines:
            _, cpu, memory = self._most.get(machine.name, (0, 0, 0))
            found.append(replace(machine, cpu_milli=max(machine.cpu_milli, cpu), memory_bytes=max(machine.memory_bytes, memory)))
        return found, sum(before != after for before, after in zip(machines, found, strict=True))


def _add(used: dict[str, tuple[int, int, int]], attempt: Usage, sign: int) -> None:
    gpus, cpu, memory = (sign * each for each in attempt.per_node())
    for node in attempt.nodes:
        before = used.get(node, (0, 0, 0))
        used[node] = before[0] + gpus, before[1] + cpu, before[2] + memory
