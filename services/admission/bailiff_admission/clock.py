"""Log time: µs UTC that never goes back, whatever this machine's clock does (log protocol §7)."""

from bailiff_bus.ambient import Ambient

STEP = 60_000_000


class LogClock:
    """Begins at the later of the log's head and the wall clock, then goes on by the boot-time clock.

    While it is ahead of the wall clock it goes at half pace, until they meet.
    """

    def __init__(self, ambient: Ambient, head_time: int) -> None:
        self._ambient = ambient
        self._boot = ambient.boot()
        self._wall = ambient.wall()
        self._time = max(head_time, self._wall)

    def now(self) -> int:
        """The log time of this moment."""
        boot = self._ambient.boot()
        passed, self._boot = boot - self._boot, boot
        self._wall += passed
        ahead = max(0, self._time - self._wall + passed)
        slow = min(passed, 2 * ahead)
        self._time += slow // 2 + (passed - slow)
        return self._time

    def jump(self) -> int:
        """How far the wall clock has jumped since it was last taken over, if by more than a minute, else 0."""
        self.now()
        jump = self._ambient.wall() - self._wall
        return jump if abs(jump) > STEP else 0

    def step(self) -> int:
        """Take the jump over, and return it."""
        jump = self.jump()
        self._wall += jump
        self._time = max(self._time, self._wall) if jump else self._time
        return jump

    def differs_from(self, append_time: int, sent_at_boot: int, tolerance: int, jump: int = 0) -> int | None:
        """How far this clock and the broker's are apart, µs, if too far. `sent_at_boot`: when the record was sent.

        jump: of the wall clock, if it is one that was not taken over yet.
        """
        self.now()
        latest = self._wall + jump
        earliest = latest - (self._boot - sent_at_boot)
        if append_time < earliest - tolerance:
            return append_time - earliest
        if append_time > latest + tolerance:
            return append_time - latest
        return None
