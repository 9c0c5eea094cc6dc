"""Settings of the auditor beyond the common ones."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from bailiff_log import cosignatures
from bailiff_service.settings import ServiceSettings


class AuditorSettings(ServiceSettings):
    """postgres: DSN of the archive. seal_key: file with the private sealing key; default: `auditor/seal.key` in the state

    folder, generated at the first start. seal_key_before: the previous key, during a key rotation. seal_records,
    seal_seconds: seal at each multiple of this number of records, and after this time if there are new records.
    usage_seconds: interval of project usage samples, in log time. witness_keys: keys of witnesses, each as `VKEY` or `VKEY URL`:
    what they cosign is archived, whoever else does.
    """

    postgres: SecretStr
    postgres_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    seal_key: Path | None = None
    seal_key_before: Path | None = None
    seal_records: Annotated[int, Field(ge=1)] = 10_000
    seal_seconds: Annotated[float, Field(gt=0)] = 300.0
    usage_seconds: Annotated[int, Field(ge=1)] = 60
    witness_keys: Annotated[frozenset[str], AfterValidator(cosignatures.witness_keys)] = frozenset()
