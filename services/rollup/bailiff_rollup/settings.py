"""Settings of the roll-up, on top of the common ones."""

from typing import Annotated

from pydantic import Field

from bailiff_bus.settings import ServiceSettings


class RollupSettings(ServiceSettings):
    """store_records, store_seconds: figures are stored after so many records, or after so long where there are new ones.

    What was counted since is counted again after a crash; nothing counts twice.
    """

    store_records: Annotated[int, Field(ge=1)] = 1_000
    store_seconds: Annotated[float, Field(gt=0)] = 2.0
