"""Node outages: tasks stall at once; the log records silence, loss and reboot as for real nodes."""

from collections.abc import Iterable, Iterator, Sequence

from bailiff_core.model.state import PoolState, Task
from bailiff_core.records import facts

from .job_progress import JobProgress
from .simulated_log import REPORTS, InputFact
from .timeline import Timeline
from .workload import Outage

KILLED = 137


class Outages:
    """Machines that are down, and the effects of outages on jobs and the log."""

    def __init__(
        self, state: PoolState, progress_by_job: dict[str, JobProgress], time: Timeline, nodes: Sequence[facts.NodeJoined]
    ) -> None:
        self._state, self._progress_by_job, self._time = state, progress_by_job, time
        self._announced = {node.node: node for node in nodes}
        self._down: dict[int, int] = {}
        self._count = 0

    def announced(self, node: facts.NodeJoined) -> None:
        """Updates the announcement of a machine that joined later or was replaced."""
        self._announced[node.node] = node

    def any_down(self, tasks: Iterable[Task]) -> bool:
        """Whether one of the tasks is on a machine that is down."""
        return bool(self._down) and any(task.node in self._down for task in tasks)

    def fails(self, outage: Outage) -> None:
        """Starts an outage. Ignored for unknown machines and those that are down already."""
        number = self._state.node_numbers.get(outage.node)
        if number is None or number in self._down or outage.node not in self._announced:
            return
        self._count += 1
        count = self._down[number] = self._count
        now, back = self._time.now, outage.back_after
        for job in self._state.active_jobs():
            work = self._progress_by_job[job.id]
            if not work.finished and any(task.node == number for task in job.tasks):
                work.stall(now)
        rules = self._state.rules.nodes
        for after, callback in (
            (rules.unreachable_after, self._unreachable),
            (self._state.nodes[number].lease + rules.lost_margin, self._lost),
        ):
            if back is None or after < back:
                self._time.schedule(now + after, callback, outage.node, count, now)
        if back is not None:
            self._time.schedule(now + back, self._back, outage.node, count)

    def _unreachable(self, node: str, count: int, since: int) -> Iterator[InputFact]:
        if self._is_current(node, count):
            yield facts.NodeUnreachable(node=node, last_contact=since), ""

    def _lost(self, node: str, count: int, since: int) -> Iterator[InputFact]:
        if self._is_current(node, count):
            yield facts.NodeLost(node=node, last_contact=since), ""

    def _is_current(self, node: str, count: int) -> bool:
        return self._down.get(self._state.node_numbers[node]) == count

    def _back(self, node: str, count: int) -> Iterator[InputFact]:
        """The machine has booted: its tasks exited unobserved, and it announces itself."""
        number = self._state.node_numbers[node]
        for job in list(self._state.active_jobs()):
            for task in [task for task in job.tasks if task.node == number and task.state in ("starting", "running")]:
                at = {"job": job.id, "attempt": job.attempt, "task": task.index, "node": node}
                yield facts.TaskExited.model_validate({**at, "exit_code": KILLED, "unobserved": True}), REPORTS
                yield facts.TaskReleased.model_validate(at), REPORTS
        del self._down[number]
        incarnation = f"{node}-life-{count + 1}"
        update = {"number": number, "incarnation": incarnation, "boot_id": f"{incarnation}-boot"}
        yield self._announced[node].model_copy(update=update), REPORTS
