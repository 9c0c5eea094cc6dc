"""Trusted reverse proxies, and the client address behind them."""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FORWARDED_FOR = "x-forwarded-for"


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse addresses and networks such as `10.0.0.0/8`. Raises `ValueError`."""
    return tuple(ipaddress.ip_network(text) for text in texts)


class TrustedProxies:
    """The configured proxies."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = tuple(trusted)

    def trusts(self, address: str) -> bool:
        """Whether this is a trusted proxy's address."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._trusted if network.version == found.version)

    def client_of(self, peer: str, forwarded: str) -> str:
        """The client: the peer, or the last address of `X-Forwarded-For` that is not a trusted proxy."""
        at = peer
        for entry in reversed(forwarded.split(",")):
            if not entry.strip() or not self.trusts(at):
                break
            at = entry.strip()
        return at
