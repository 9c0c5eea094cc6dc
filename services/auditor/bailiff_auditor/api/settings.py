"""Settings of the query interface, on top of the common ones."""

from typing import Annotated

from pydantic import Field, SecretStr

from bailiff_bus.settings import Port, ServiceSettings


class ApiSettings(ServiceSettings):
    """postgres: the address of the archive; a user that may only read is enough. api_host, api_port: where it answers.

    api_token: asked for as `Authorization: Bearer`; none: everybody who reaches it may read. api_connections: to PostgreSQL, at
    most. api_streams: followers at a time. api_heartbeat_s: a silent stream says at least so often that it lives.
    """

    postgres: SecretStr
    api_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    api_port: Port = 8620
    api_token: SecretStr | None = None
    api_connections: Annotated[int, Field(ge=2)] = 8
    api_statement_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    api_streams: Annotated[int, Field(ge=1)] = 200
    api_heartbeat_s: Annotated[float, Field(gt=0)] = 15.0
