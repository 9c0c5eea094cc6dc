"""Reverse proxies that are trusted: whose headers count, and from which address somebody really comes."""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FORWARDED_FOR = "x-forwarded-for"


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks such as `10.0.0.0/8`. Raises `ValueError` for anything else."""
    return tuple(ipaddress.ip_network(text) for text in texts)


class Proxies:
    """Those that were named."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = tuple(trusted)

    def trusts(self, address: str) -> bool:
        """Whether this is the address of one of them."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._trusted if network.version == found.version)

    def client_of(self, peer: str, forwarded: str) -> str:
        """Who asks: the peer, or the last address of `X-Forwarded-For` that is no proxy. Others' words count for nothing."""
        at = peer
        for said in reversed(forwarded.split(",")):
            if not said.strip() or not self.trusts(at):
                break
            at = said.strip()
        return at
