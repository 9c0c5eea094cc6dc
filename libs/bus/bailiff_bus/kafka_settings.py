"""Connection settings of Kafka clients."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


def secret_of(setting: SecretStr | None) -> str | None:
    """The secret's value; None where it is unset or empty."""
    return setting.get_secret_value() or None if setting is not None else None


class KafkaSettings(BaseModel):
    """How to reach the brokers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap: Annotated[str, Field(min_length=1)] = "127.0.0.1:9092"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str | None = None
    password: SecretStr | None = None
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    key_password: SecretStr | None = None
    request_timeout_ms: Annotated[int, Field(ge=100)] = 10_000
    session_timeout_ms: Annotated[int, Field(ge=1000)] = 6_000

    @model_validator(mode="after")
    def _check_sasl(self) -> "KafkaSettings":
        wants_sasl = self.security_protocol.startswith("SASL")
        present = [name for name in ("sasl_mechanism", "username", "password") if getattr(self, name) is not None]
        if wants_sasl and len(present) < 3:
            raise ValueError(f"{self.security_protocol} needs sasl_mechanism, username and password")
        if present and not wants_sasl:
            unused = ", ".join(present)
            raise ValueError(
                f"{unused}: unused, as security_protocol is {self.security_protocol}; set a SASL protocol or remove them"
            )
        if self.security_protocol not in ("SSL", "SASL_SSL"):
            files = ", ".join(name for name in ("cafile", "certfile", "keyfile") if getattr(self, name) is not None)
            if files:
                raise ValueError(f"{files}: unused, as security_protocol is {self.security_protocol}; set SSL or SASL_SSL")
        elif self.certfile is None and (self.keyfile is not None or self.key_password is not None):
            raise ValueError("keyfile and key_password belong to a client certificate: set certfile, too")
        return self

    def with_secrets(self) -> dict[str, Any]:
        """Everything that differs from the default, as JSON, secrets in clear: to be passed to a child process."""
        secrets = {
            name: secret_of(getattr(self, name)) for name in ("password", "key_password") if getattr(self, name) is not None
        }
        return self.model_dump(mode="json", exclude_defaults=True) | secrets

    @property
    def request_timeout(self) -> float:
        """Request timeout, seconds."""
        return self.request_timeout_ms / 1000

    @property
    def session_timeout(self) -> float:
        """Session timeout, seconds."""
        return self.session_timeout_ms / 1000
