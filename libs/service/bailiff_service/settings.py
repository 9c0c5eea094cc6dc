"""Settings of a service: defaults, then the file that `BAILIFF_SETTINGS` names (TOML or YAML), then `BAILIFF_*`.

`BAILIFF_KAFKA__BOOTSTRAP` sets `kafka.bootstrap`. Invalid values, and unknown names in the file, raise `SettingsError` with
one sentence each, never with secrets. Unknown variables are ignored, since services may share an environment. Settings never
affect decisions, which depend on the policy only; the policy is a record.
"""

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.validation_errors import describe_errors
from bailiff_core.model.document import Count, Document, Name
from bailiff_log.credentials import Credentials, read_credentials
from bailiff_log.keys import KeyFileError

from .logs import Format, Level

if TYPE_CHECKING:
    from .yaml_files import Lines

FILE_VARIABLE = "BAILIFF_SETTINGS"
PREFIX = "BAILIFF_"

Port = Annotated[int, Field(ge=0, le=65535)]


class SettingsError(Exception):
    """The settings, or a file that they name, are invalid. One sentence per fault."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences
        super().__init__("\n".join(sentences))


class ServiceSettings(BaseSettings):
    """Settings that all services have. A service adds its own by a subclass.

    Fields that are not given to the constructor are read from the environment, then from the settings file.
    """

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
    credentials: Path | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - `.env` files are not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Highest priority first: constructor, environment, settings file."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=_file_values())


Settings = TypeVar("Settings", bound=ServiceSettings)


def load_settings(kind: type[Settings], **values: Any) -> Settings:
    """The settings of this process; `values` have the highest priority. Raises `SettingsError`."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingsError([_setting_sentence(fault) for fault in error.errors(include_url=False)]) from None
    except UnreadableVariable as error:
        raise SettingsError([f"environment: {error}"]) from None


def _setting_sentence(fault: ErrorDetails) -> str:
    text = describe_errors([fault])
    if not fault["loc"]:
        return text
    variable = PREFIX + "__".join(str(part) for part in fault["loc"]).upper()
    name, _, reason = text.partition(": ")
    return f"{name} ({variable}): {reason}"


def _file_values() -> dict[str, Any]:
    name = os.environ.get(FILE_VARIABLE)
    return settings_file(Path(name)) if name else {}


def settings_file(path: Path) -> dict[str, Any]:
    """The names and values in a settings file. Raises `SettingsError`."""
    if path.suffix == ".toml":
        import tomllib

        from .yaml_files import UnreadableFile, read_text

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


def read_own_credentials(settings: ServiceSettings) -> Credentials | None:
    """The credentials in the folder that the settings name; None without one. Raises `SettingsError`."""
    if settings.credentials is None:
        return None
    try:
        return read_credentials(settings.credentials)
    except KeyFileError as error:
        raise SettingsError([str(error)]) from None


# --- pools


class PoolDeclaration(Document):
    """A pool; its log is this partition of `bailiff.audit`, permanently."""

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
    from .yaml_files import line_of

    value, lines = _read_yaml(path)
    try:
        pools = tuple(PoolFile.model_validate(value).pools)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise SettingsError([f"{path}:{line_of(lines, fault['loc'])}: {describe_errors([fault])}" for fault in faults]) from None
    for field in ("name", "partition"):
        seen: dict[object, str] = {}
        for index, pool in enumerate(pools):
            found = getattr(pool, field)
            if found in seen:
                line = line_of(lines, ("pools", index, field))
                reason = f"pools.{index}.{field}: {found} is already used by pool {seen[found]}"
                raise SettingsError([f"{path}:{line}: {reason}"])
            seen[found] = pool.name
    return pools


def _read_yaml(path: Path) -> "tuple[Any, Lines]":
    from .yaml_files import UnreadableFile, read_yaml  # imported here: not needed if no file is read

    try:
        return read_yaml(path)
    except UnreadableFile as fault:
        raise SettingsError([str(fault)]) from None
