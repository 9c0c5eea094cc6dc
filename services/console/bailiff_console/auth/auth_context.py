"""The parts of authentication and authorization, built from the settings."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bailiff_bus.kafka_settings import secret_of
from bailiff_service.access_tokens import is_token, service_token
from bailiff_service.problems import ApiError
from bailiff_service.rate_limits import RateLimit, network_of
from bailiff_service.settings import SettingsError

from .header_auth import HeaderAuth
from .login_state import LoginStates
from .name_validation import usable_name
from .oidc import Provider
from .origin import Origin
from .principal import Principal
from .proxies import TrustedProxies, networks
from .revocations import Revocations
from .roles import Roles, read_roles
from .sessions import Sessions
from .settings import AuthSettings
from .tokens import Tokens

CONSOLE_TOKEN_FILE = "console.token"  # noqa: S105 - the name of a file


@dataclass
class AuthContext:
    """One per console. changes: rate limit by user; sign_ins: by address. local_token: required with local sign-in.

    port_tokens: of people at the ports of jobs; used_links: those to them that have been used.
    """

    settings: AuthSettings
    origin: Origin
    proxies: TrustedProxies
    roles: Roles | None
    sessions: Sessions
    changes: RateLimit
    sign_ins: RateLimit
    login_states: LoginStates
    local_token: str | None
    header_auth: HeaderAuth | None
    provider: Provider | None
    port_tokens: Tokens
    used_links: Revocations

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

    def count_sign_in(self, address: str) -> None:
        """Count a sign-in attempt from this address. Raises `ApiError` above the limit."""
        self.sign_ins.hit(network_of(address))

    def check_local_token(self, given: str, address: str) -> None:
        """Raises `ApiError` for a wrong token. Only wrong ones count, so that nobody can lock out the user."""
        assert self.local_token is not None
        if not is_token(given, self.local_token):
            self.count_sign_in(address)
            raise ApiError(403, "The token is wrong.")


def build_auth_context(settings: AuthSettings) -> AuthContext:
    """Also reads the roles file. Raises `SettingsError`."""
    proxies = TrustedProxies(networks(settings.console_proxies))
    mode = settings.console_sign_in
    if mode == "local" and usable_name(settings.local_user) is None:
        raise SettingsError([f"console_user: {settings.local_user!r} is not a valid user name"])
    local_token = None
    if mode == "local":
        local_token = service_token(
            secret_of(settings.console_token), settings.state_dir / CONSOLE_TOKEN_FILE, "console_token (BAILIFF_CONSOLE_TOKEN)"
        )
    secret = settings.secret or local_token  # with local sign-in, sessions outlive a restart, and end with the token
    revocations = Revocations(settings.revocations_dir, settings.console_session_most_s)
    auth = AuthContext(
        settings=settings,
        origin=Origin(settings.console_url),
        proxies=proxies,
        roles=read_roles(settings.console_roles) if settings.console_roles is not None else None,
        sessions=Sessions(
            settings.console_session_idle_s,
            settings.console_session_most_s,
            tokens_of(settings, secret, "session"),
            revocations,
            lambda name, groups: auth.principal(name, groups),
        ),
        changes=RateLimit(settings.console_posts_per_minute, "requests by one user"),
        sign_ins=RateLimit(settings.console_sign_ins_per_minute, "sign-ins from one address"),
        local_token=local_token,
        login_states=LoginStates(tokens_of(settings, secret, "signing in"), revocations),
        header_auth=HeaderAuth(proxies, settings.console_user_header, settings.console_groups_header)
        if mode == "header"
        else None,
        provider=Provider(settings) if mode == "oidc" else None,
        port_tokens=tokens_of(settings, secret, "ports"),
        used_links=revocations,
    )
    return auth


def tokens_of(settings: AuthSettings, secret: str | None, purpose: str, now: Callable[[], float] = time.time) -> Tokens:
    """Tokens for this purpose, with this secret; not valid with another sign-in mode, address or issuer."""
    context = f"bailiff-console 1 {purpose} {settings.console_sign_in} {settings.console_url or ''} {settings.oidc_issuer or ''}"
    return Tokens(secret, context, now)
