"""The Host header of a request: its name, and whether that is an address of this machine.

A web site can point a name of its own at a service (DNS rebinding); the browser then sends that name as Host.
"""

import ipaddress
import re

LOOPBACK_NAMES = ("localhost",)
HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)


def host_name(header: str) -> str | None:
    """The name or address in the header, without its port; None if the header is not valid."""
    match = HOST.fullmatch(header)
    return match["name"] if match is not None else None


def is_address(name: str) -> bool:
    """Whether it is an IP address: nobody else can point that somewhere."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Whether it is a loopback address or name."""
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name.lower() in LOOPBACK_NAMES
