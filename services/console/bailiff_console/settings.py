"""Settings of the console, on top of the common ones. Each room keeps its own in a class of its own."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr

from bailiff_bus.settings import Port, ServiceSettings

from .door.settings import DoorSettings


class ReadingSettings(ServiceSettings):
    """console_port: where the page is. api, api_token: the query interface; without it the archive is not shown.

    console_pages: open pages at a time. console_snapshots: so many are kept of each pool's past, on disk under state_dir.
    """

    console_port: Port = 8640
    console_pages: Annotated[int, Field(ge=1)] = 1000
    console_snapshots: Annotated[int, Field(ge=4)] = 64
    api: str | None = None
    api_token: SecretStr | None = None


class ActingSettings(ServiceSettings):
    """key: the file with the private key that signs what people ask for here. actor: what the policy calls that key; then

    people ask as `actor/name`, for whom it may sign. Without it they ask under their names alone.
    """

    key: Path | None = None
    actor: str = ""


class ConsoleSettings(ReadingSettings, DoorSettings, ActingSettings):
    """All of them."""
