"""Checks the Host header against the console's own address, to prevent DNS rebinding."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from bailiff_service.host_header import host_name, is_loopback
from bailiff_service.problems import ApiError


class Origin:
    """url: the console's address; None: reachable from this machine only."""

    def __init__(self, url: str | None) -> None:
        address = url.rstrip("/").lower() if url is not None else None
        self._url = address if address is not None and not is_loopback(urlsplit(address).hostname or "") else None

    def of(self, headers: Mapping[str, str]) -> str:
        """The origin, such as `https://bailiff.example.org`. Raises `ApiError` if Host is not this console."""
        host = headers.get("host", "")
        name = host_name(host)
        if name is None:
            raise ApiError(400, f"header Host is not valid: {host[:100]!r}")
        if self._url is not None:
            if host.lower() != _host(self._url) and host.lower() != urlsplit(self._url).netloc:
                raise ApiError(421, f"wrong host {host[:100]}: this console's address is {self._url}")
            return _origin(self._url)
        if not is_loopback(name):
            raise ApiError(421, f"wrong host {host[:100]}: this console serves this machine only; use localhost")
        return f"http://{host.lower()}"


def _host(url: str) -> str:
    """Host as a browser sends it: without the default port."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}[parts.scheme]
    return parts.netloc.removesuffix(f":{usual}")


def _origin(url: str) -> str:
    return f"{urlsplit(url).scheme}://{_host(url)}"
