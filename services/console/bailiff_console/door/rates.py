"""How often somebody may ask: changes per person, sign-ins per address. Counted in this process."""

import ipaddress
import math
import time

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from bailiff_console.problems import Refused


class Rates:
    """Fixed windows of a minute."""

    def __init__(self, changes: int, sign_ins: int) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._changes = RateLimitItemPerMinute(changes, namespace="changes")
        self._sign_ins = RateLimitItemPerMinute(sign_ins, namespace="sign-ins")

    def change(self, person: str) -> None:
        """One more change by this person. Raises `Refused` where that is one too many."""
        self._hit(self._changes, person, "changes and questions by one person")

    def sign_in(self, address: str) -> None:
        """One more try to sign in from this address. Raises `Refused` where that is one too many."""
        self._hit(self._sign_ins, network_of(address), "tries to sign in from one address")

    def _hit(self, item: RateLimitItem, who: str, what: str) -> None:
        if self._limiter.hit(item, who):
            return
        left = max(1, math.ceil(self._limiter.get_window_stats(item, who).reset_time - time.time()))
        detail = f"more than {item.amount} {what} within a minute: wait {left} s"
        raise Refused(429, detail, headers={"retry-after": str(left)})


def network_of(address: str) -> str:
    """The address; of IPv6 the network, because whoever has one address there has 2^64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
