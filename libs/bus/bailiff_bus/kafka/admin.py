"""Administration: clients for it, and what brokers refuse."""

import contextlib
from collections.abc import AsyncIterator, Iterable

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from bailiff_bus.settings import KafkaSettings
from bailiff_bus.topics import COPIES_MEANT

from .calls import bounded, calling, client_arguments, started
from .logs import take_over_logging


@contextlib.asynccontextmanager
async def connected_admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An administration client for a few calls, within one `request_timeout` all together."""
    take_over_logging()
    admin = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        async with calling(settings, "create topics", extra=2 * settings.request_timeout):
            yield await started(admin, admin.close)
    finally:
        await bounded(admin.close(), settings.request_timeout)


async def copies_meant(admin: AIOKafkaAdminClient) -> int:
    """How many brokers this Kafka is meant to have, at least: it can keep no group without so many."""
    broker = (await admin.describe_cluster())["brokers"][0]["node_id"]
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(broker))])
    ((code, text, _, _, entries),) = answers[0].resources
    refusals([(f"broker {broker}", code, text)])
    return int({name: value for name, value, *_ in entries}.get(COPIES_MEANT) or 1)


def refusals(errors: Iterable[tuple[str, int, str | None]], but_for: str = "") -> None:
    """Raise for the first (topic, error code, text) that says no."""
    for topic, code, text in errors:
        error = for_code(code)
        if code and error.__name__ != but_for:
            raise error(f"{topic}: {text or error.description}")
