"""Settings of a service: defaults, then the file that `BAILIFF_SETTINGS` names (TOML or YAML), then `BAILIFF_*`.

`BAILIFF_KAFKA__BOOTSTRAP` sets `kafka.bootstrap`. What does not fit, and in the file what nobody knows, is a
`SettingsError` of one sentence each; secrets are never in it. (Services may share an environment, so a variable of
another one is passed over.) Settings say how a service reaches its surroundings and nothing that a decision depends
on: that is the policy, a record.
"""

import os
import socket
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableVariable

from bailiff_bus.complaints import complaints
from bailiff_bus.logs import Format, Level
from bailiff_bus.yamlfile import Lines, UnreadableFile, read_text, read_yaml
from bailiff_core.model.document import Count, Document, Name

FILE_VARIABLE = "BAILIFF_SETTINGS"
PREFIX = "BAILIFF_"

Port = Annotated[int, Field(ge=0, le=65535)]


class SettingsError(Exception):
    """The settings, or a declaration that they name, do not fit. One sentence per fault."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences
        super().__init__("\n".join(sentences))


def secret_of(setting: SecretStr | None) -> str | None:
    """The secret itself; an empty one is none."""
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
    request_timeout_ms: Annotated[int, Field(ge=100)] = 10_000
    session_timeout_ms: Annotated[int, Field(ge=1000)] = 6_000

    @model_validator(mode="after")
    def _sasl_is_whole(self) -> "KafkaSettings":
        wants_sasl = self.security_protocol.startswith("SASL")
        given = [name for name in ("sasl_mechanism", "username", "password") if getattr(self, name) is not None]
        if wants_sasl and len(given) < 3:
            raise ValueError(f"{self.security_protocol} needs sasl_mechanism, username and password")
        if given and not wants_sasl:
            raise ValueError(f"given without effect, as security_protocol is {self.security_protocol}: {', '.join(given)}")
        return self

    @property
    def request_timeout(self) -> float:
        """In seconds."""
        return self.request_timeout_ms / 1000

    @property
    def session_timeout(self) -> float:
        """In seconds."""
        return self.session_timeout_ms / 1000


class ServiceSettings(BaseSettings):
    """What every service is told. A service adds its own by a subclass."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    kafka: KafkaSettings = KafkaSettings()
    http_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    http_port: Port = 0
    http_address_file: Path | None = None
    log_format: Format = "json"
    log_level: Level = "info"
    state_dir: Path = Path(".bailiff/state")
    instance: Annotated[str, Field(min_length=1, max_length=128)] = Field(default_factory=socket.gethostname)
    pools: Path = Path("pools.yaml")
    stop_timeout_s: Annotated[float, Field(gt=0)] = 20.0
    otlp_endpoint: str | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - a file that appears by chance must not count
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The call's own values, then the environment, then the file."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=_file_values())


Settings = TypeVar("Settings", bound=ServiceSettings)


def load_settings(kind: type[Settings], **values: Any) -> Settings:
    """The settings of this process; `values` go before all else. Raises `SettingsError`."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingsError([_setting_sentence(fault) for fault in error.errors(include_url=False)]) from None
    except UnreadableVariable as error:
        raise SettingsError([f"environment: {error}"]) from None


def _setting_sentence(fault: ErrorDetails) -> str:
    text = complaints([fault])
    if not fault["loc"]:
        return text
    variable = PREFIX + "__".join(str(part) for part in fault["loc"]).upper()
    name, _, said = text.partition(": ")
    return f"{name} ({variable}): {said}"


def _file_values() -> dict[str, Any]:
    name = os.environ.get(FILE_VARIABLE)
    if not name:
        return {}
    path = Path(name)
    if path.suffix == ".toml":
        try:
            return tomllib.loads(read_text(path))
        except UnreadableFile as fault:
            raise SettingsError([str(fault)]) from None
        except tomllib.TOMLDecodeError as error:
            raise SettingsError([f"{path}: not TOML: {error}"]) from None
    if path.suffix in {".yaml", ".yml"}:
        value, _ = _read_yaml(path)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise SettingsError([f"{path}: expected names and values"])
        return value
    raise SettingsError([f"{FILE_VARIABLE}: expected a file that ends in .toml, .yaml or .yml, found {path.name}"])


# --- pools


class PoolDeclaration(Document):
    """One node pool: its name is its domain, and its log is this partition of `bailiff.audit`, for ever."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    partition: Count
    description: str = ""


class PoolFile(Document):
    """The file that declares all pools."""

    model_config = ConfigDict(extra="forbid")

    pools: Annotated[list[PoolDeclaration], Field(min_length=1)]


def read_pools(path: Path) -> tuple[PoolDeclaration, ...]:
    """The pools that the file declares, in its order. Raises `SettingsError` with file, line and field."""
    value, lines = _read_yaml(path)
    try:
        pools = tuple(PoolFile.model_validate(value).pools)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise SettingsError([f"{path}:{_line(lines, fault['loc'])}: {complaints([fault])}" for fault in faults]) from None
    for field in ("name", "partition"):
        seen: dict[object, str] = {}
        for index, pool in enumerate(pools):
            found = getattr(pool, field)
            if found in seen:
                line = _line(lines, ("pools", index, field))
                reason = f"pools.{index}.{field}: {found} is taken by pool {seen[found]}"
                raise SettingsError([f"{path}:{line}: {reason}"])
            seen[found] = pool.name
    return pools


def _read_yaml(path: Path) -> tuple[Any, Lines]:
    try:
        return read_yaml(path)
    except UnreadableFile as fault:
        raise SettingsError([str(fault)]) from None


def _line(lines: Lines, path: tuple[int | str, ...]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
