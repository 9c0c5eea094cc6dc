"""Enforces lease and deadlines, and serves the socket, while a task runs."""

from .host import boottime_us
from .lease import LEASE_EXPIRED, Lease
from .notice import write_notice
from .socket_server import ControlDir, SocketServer
from .stopping import Deadlines, Stoppable

LEASE_POLL_S = 5.0  # the longest wait: the clock of waits does not count suspended time


class Watchdog:
    """is_only_task: the job has no other rank."""

    def __init__(self, control_dir: ControlDir, lease: Lease, is_only_task: bool) -> None:
        self.lease, self.deadlines = lease, Deadlines(control_dir.task_dir)
        self.server, self.is_only_task = SocketServer(control_dir), is_only_task

    def enforce(self, task: Stoppable) -> None:
        """Carry out what is due now."""
        self.lease.enforce(task, self._notify)
        self.deadlines.enforce(task)

    def wait(self, longest_s: float = LEASE_POLL_S) -> None:
        """Wait for an event or the next deadline, and serve the socket meanwhile."""
        due = [at for at in (self.lease.next_at(), self.deadlines.next_at()) if at is not None]
        until = max(0.05, (min(due) - boottime_us()) / 1_000_000) if due else longest_s
        self.server.wait(min(longest_s, until))

    def _notify(self, soft_at: int, kill_at: int) -> bool:
        """Publish an eviction notice, as the agent would; whether the job handles notices."""
        at = self.server.control_dir
        payload = {"reason": LEASE_EXPIRED, "preemptor": None}
        write_notice(at.task_dir, at.folder, payload, soft_at, kill_at, is_only_task=self.is_only_task)
        return self.server.attached
