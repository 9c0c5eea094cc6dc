"""Settings of authentication, sessions and rate limits."""

import getpass
import os
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from bailiff_bus.kafka_settings import secret_of
from bailiff_service.host_header import is_loopback
from bailiff_service.settings import ServiceSettings

from .proxies import networks

MIN_SECRET = 32
UNSAFE_ALGORITHMS = ("none", "HS256", "HS384", "HS512")
Seconds = Annotated[int, Field(ge=1)]


class AuthSettings(ServiceSettings):
    """console_sign_in: `local` (one user on this machine), `header` (a reverse proxy names the user) or `oidc`.

    console_token: required from the user with `local`; default: made at first start, in `console.token` under state_dir.
    console_host: listen address. console_in_container: with `local`, allow a listen address other than loopback, because only
    the host's loopback is forwarded to it. console_url: the address as browsers see it. console_user: the user with `local`.
    console_roles: the roles file; without it, the user is an operator with `local`, and everyone has read access otherwise.
    console_proxies: trusted reverse proxies. console_user_header, console_groups_header: their headers with the user and the
    comma-separated groups. oidc_*: provider, client registration, and the claims with name and groups. console_secret: encrypts
    sessions, the same for all consoles behind one address; default: random per process. console_signed_out: folder of the
    revocation list, shared by these consoles; default: under state_dir. console_session_*_s: session timeouts without a
    request and in total. console_posts_per_minute: per user. console_sign_ins_per_minute: per address.
    console_largest_body_bytes: maximum request body.
    """

    console_sign_in: Literal["local", "header", "oidc"] = "local"
    console_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    console_token: SecretStr | None = None
    console_in_container: bool = False
    console_url: str | None = None
    console_user: str = ""
    console_roles: Path | None = None
    console_proxies: tuple[str, ...] = ()
    console_user_header: Annotated[str, Field(min_length=1)] = "X-Forwarded-User"
    console_groups_header: str | None = None
    oidc_issuer: str | None = None
    oidc_client_id: str | None = None
    oidc_client_secret: SecretStr | None = None
    oidc_scopes: str = "openid profile email"
    oidc_name_claim: Annotated[str, Field(min_length=1)] = "preferred_username"
    oidc_groups_claim: Annotated[str, Field(min_length=1)] = "groups"
    oidc_algorithms: Annotated[tuple[str, ...], Field(min_length=1)] = ("RS256", "PS256", "ES256")
    console_secret: SecretStr | None = None
    console_signed_out: Path | None = None
    console_session_idle_s: Seconds = 28_800
    console_session_most_s: Seconds = 86_400
    console_posts_per_minute: Annotated[int, Field(ge=1)] = 240
    console_sign_ins_per_minute: Annotated[int, Field(ge=1)] = 20
    console_largest_body_bytes: Annotated[int, Field(ge=1024)] = 1_048_576

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for fault in (self._proxy_fault(), self._local_fault(), self._url_fault(), self._oidc_fault(), self._secret_fault()):
            if fault is not None:
                raise ValueError(fault)
        return self

    def _local_fault(self) -> str | None:
        if self.console_sign_in != "local" or is_loopback(self.console_host) or self.console_in_container:
            return None
        return (
            f"console_host is {self.console_host}, and with console_sign_in local everyone who reaches the page is an operator: "
            "listen on 127.0.0.1, or use console_sign_in header or oidc"
        )

    def _url_fault(self) -> str | None:
        if self.console_url is None:
            return None if self.console_sign_in == "local" else f"console_sign_in {self.console_sign_in} needs console_url"
        parts = urlsplit(self.console_url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.netloc
            or parts.path not in ("", "/")
            or parts.query
            or parts.username
        ):
            return f"console_url: expected an address such as https://bailiff.example.org, found {self.console_url}"
        return None

    def _proxy_fault(self) -> str | None:
        try:
            networks(self.console_proxies)
        except ValueError as error:
            return f"console_proxies: expected addresses or networks such as 10.0.0.0/8: {error}"
        if self.console_sign_in == "header" and not self.console_proxies:
            return "console_sign_in header needs console_proxies: the trusted proxies"
        return None

    def _oidc_fault(self) -> str | None:
        if self.console_sign_in != "oidc":
            return None
        missing = [name for name in ("oidc_issuer", "oidc_client_id") if getattr(self, name) is None]
        if missing:
            return f"console_sign_in oidc needs {' and '.join(missing)}"
        assert self.oidc_issuer is not None
        if not is_protected(self.oidc_issuer):
            return f"oidc_issuer: expected an address that begins with https://, found {self.oidc_issuer}"
        unsafe = [name for name in self.oidc_algorithms if name in UNSAFE_ALGORITHMS]
        if unsafe:
            return f"oidc_algorithms: {unsafe[0]} is not secure here; use public-key algorithms such as RS256"
        if "openid" not in self.oidc_scopes.split():
            return "oidc_scopes: must include openid"
        return None

    def _secret_fault(self) -> str | None:
        if self.secret is None or len(self.secret) >= MIN_SECRET:
            return None
        return (
            f"console_secret: expected at least {MIN_SECRET} characters, because it can forge sessions; "
            "generate one with `openssl rand -base64 32`"
        )

    @property
    def secret(self) -> str | None:
        """The configured secret that encrypts sessions."""
        return secret_of(self.console_secret)

    @property
    def revocations_dir(self) -> Path:
        """The folder of the revocation list."""
        return self.console_signed_out or self.state_dir / "console" / "signed-out"

    @property
    def local_user(self) -> str:
        """The user with `local`: as configured, else the user of this process."""
        if self.console_user:
            return self.console_user
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return f"uid-{os.getuid()}"


def is_protected(url: str) -> bool:
    """Whether the connection is encrypted or stays on this machine."""
    parts = urlsplit(url)
    return (parts.scheme == "https" and bool(parts.netloc)) or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
