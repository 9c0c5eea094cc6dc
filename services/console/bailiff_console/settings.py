"""Settings of the console beyond the common ones, one class per area."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from bailiff_console.auth.settings import AuthSettings
from bailiff_service.settings import Port, ServiceSettings


class ReadingSettings(ServiceSettings):
    """console_port: the port of the web page. api, api_token, api_token_file: the query API; without it the archive is not shown.

    console_pages: maximum number of live streams. console_snapshots: maximum number of snapshots per pool, under state_dir.
    """

    console_port: Port = 8640
    console_pages: Annotated[int, Field(ge=1)] = 1000
    console_snapshots: Annotated[int, Field(ge=4)] = 64
    api: str | None = None
    api_token: SecretStr | None = None
    api_token_file: Path | None = None


class RequestSettings(ServiceSettings):
    """key: file with the private key that signs requests. actor: the key's name in the policy. unsigned: as admission's.

    With an actor, requests are signed as `actor/name`; without one, the actor is the user's name alone.
    """

    key: Path | None = None
    actor: str = ""
    unsigned: Literal["none", "acl"] = "none"


class ConsoleSettings(ReadingSettings, AuthSettings, RequestSettings):
    """All settings of the console."""
