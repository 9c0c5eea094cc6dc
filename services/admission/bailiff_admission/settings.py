"""Settings of admission."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from bailiff_bus.settings import ServiceSettings


class AdmissionSettings(ServiceSettings):
    """On top of the common ones. policy: the YAML document that a new domain begins with."""

    policy: Path | None = None
    digest_every: Annotated[int, Field(ge=10)] = 10_000
    largest_turn: Annotated[int, Field(ge=1)] = 200
