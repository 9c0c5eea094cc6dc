"""How long this node may run tasks without reaching Kafka (docs/reference/log-protocol-fences.md#leases)."""

from collections.abc import Mapping

from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger

from .disk import Storage
from .runtime import Runtime

DEFAULT_LEASE, DEFAULT_MARGIN = 600_000_000, 60_000_000
FILE = "lease"


class Lease:
    """The lease of the whole node; runtimes whose tasks outlive the agent enforce it, too. Times on the boot-time clock, µs.

    is_known: admission has sent it to this incarnation. duration: how long it is. margin: how much longer admission waits before
    it declares the node lost.
    """

    def __init__(self, storage: Storage, runtimes: Mapping[str, Runtime], clock_and_ids: ClockAndIds) -> None:
        self._storage, self._clock_and_ids = storage, clock_and_ids
        self._runtimes = [runtime for runtime in runtimes.values() if runtime.capabilities.outlives_agent]
        stored = (storage.read(FILE) or b"").split()
        if not all(each.isdigit() for each in stored):
            logger().warning("the stored lease cannot be read: the default one holds until admission sends it")
            stored = []
        self.duration = int(stored[0]) if stored else DEFAULT_LEASE
        self.margin = int(stored[1]) if len(stored) > 1 else DEFAULT_MARGIN
        self._renewed_at = clock_and_ids.boot()
        self._expired = self.is_known = False

    @property
    def grace(self) -> int:
        """How long tasks may take to stop after expiry: half of the margin. The rest is for KILL."""
        return self.margin // 2

    def configure(self, duration: int, margin: int) -> None:
        """Admission sends the lease to this incarnation."""
        self.is_known = True
        if (duration, margin) != (self.duration, self.margin):
            self.duration, self.margin = duration, margin
            self._storage.replace(FILE, f"{duration} {margin}".encode())
            self.renew(self._renewed_at)

    def renew(self, sent: int) -> None:
        """Kafka has a message sent at this boot time, so its append time is no earlier: the lease runs from then."""
        self._renewed_at = sent
        for runtime in self._runtimes:
            runtime.renew(sent + self.duration, self.grace)
        if not self._is_over():
            self._expired = False

    def expire(self) -> bool:
        """True once each time that the lease expires. It is unknown then, until admission sends it again."""
        if self._expired or not self._is_over():
            return False
        self._expired, self.is_known = True, False
        return True

    def _is_over(self) -> bool:
        return self._clock_and_ids.boot() - self._renewed_at > self.duration
