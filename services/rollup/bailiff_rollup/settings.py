"""Settings of the roll-up beyond the common ones."""

from typing import Annotated

from pydantic import Field

from bailiff_service.settings import ServiceSettings


class RollupSettings(ServiceSettings):
    """store_records, store_seconds: aggregates are stored after this number of records, or after this time if there are new ones.
    Telemetry alone is stored every five minutes.

    Later records are aggregated again after a crash; nothing counts twice.
    """

    store_records: Annotated[int, Field(ge=1)] = 1_000
    store_seconds: Annotated[float, Field(gt=0)] = 2.0
