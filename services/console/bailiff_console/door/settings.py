"""Settings of the door: how people sign in, what each may do, for how long, how often."""

import getpass
import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from bailiff_bus.settings import ServiceSettings, secret_of

from .proxies import networks

SHORTEST_SECRET = 32
LOOPBACK_NAMES = ("localhost",)
UNSAFE_ALGORITHMS = ("none", "HS256", "HS384", "HS512")
Seconds = Annotated[int, Field(ge=1)]


class DoorSettings(ServiceSettings):
    """console_sign_in: `local`, one person on this machine; `header`, a reverse proxy says who it is; `oidc`.

    console_host: where the page answers. console_in_container: with `local`, listen where others could reach it, too, as only
    this machine's loopback is led there. console_url: its address as browsers see it. console_user: who it is with `local`.
    console_roles: the file that says who may do what; none: with `local` the person is an operator, else everybody only looks.
    console_proxies: addresses of reverse proxies, whose headers count. console_user_header, console_groups_header: in which the
    proxy names the person and, with commas between, the groups. oidc_*: the provider, this console's registration with it, and
    which claims are the name and the groups. console_secret: what sessions are sealed with, the same for all consoles
    behind one address; none: one that ends with the process. console_signed_out: the folder that those consoles share, where
    sessions stand that were ended early; none: under state_dir. console_session_*_s: a session ends after so long without a
    request, and in all.
    console_posts_per_minute: of one person; console_sign_ins_per_minute: from one address. console_largest_body_bytes: of one.
    """

    console_sign_in: Literal["local", "header", "oidc"] = "local"
    console_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
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
        for fault in (
            self._proxy_fault(),
            self._local_fault(),
            self._url_fault(),
            self._oidc_fault(),
            self._secret_fault(),
        ):
            if fault is not None:
                raise ValueError(fault)
        return self

    def _local_fault(self) -> str | None:
        if self.console_sign_in != "local" or is_loopback(self.console_host) or self.console_in_container:
            return None
        return (
            f"console_host is {self.console_host}, and with console_sign_in local whoever reaches the page is its one person: "
            "listen on 127.0.0.1, or let people sign in (header, oidc)"
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
            return "console_sign_in header needs console_proxies: whose headers count"
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
            return f"oidc_algorithms: {unsafe[0]} proves nothing here; name algorithms with a public key, such as RS256"
        if "openid" not in self.oidc_scopes.split():
            return "oidc_scopes: openid has to be among them"
        return None

    def _secret_fault(self) -> str | None:
        if self.secret is None or len(self.secret) >= SHORTEST_SECRET:
            return None
        return (
            f"console_secret has fewer than {SHORTEST_SECRET} characters: whoever guesses it is whoever they like; "
            "`openssl rand -base64 32` prints one that nobody guesses"
        )

    @property
    def secret(self) -> str | None:
        """What sessions are sealed with, as configured."""
        return secret_of(self.console_secret)

    @property
    def signed_out(self) -> Path:
        """Where sign-outs are noted."""
        return self.console_signed_out or self.state_dir / "console" / "signed-out"

    @property
    def local_user(self) -> str:
        """Who it is with `local`: as configured, else the user of this process."""
        if self.console_user:
            return self.console_user
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return f"uid-{os.getuid()}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK_NAMES


def is_protected(url: str) -> bool:
    """Whether nobody between can read what is sent there: encrypted, or it does not leave this machine."""
    parts = urlsplit(url)
    return (parts.scheme == "https" and bool(parts.netloc)) or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
