"""Log time: µs UTC, monotonic whatever this machine's clock does (docs/reference/log-protocol-fences.md#time)."""

from bailiff_service.clock_and_ids import ClockAndIds

STEP = 60_000_000


class LogClock:
    """Starts at the later of the log's head and the wall clock, then advances by the boot-time clock.

    While it is ahead of the wall clock it advances at half speed.
    """

    def __init__(self, clock_and_ids: ClockAndIds, head_time: int) -> None:
        self._clock_and_ids = clock_and_ids
        self.begin(head_time)

    def begin(self, head_time: int) -> None:
        """Continue from the time of the log's newest record."""
        self._boot = self._clock_and_ids.boot()
        self._wall = self._clock_and_ids.wall()
        self._time = max(head_time, self._wall)

    def now(self) -> int:
        """The present log time."""
        boot = self._clock_and_ids.boot()
        elapsed, self._boot = boot - self._boot, boot
        self._wall += elapsed
        ahead = max(0, self._time - self._wall + elapsed)
        slow = min(elapsed, 2 * ahead)
        self._time += slow // 2 + (elapsed - slow)
        return self._time

    def jump(self) -> int:
        """The jump of the wall clock since the last `step`, µs, if over a minute, else 0."""
        self.now()
        jump = self._clock_and_ids.wall() - self._wall
        return jump if abs(jump) > STEP else 0

    def step(self) -> int:
        """Adopt the jump, and return it."""
        jump = self.jump()
        self._wall += jump
        self._time = max(self._time, self._wall) if jump else self._time
        return jump

    def differs_from(self, append_time: int, sent_at_boot: int, tolerance: int, jump: int = 0) -> int | None:
        """Offset of the broker's clock from this one, µs, if above `tolerance`. sent_at_boot: when the record was sent.

        jump: of the wall clock, if not adopted yet.
        """
        self.now()
        latest = self._wall + jump
        earliest = latest - (self._boot - sent_at_boot)
        if append_time < earliest - tolerance:
            return append_time - earliest
        if append_time > latest + tolerance:
            return append_time - latest
        return None
