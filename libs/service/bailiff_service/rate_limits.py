"""Rate limits of web servers, counted in this process. Needs the package `limits`, which the web services install."""

import ipaddress
import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from .problems import ApiError


class RateLimit:
    """Fixed windows of one minute. what: what is counted, for the message."""

    def __init__(self, per_minute: int, what: str) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._item, self._what = RateLimitItemPerMinute(per_minute), what

    def hit(self, key: str) -> None:
        """Count one. Raises `ApiError` above the limit."""
        if self._limiter.hit(self._item, key):
            return
        retry_after = max(1, math.ceil(self._limiter.get_window_stats(self._item, key).reset_time - time.time()))
        detail = f"more than {self._item.amount} {self._what} per minute: retry in {retry_after} s"
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
