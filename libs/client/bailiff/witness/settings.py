"""Settings of the witness beyond the common ones."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from bailiff_service.settings import Port, ServiceSettings


class WitnessSettings(ServiceSettings):
    """Settings of a witness.

    Attributes:
        witness_name: Its name in cosignatures; by convention a URL without scheme.
        witness_key: File with its private key; default: `witness/witness.key` in the state folder, made at the first start.
        witness_kafka: Whether it follows the seals of the declared pools.
        witness_trust: Sealing keys, the first one of each pool; empty: trust the first one published.
        witness_submit_to: Other witnesses that get the checkpoints, each as `VKEY URL`.
        witness_host: Address of the HTTP interface, for logs elsewhere and for readers.
        witness_port: Its port; None: no HTTP interface.
        witness_logs: Keys of the logs accepted over HTTP, each as a vkey.
    """

    witness_name: Annotated[str, Field(min_length=1, max_length=255)] = "bailiff-witness"
    witness_key: Path | None = None
    witness_kafka: bool = True
    witness_trust: tuple[str, ...] = ()
    witness_submit_to: tuple[str, ...] = ()
    witness_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    witness_port: Port | None = None
    witness_logs: tuple[str, ...] = ()

    @property
    def key_file(self) -> Path:
        """The file with the private key."""
        return self.witness_key or self.state_dir / "witness" / "witness.key"
