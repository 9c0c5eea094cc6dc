"""Administration clients, and exceptions for error codes returned by brokers."""

import contextlib
from collections.abc import AsyncIterator, Iterable

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.topics import REPLICATION_SETTING

from .client_logging import redirect_client_logs
from .errors import broker_call, client_arguments, finish_within, start_or_close


@contextlib.asynccontextmanager
async def connected_admin(settings: KafkaSettings, purpose: str = "create topics") -> AsyncIterator[AIOKafkaAdminClient]:
    """An administration client for a few calls, with a common timeout of three `request_timeout`s. purpose: for error texts."""
    redirect_client_logs()
    admin = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        async with broker_call(settings, purpose, extra=2 * settings.request_timeout):
            yield await start_or_close(admin, admin.close)
    finally:
        await finish_within(admin.close(), settings.request_timeout)


async def configured_replication(admin: AIOKafkaAdminClient) -> int:
    """The cluster's configured replication factor of the offsets topic; consumer groups need that many brokers."""
    broker = (await admin.describe_cluster())["brokers"][0]["node_id"]
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(broker))])
    ((code, text, _, _, entries),) = answers[0].resources
    raise_for_error([(f"broker {broker}", code, text)])
    return int({name: value for name, value, *_ in entries}.get(REPLICATION_SETTING) or 1)


def raise_for_error(errors: Iterable[tuple[str, int, str | None]], ignore: str = "") -> None:
    """Raise the error of the first (topic, error code, text) with a nonzero code."""
    for topic, code, text in errors:
        error = for_code(code)
        if code and error.__name__ != ignore:
            raise error(f"{topic}: {text or error.description}")
