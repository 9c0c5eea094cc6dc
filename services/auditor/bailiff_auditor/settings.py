"""Settings of the auditor, on top of the common ones."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr

from bailiff_bus.settings import ServiceSettings


class AuditorSettings(ServiceSettings):
    """postgres: the address of the archive, which may hold a password. seal_key: the file with the private key that seals;

    left out, `auditor/seal.key` in the state folder, made at the first start. seal_key_before: the key until now, where a new
    one takes over. seal_records, seal_seconds: a seal comes at each multiple of so many records, and so long after the one
    before if there are new ones. usage_seconds: how often projects' use is noted, in log time.
    """

    postgres: SecretStr
    postgres_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    seal_key: Path | None = None
    seal_key_before: Path | None = None
    seal_records: Annotated[int, Field(ge=1)] = 10_000
    seal_seconds: Annotated[float, Field(gt=0)] = 300.0
    usage_seconds: Annotated[int, Field(ge=1)] = 60
