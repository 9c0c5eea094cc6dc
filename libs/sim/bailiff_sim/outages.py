"""Node outages: tasks stall at once; the log records silence, loss and reboot as for real nodes."""

from collections.abc import Iterable, Iterator, Sequence

from bailiff_core.model.state import PoolState, Task
from bailiff_core.records import facts

from .job_progress import JobProgress
from .simulated_log import REPORTS, Given
from .timeline import Timeline
from .workload import Outage

KILLED = 137


class Outages:
    """Which machines are down, and since when."""

    def __init__(
        self, state: PoolState, progress_by_job: dict[str, JobProgress], time: Timeline, nodes: Sequence[facts.NodeJoined]
    ) -> None:
        self._state, self._works, self._time = state, progress_by_job, time
        self._announced = {node.node: node for node in nodes}
        self._down: dict[int, int] = {}
        self._count = 0

    def announced(self, node: facts.NodeJoined) -> None:
        """A machine joined later, or is another one now."""
        self._announced[node.node] = node

    def any_down(self, tasks: Iterable[Task]) -> bool:
        """Whether one of these stands on a machine that is down."""
        return bool(self._down) and any(task.node in self._down for task in tasks)

    def fails(self, outage: Outage) -> None:
        """A machine is gone from now on. One that the pool does not have, or that is down, fails no more."""
        number = self._state.node_numbers.get(outage.node)
        if number is None or number in self._down or outage.node not in self._announced:
            return
        self._count += 1
        count = self._down[number] = self._count
        now, back = self._time.now, outage.back_after
        for job in self._state.active_jobs():
            work = self._works[job.id]
            if not work.finished and any(task.node == number for task in job.tasks):
                work.stall(now)
        rules = self._state.rules.nodes
        for after, happens in (
            (rules.unreachable_after, self._silent),
            (self._state.nodes[number].lease + rules.lost_margin, self._lost),
        ):
            if back is None or after < back:
                self._time.at(now + after, happens, outage.node, count, now)
        if back is not None:
            self._time.at(now + back, self._back, outage.node, count)

    def _silent(self, node: str, count: int, since: int) -> Iterator[Given]:
        if self._is(node, count):
            yield facts.NodeUnreachable(node=node, last_contact=since), ""

    def _lost(self, node: str, count: int, since: int) -> Iterator[Given]:
        if self._is(node, count):
            yield facts.NodeLost(node=node, last_contact=since), ""

    def _is(self, node: str, count: int) -> bool:
        return self._down.get(self._state.node_numbers[node]) == count

    def _back(self, node: str, count: int) -> Iterator[Given]:
        """It has booted: what ran there ended unseen, and it takes work again."""
        number = self._state.node_numbers[node]
        for job in list(self._state.active_jobs()):
            for task in [task for task in job.tasks if task.node == number and task.state in ("starting", "running")]:
                at = {"job": job.id, "attempt": job.attempt, "task": task.index, "node": node}
                yield facts.TaskExited.model_validate({**at, "exit_code": KILLED, "unobserved": True}), REPORTS
                yield facts.TaskReleased.model_validate(at), REPORTS
        del self._down[number]
        life = f"{node}-life-{count + 1}"
        update = {"number": number, "incarnation": life, "boot_id": f"{life}-boot"}
        yield self._announced[node].model_copy(update=update), REPORTS
