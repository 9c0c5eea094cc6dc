"""What is kept an eye on while a task lives."""

from .ear import Ear, Wall
from .host import boottime_us
from .lease import LEASE_OVER, Lease
from .notice import write_notice
from .stopping import Body, Deadlines

LEASE_LOOK_S = 5.0  # at most so long between two looks: the clock of waits does not count suspended time


class Watch:
    """All that the supervisor keeps an eye on while the task lives."""

    def __init__(self, wall: Wall, lease: Lease, alone: bool) -> None:
        self.lease, self.deadlines, self.ear, self.alone = lease, Deadlines(wall.control), Ear(wall), alone

    def enforce(self, body: Body) -> None:
        """What is due now."""
        self.lease.enforce(body, self._warn)
        self.deadlines.enforce(body)

    def wait(self, longest_s: float = LEASE_LOOK_S) -> None:
        """Until something happens or is due."""
        moments = [at for at in (self.lease.next_at(), self.deadlines.next_at()) if at is not None]
        until = max(0.05, (min(moments) - boottime_us()) / 1_000_000) if moments else longest_s
        self.ear.wait(min(longest_s, until))

    def _warn(self, soft_at: int, kill_at: int) -> bool:
        """Put the notice where the job looks for it, as the agent would; whether the job has said that it looks."""
        wall = self.ear.wall
        write_notice(wall.control, wall.folder, {"reason": LEASE_OVER, "for_job": None}, soft_at, kill_at, alone=self.alone)
        return self.ear.greeted
