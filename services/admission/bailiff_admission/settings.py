"""Settings of admission."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bailiff_bus.settings import ServiceSettings


class AdmissionSettings(ServiceSettings):
    """On top of the common ones. policy: the YAML document that a new domain begins with.

    unsigned: what a request without a signature counts for; `acl` says that Kafka's access lists decide who may write.
    clock_tolerance_s: how far this machine's clock and the broker's may be apart before nothing more is written.
    engines: where the wheel of the engine that decides is kept, by its digest, for those who replay.
    """

    policy: Path | None = None
    digest_every: Annotated[int, Field(ge=10)] = 10_000
    unsigned: Literal["none", "acl"] = "none"
    clock_tolerance_s: Annotated[float, Field(gt=0)] = 5.0
    engines: Path = Path(".bailiff/engines")
    largest_turn: Annotated[int, Field(ge=1)] = 200
