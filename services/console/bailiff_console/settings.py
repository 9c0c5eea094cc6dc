"""Settings of the console beyond the common ones, one class per area."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from bailiff_console.auth.settings import AuthSettings
from bailiff_log import cosignatures
from bailiff_service.host_header import is_address, is_loopback
from bailiff_service.settings import Port, ServiceSettings


class ReadingSettings(ServiceSettings):
    """console_port: the port of the web page. api, api_token, api_token_file: the HTTP API; without it the archive is not shown.

    console_pages: maximum number of live streams. console_snapshots: maximum number of snapshots per pool, under state_dir.
    witness_keys: keys of witnesses, each as `VKEY` or `VKEY URL`: a receipt is of a seal that they cosigned, if there is one.
    """

    console_port: Port = 8640
    console_pages: Annotated[int, Field(ge=1)] = 1000
    console_snapshots: Annotated[int, Field(ge=4)] = 64
    api: str | None = None
    api_token: SecretStr | None = None
    api_token_file: Path | None = None
    witness_keys: Annotated[frozenset[str], AfterValidator(cosignatures.witness_keys)] = frozenset()


class RequestSettings(ServiceSettings):
    """key: file with the private key that signs requests. actor: the key's name in the policy. unsigned: as admission's.

    With an actor, requests are signed as `actor/name`; without one, the actor is the user's name alone.
    """

    key: Path | None = None
    actor: str = ""
    unsigned: Literal["none", "acl"] = "none"


class JobPortSettings(AuthSettings):
    """console_jobs_port: where the ports of jobs are proxied; without it they are not. console_jobs_url: the address below whose
    host name each port has a host name of its own, such as https://jobs.example.org; by default localhost with that port.
    """

    console_jobs_port: Port | None = None
    console_jobs_url: str | None = None

    @model_validator(mode="after")
    def _jobs_have_another_host(self) -> Self:
        url, console = self.console_jobs_url, urlsplit(self.console_url or "")
        if url is None:
            if self.console_jobs_port is not None and not is_loopback(console.hostname or self.console_host):
                raise ValueError("console_jobs_port needs console_jobs_url: an address with a host name of its own for jobs")
            return self
        parts = urlsplit(url)
        is_origin = parts.path in ("", "/") and not parts.query and not parts.username
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_origin:
            raise ValueError(f"console_jobs_url: expected an address such as https://jobs.example.org, found {url}")
        if is_address(parts.hostname):
            raise ValueError("console_jobs_url: expected a name below which there can be other names, found an IP address")
        if console.scheme == "https" and parts.scheme != "https":
            raise ValueError("console_jobs_url: expected https://, as console_url has")
        return self


class ConsoleSettings(ReadingSettings, JobPortSettings, RequestSettings):
    """All settings of the console."""
