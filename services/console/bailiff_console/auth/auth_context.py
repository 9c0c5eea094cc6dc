"""The parts of authentication and authorization, built from the settings."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bailiff_service.settings import SettingsError

from .header_auth import HeaderAuth
from .login_state import LoginStates
from .name_validation import usable_name
from .oidc import Provider
from .origin import Origin
from .principal import Principal
from .proxies import TrustedProxies, networks
from .rate_limits import RateLimits
from .revocations import Revocations
from .roles import Roles, read_roles
from .sessions import Sessions
from .settings import AuthSettings
from .tokens import Tokens


@dataclass
class AuthContext:
    """One per console."""

    settings: AuthSettings
    origin: Origin
    proxies: TrustedProxies
    roles: Roles | None
    sessions: Sessions
    rate_limits: RateLimits
    login_states: LoginStates
    header_auth: HeaderAuth | None
    provider: Provider | None

    def principal(self, name: str, groups: tuple[str, ...] = ()) -> Principal | None:
        """The user with its roles; None without read access."""
        if self.roles is not None:
            return self.roles.principal(name, groups)
        is_local = self.settings.console_sign_in == "local"
        return Principal(name, groups, operator=is_local, projects=None if is_local else ())

    def groups_in_roles(self, principal: Principal) -> tuple[str, ...]:
        """The user's groups that the roles file names; a cookie cannot hold all groups."""
        return tuple(group for group in principal.groups if self.roles is not None and self.roles.names_group(group))

    def local_principal(self) -> Principal | None:
        """The only user of a console with local sign-in."""
        return self.principal(usable_name(self.settings.local_user) or "")


def build_auth_context(settings: AuthSettings) -> AuthContext:
    """Also reads the roles file. Raises `SettingsError`."""
    proxies = TrustedProxies(networks(settings.console_proxies))
    mode = settings.console_sign_in
    if mode == "local" and usable_name(settings.local_user) is None:
        raise SettingsError([f"console_user: {settings.local_user!r} is not a valid user name"])
    revocations = Revocations(settings.revocations_dir, settings.console_session_most_s)
    auth = AuthContext(
        settings=settings,
        origin=Origin(settings.console_url),
        proxies=proxies,
        roles=read_roles(settings.console_roles) if settings.console_roles is not None else None,
        sessions=Sessions(
            settings.console_session_idle_s, settings.console_session_most_s, tokens_of(settings, "session"), revocations,
            lambda name, groups: auth.principal(name, groups),
        ),
        rate_limits=RateLimits(settings.console_posts_per_minute, settings.console_sign_ins_per_minute),
        login_states=LoginStates(tokens_of(settings, "signing in"), revocations),
        header_auth=HeaderAuth(proxies, settings.console_user_header,
        settings.console_groups_header) if mode == "header" else None,
        provider=Provider(settings) if mode == "oidc" else None,
    )  # fmt: skip
    return auth


def tokens_of(settings: AuthSettings, purpose: str, now: Callable[[], float] = time.time) -> Tokens:
    """Tokens for this purpose; not valid with another sign-in mode, address or issuer."""
    context = f"bailiff-console 1 {purpose} {settings.console_sign_in} {settings.console_url or ''} {settings.oidc_issuer or ''}"
    return Tokens(settings.secret, context, now)
