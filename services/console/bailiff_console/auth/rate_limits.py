"""Rate limits: changes per user, sign-ins per address. Counted in this process."""

import ipaddress
import math
import time

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from bailiff_service.problems import ApiError


class RateLimits:
    """Fixed windows of one minute."""

    def __init__(self, changes: int, sign_ins: int) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._changes = RateLimitItemPerMinute(changes, namespace="changes")
        self._sign_ins = RateLimitItemPerMinute(sign_ins, namespace="sign-ins")

    def change(self, principal: str) -> None:
        """Count a change by this user. Raises `ApiError` above the limit."""
        self._hit(self._changes, principal, "requests by one user")

    def sign_in(self, address: str) -> None:
        """Count a sign-in from this address. Raises `ApiError` above the limit."""
        self._hit(self._sign_ins, network_of(address), "sign-ins from one address")

    def _hit(self, item: RateLimitItem, key: str, what: str) -> None:
        if self._limiter.hit(item, key):
            return
        retry_after = max(1, math.ceil(self._limiter.get_window_stats(item, key).reset_time - time.time()))
        detail = f"more than {item.amount} {what} per minute: retry in {retry_after} s"
        raise ApiError(429, detail, headers={"retry-after": str(retry_after)})


def network_of(address: str) -> str:
    """The IPv4 address, or the IPv6 /64 network, because one client usually has a whole /64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
