"""What the door needs for its work, put together from the settings."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bailiff_bus.settings import SettingsError

from .attempts import Attempts
from .byheader import ByHeader
from .names import usable_name
from .oidc import Provider
from .origin import Origin
from .person import Person
from .proxies import Proxies, networks
from .rates import Rates
from .roles import Roles, read_roles
from .sessions import Sessions
from .settings import DoorSettings
from .signedout import SignedOut
from .tokens import Tokens


@dataclass
class Gate:
    """One of it for one console."""

    settings: DoorSettings
    origin: Origin
    proxies: Proxies
    roles: Roles | None
    sessions: Sessions
    rates: Rates
    attempts: Attempts
    by_header: ByHeader | None
    provider: Provider | None

    def person(self, name: str, groups: tuple[str, ...] = ()) -> Person | None:
        """What this person may do; None where they may not even look."""
        if self.roles is not None:
            return self.roles.person(name, groups)
        alone = self.settings.console_sign_in == "local"
        return Person(name, groups, operator=alone, projects=None if alone else ())

    def groups_that_count(self, person: Person) -> tuple[str, ...]:
        """Those that the file of roles names: a cookie has no room for all that somebody is in."""
        return tuple(group for group in person.groups if self.roles is not None and self.roles.names_group(group))

    def local_person(self) -> Person | None:
        """The one person of a console on this machine."""
        return self.person(usable_name(self.settings.local_user) or "")


def gate_of(settings: DoorSettings) -> Gate:
    """Reads the file of roles. Raises `SettingsError`."""
    proxies = Proxies(networks(settings.console_proxies))
    mode = settings.console_sign_in
    if mode == "local" and usable_name(settings.local_user) is None:
        raise SettingsError([f"console_user: {settings.local_user!r} is no name that can stand in the log"])
    signed_out = SignedOut(settings.signed_out, settings.console_session_most_s)
    gate = Gate(
        settings=settings,
        origin=Origin(settings.console_url),
        proxies=proxies,
        roles=read_roles(settings.console_roles) if settings.console_roles is not None else None,
        sessions=Sessions(
            settings.console_session_idle_s, settings.console_session_most_s, tokens_of(settings, "session"), signed_out,
            lambda name, groups: gate.person(name, groups),
        ),
        rates=Rates(settings.console_posts_per_minute, settings.console_sign_ins_per_minute),
        attempts=Attempts(tokens_of(settings, "signing in"), signed_out),
        by_header=ByHeader(proxies, settings.console_user_header, settings.console_groups_header) if mode == "header" else None,
        provider=Provider(settings) if mode == "oidc" else None,
    )  # fmt: skip
    return gate


def tokens_of(settings: DoorSettings, purpose: str, now: Callable[[], float] = time.time) -> Tokens:
    """Of this console, for this purpose: another way to sign in, or another address, is another console."""
    place = f"bailiff-console 1 {purpose} {settings.console_sign_in} {settings.console_url or ''} {settings.oidc_issuer or ''}"
    return Tokens(settings.secret, place, now)
