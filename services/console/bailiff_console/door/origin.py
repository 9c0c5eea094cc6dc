"""At which address the console was asked, and whether that is one of its own: against DNS rebinding."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from bailiff_console.problems import Refused

from .settings import is_loopback

HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)


class Origin:
    """Of a console with this address, or, without one, on this machine alone."""

    def __init__(self, url: str | None) -> None:
        told = url.rstrip("/").lower() if url is not None else None
        self._url = told if told is not None and not is_loopback(urlsplit(told).hostname or "") else None

    def of(self, headers: Mapping[str, str]) -> str:
        """`https://bailiff.example.org`. Raises `Refused` where the request was meant for another name."""
        host = headers.get("host", "")
        match = HOST.fullmatch(host)
        if match is None:
            raise Refused(400, f"the header Host is no name of a host: {host[:100]!r}")
        if self._url is not None:
            if host.lower() != _host(self._url) and host.lower() != urlsplit(self._url).netloc:
                raise Refused(421, f"this console is {self._url}, and was asked for as {host[:100]}: use that address")
            return _origin(self._url)
        if not is_loopback(match["name"]):
            raise Refused(421, f"this console is for this machine alone, and was asked for as {host[:100]}: use localhost")
        return f"http://{host.lower()}"


def _host(url: str) -> str:
    """As a browser writes it: without the port that goes without saying."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}[parts.scheme]
    return parts.netloc.removesuffix(f":{usual}")


def _origin(url: str) -> str:
    return f"{urlsplit(url).scheme}://{_host(url)}"
