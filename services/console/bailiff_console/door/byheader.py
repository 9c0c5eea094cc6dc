"""Sign-in by a reverse proxy: it says in a header who asks, and nobody else is believed."""

from collections.abc import Sequence

from bailiff_console.problems import Refused

from .names import usable_groups, usable_name
from .proxies import Proxies

RawHeaders = Sequence[tuple[bytes, bytes]]


class ByHeader:
    """What the proxy says of a request."""

    def __init__(self, proxies: Proxies, user_header: str, groups_header: str | None) -> None:
        self._proxies = proxies
        self._user = user_header
        self._groups = groups_header

    def named(self, peer: str, headers: RawHeaders) -> tuple[str, tuple[str, ...]]:
        """Name and groups. Raises `Refused` for whoever does not come through the proxy, and where it names nobody."""
        if not self._proxies.trusts(peer):
            raise Refused(
                403, f"this console is reached through its proxy, and {peer} is none that BAILIFF_CONSOLE_PROXIES names"
            )
        said = _values(headers, self._user)
        if len(said) != 1:
            found = f"it stands {len(said)} times" if said else "it is not there"
            raise Refused(401, f"the proxy says in the header {self._user} who has signed in: {found}")
        name = usable_name(said[0])
        if name is None:
            raise Refused(401, f"the header {self._user} holds no name")
        groups = _values(headers, self._groups) if self._groups is not None else []
        if len(groups) > 1:
            raise Refused(401, f"the header {self._groups} stands {len(groups)} times")
        return name, usable_groups(groups[0].split(",")) if groups else ()


def _values(headers: RawHeaders, name: str) -> list[str]:
    return [value.decode("utf-8", "replace") for key, value in headers if key.decode("latin-1").lower() == name.lower()]
