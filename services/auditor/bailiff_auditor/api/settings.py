"""Settings of the HTTP API beyond the common ones."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr

from bailiff_service.settings import Port, ServiceSettings


class ApiSettings(ServiceSettings):
    """postgres: the archive's DSN; a read-only user suffices. api_host, api_port: listen address.

    api_token: required as bearer token; default: made at first start, in api_token_file, by default `api.token` under state_dir.
    api_hosts: names that requests may use for this server, besides localhost and addresses.
    api_connections: maximum connections to PostgreSQL.
    api_streams: maximum number of live streams. api_heartbeat_s: heartbeat interval of idle streams.
    """

    postgres: SecretStr
    api_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    api_port: Port = 8620
    api_token: SecretStr | None = None
    api_token_file: Path | None = None
    api_hosts: tuple[str, ...] = ()
    api_connections: Annotated[int, Field(ge=2)] = 8
    api_statement_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    api_streams: Annotated[int, Field(ge=1)] = 200
    api_heartbeat_s: Annotated[float, Field(gt=0)] = 15.0
