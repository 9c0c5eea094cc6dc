"""Sign-in by a trusted reverse proxy, which passes the user's name in a header."""

from collections.abc import Sequence

from bailiff_service.problems import ApiError

from .name_validation import usable_groups, usable_name
from .proxies import TrustedProxies

RawHeaders = Sequence[tuple[bytes, bytes]]


class HeaderAuth:
    """user_header, groups_header: the headers that the proxy sets."""

    def __init__(self, proxies: TrustedProxies, user_header: str, groups_header: str | None) -> None:
        self._proxies = proxies
        self._user = user_header
        self._groups = groups_header

    def authenticate(self, peer: str, headers: RawHeaders) -> tuple[str, tuple[str, ...]]:
        """Name and groups. Raises `ApiError` if the peer is not a trusted proxy or the header is not valid."""
        if not self._proxies.trusts(peer):
            raise ApiError(403, f"Peer {peer} is not a trusted proxy (BAILIFF_CONSOLE_PROXIES).")
        values = _values(headers, self._user)
        if len(values) != 1:
            found = f"found {len(values)} times" if values else "missing"
            raise ApiError(401, f"expected header {self._user} exactly once from the proxy: {found}")
        name = usable_name(values[0])
        if name is None:
            raise ApiError(401, f"header {self._user} is not a valid user name")
        groups = _values(headers, self._groups) if self._groups is not None else []
        if len(groups) > 1:
            raise ApiError(401, f"header {self._groups}: found {len(groups)} times, expected once")
        return name, usable_groups(groups[0].split(",")) if groups else ()


def _values(headers: RawHeaders, name: str) -> list[str]:
    return [value.decode("utf-8", "replace") for key, value in headers if key.decode("latin-1").lower() == name.lower()]
