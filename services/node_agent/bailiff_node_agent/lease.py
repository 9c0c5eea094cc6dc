"""How long this node may go on unheard (log protocol §7)."""

from collections.abc import Mapping

from bailiff_bus.ambient import Ambient

from .disk import Storage
from .runtime import Runtime

UNTIL_TOLD, MARGIN_UNTIL_TOLD = 600_000_000, 60_000_000
FILE = "lease"


class Lease:
    """One for the whole node; its runtimes keep it, too. Times on the boot-time clock, µs.

    known: this incarnation was told it. lasts: how long it is. margin: how much longer admission waits. grace: what tasks have to
    leave once it is over, half of the margin; the rest is for KILL to be carried out and seen.
    """

    def __init__(self, storage: Storage, runtimes: Mapping[str, Runtime], ambient: Ambient) -> None:
        self._storage, self._runtimes, self._ambient = storage, runtimes, ambient
        told = [int(each) for each in (storage.read(FILE) or b"").split()]
        self.lasts = told[0] if told else UNTIL_TOLD
        self.margin = told[1] if len(told) > 1 else MARGIN_UNTIL_TOLD
        self._from = ambient.boot()
        self._cut_off = self.known = False

    @property
    def grace(self) -> int:
        return self.margin // 2

    def is_told(self, lasts: int, margin: int) -> None:
        """By admission, to this incarnation. margin: how much longer admission waits."""
        self.known = True
        if (lasts, margin) != (self.lasts, self.margin):
            self.lasts, self.margin = lasts, margin
            self._storage.replace(FILE, f"{lasts} {margin}".encode())
            self.renew(self._from)

    def renew(self, sent: int) -> None:
        """Kafka has what was sent at this boot time, so its append time is no earlier: the lease runs from then."""
        self._from = sent
        for runtime in self._runtimes.values():
            runtime.renew(sent + self.lasts, self.grace)
        if not self._is_over():
            self._cut_off = False

    def has_run_out(self) -> bool:
        """Once each time that it does; from then on it is unknown until it is told again."""
        if self._cut_off or not self._is_over():
            return False
        self._cut_off, self.known = True, False
        return True

    def _is_over(self) -> bool:
        return self._ambient.boot() - self._from > self.lasts
