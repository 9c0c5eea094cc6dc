"""Settings of admission."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bailiff_service.settings import ServiceSettings


class AdmissionSettings(ServiceSettings):
    """Settings in addition to the common ones. policy: YAML file with the first policy of a new pool.

    digest_every: records between state digests. unsigned: `auth` of requests without signature; `acl` if Kafka's ACLs restrict
    who may write. clock_tolerance_s: maximum difference of this machine's and the broker's clock; above it the service stops.
    specs_key: file of the key that job specs are encrypted with in a signed pool, the same for all replicas; default: `specs.key`
    in the folder of the credentials.
    engines: folder in which the engine's wheel is stored by digest, for replays. max_cycle_inputs: inputs per decision cycle.
    """

    policy: Path | None = None
    digest_every: Annotated[int, Field(ge=10)] = 10_000
    unsigned: Literal["none", "acl"] = "none"
    clock_tolerance_s: Annotated[float, Field(gt=0)] = 5.0
    specs_key: Path | None = None
    engines: Path = Path(".bailiff/engines")
    max_cycle_inputs: Annotated[int, Field(ge=1)] = 200
