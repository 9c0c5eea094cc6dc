"""A real Kafka with access lists: every user may do exactly what the table of rights grants, and settings say what is wrong."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.fetch import FetchRequest_v4
from aiokafka.protocol.group import HeartbeatRequest_v1
from aiokafka.protocol.produce import ProduceRequest_v3
from aiokafka.protocol.transaction import InitProducerIdRequest_v0
from pydantic import SecretStr

from bailiff.client.client import Client
from bailiff.client.settings import ClientSettings
from bailiff.doctor.checks import access_check, examine
from bailiff.security.apply import apply
from bailiff.security.certificates import issue
from bailiff_bus.grants import PRINCIPALS, TOPIC_OPERATIONS, Grant, Operation
from bailiff_bus.kafka import KafkaBus, build_ssl_context, connected_admin
from bailiff_bus.kafka.access import AccessRule, access_admin
from bailiff_bus.kafka.access_protocol import request
from bailiff_bus.port import AccessDenied, BusUnavailable
from bailiff_bus.topic_admin import create_topics
from bailiff_bus.topics import TOPICS
from bailiff_devstack.secure_kafka import HOSTS, SecureKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

GROUPS = sorted({group for principal in PRINCIPALS.values() for group in principal.groups})
DENIED = {"topic": 29, "group": 30, "cluster": 31, "transaction": 53}
every_role = pytest.mark.parametrize("role", PRINCIPALS)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A broker with all users, rights and topics. The operator creates the topics and adds a pool."""
    with SecureKafka(tmp_path_factory.mktemp("secure"), progress=print) as broker:
        asyncio.run(create_topics(broker.settings("operator"), pools=1))
        added = asyncio.run(create_topics(broker.settings("operator"), pools=2))
        assert added == [f"{topic}: partitions increased from 1 to 2" for topic in ("bailiff.audit", "bailiff.rollup-state")]
        yield broker


# --- the table: principal x resource x operation


@every_role
async def test_kafka_allows_what_the_table_grants_and_refuses_everything_else(secure: SecureKafka, role: str) -> None:
    """Each operation on each topic and group, and those on the cluster, by Kafka's own answer to the user."""
    async with access_admin(secure.settings(role)) as admin:
        allowed = await admin.allowed(list(TOPICS), GROUPS)
    granted = PRINCIPALS[role].allowed()
    cells = [Grant("topic", topic, operation) for topic in TOPICS for operation in TOPIC_OPERATIONS]
    cells += [Grant("group", group, operation) for group in GROUPS for operation in (Operation.READ, Operation.DELETE)]
    cells += [cell for cell in allowed | granted if cell not in cells]
    assert len(cells) >= 120
    assert {str(cell): cell in allowed for cell in cells} == {str(cell): cell in granted for cell in cells}


@every_role
async def test_what_is_not_granted_is_refused_when_it_is_tried(secure: SecureKafka, role: str) -> None:
    """Produce, fetch, read and change settings, delete, join and transactions, on every topic and group, over one connection."""
    granted = PRINCIPALS[role].allowed()
    async with connected_admin(secure.settings(role)) as admin:
        produced = await send(admin, ProduceRequest_v3, None, -1, 1000, [(topic, [(0, b"")]) for topic in TOPICS])
        fetched = await send(admin, FetchRequest_v4, -1, 0, 0, 1 << 20, 0, [(topic, [(0, 0, 1 << 20)]) for topic in TOPICS])
        tried = {Grant("topic", topic, Operation.WRITE): code for topic, ((_, code, *_),) in produced.topics}
        tried |= {Grant("topic", topic, Operation.READ): code for topic, ((_, code, *_),) in fetched.topics}
        for group in GROUPS:
            answer = await send(admin, HeartbeatRequest_v1, group, 1, "nobody", node=1)
            tried[Grant("group", group, Operation.READ)] = answer.error_code
        for answer in await admin.describe_configs([config(topic) for topic in TOPICS]):
            for code, _, _, topic, _ in answer.resources:
                tried[Grant("topic", topic, Operation.DESCRIBE_CONFIGS)] = code
        deleted = await admin.delete_topics([topic for topic in TOPICS if Grant("topic", topic, Operation.DELETE) not in granted])
        tried |= {Grant("topic", topic, Operation.DELETE): code for topic, code in deleted.topic_error_codes}
        transaction = await send(admin, InitProducerIdRequest_v0, "any", 1000)
    assert transaction.error_code == DENIED["transaction"]
    assert len(tried) == 4 * len(TOPICS) + len(GROUPS)
    refused = {str(grant): code == DENIED[grant.resource] for grant, code in tried.items()}
    assert refused == {str(grant): grant not in granted for grant in tried}


async def send(admin: AIOKafkaAdminClient, kind: Any, *fields: Any, node: int | None = None) -> Any:
    """The answer to one request."""
    if node is None:
        return await admin._send_request(request(kind, *fields))
    return await admin._send_request_to_node(node, request(kind, *fields))


def config(topic: str) -> Any:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    return ConfigResource(ConfigResourceType.TOPIC, topic)


async def test_a_user_without_a_role_may_do_nothing(secure: SecureKafka) -> None:
    """Somebody with a certificate of the same authority, whose name is in no table."""
    issue(secure.security, (), ["mallory"])
    async with access_admin(secure._with_certificate("mallory")) as admin:
        assert await admin.allowed(list(TOPICS), GROUPS) == frozenset()


# --- the bus and the checks say what is refused


async def test_the_bus_says_what_is_refused_and_to_whom(secure: SecureKafka) -> None:
    bus = KafkaBus(secure.settings("witness"))
    try:
        with pytest.raises(AccessDenied, match=r"denies access to user bailiff-witness.*bailiff\.requests"):
            await bus.spans("bailiff.requests")
        with pytest.raises(AccessDenied, match="bailiff-admission"):
            await bus.join("bailiff-admission", "bailiff.audit", None)
        with pytest.raises(AccessDenied):
            await bus.topic_settings("bailiff.audit")
    finally:
        await bus.close()
    bus = KafkaBus(secure.settings("console"))
    try:
        producer = await bus.producer()
        with pytest.raises(AccessDenied, match=r"bailiff\.audit"):
            await (await producer.send("bailiff.audit", b"forged"))
    finally:
        await bus.close()


async def test_doctor_names_the_missing_right_and_that_it_is_back(secure: SecureKafka) -> None:
    taken = Grant("topic", "bailiff.proposals", Operation.READ)
    rule = AccessRule("User:bailiff-admission", taken)
    assert (await access_check(secure.settings("admission")))["status"] == "ok"
    async with access_admin(secure.superuser()) as admin:
        await admin.delete([rule])
    found = await access_check(secure.settings("admission", "tls"))  # by the name in its certificate
    assert (found["status"], found["found"]) == ("wrong", f"bailiff-admission as admission lacks {taken}")
    assert found["advice"].endswith("bailiff security apply admission")
    (applied,) = await apply(secure.superuser(), [PRINCIPALS["admission"]], folder=None)
    assert applied.created == [str(taken)]
    assert (await access_check(secure.settings("admission")))["status"] == "ok"


async def test_doctor_warns_of_a_user_that_may_do_more(secure: SecureKafka) -> None:
    rule = AccessRule("User:bailiff-notifier", Grant("topic", "bailiff.node-commands", Operation.WRITE))
    async with access_admin(secure.superuser()) as admin:
        await admin.create([rule])
    found = await access_check(secure.settings("notifier"))
    assert found["status"] == "warn"
    assert str(rule.grant) in found["found"]
    (listed,) = await apply(secure.superuser(), [PRINCIPALS["notifier"]], folder=None)
    assert listed.extra == [str(rule.grant)]
    await apply(secure.superuser(), [PRINCIPALS["notifier"]], folder=None, prune=True)
    assert (await access_check(secure.settings("notifier")))["status"] == "ok"


@pytest.mark.parametrize("role", ["operator", "client"])
async def test_doctor_runs_with_few_rights(secure: SecureKafka, role: str) -> None:
    """What may not be read is skipped; the rest is checked. (There is no pool yet, which is wrong.)"""
    settings = ClientSettings(kafka=secure.settings(role))
    async with Client(KafkaBus(settings.kafka), source="doctor") as client:
        found = {check["check"]: check["status"] for check in await examine(client, settings)}
    assert (found["kafka"], found["access"], found["pools"]) == ("ok", "ok", "wrong")
    assert found["topics"] == ("ok" if role == "operator" else "skipped")
    assert found["service admission"] == ("wrong" if role == "operator" else "skipped")


async def test_who_sees_the_members_of_a_group_cannot_join_it(secure: SecureKafka) -> None:
    bus = KafkaBus(secure.settings("operator"))
    try:
        assert await bus.members("bailiff-admission") == {}
        with pytest.raises(AccessDenied, match="bailiff-admission"):
            await bus.join("bailiff-admission", "bailiff.audit", None)
    finally:
        await bus.close()


# --- authentication


async def test_a_renewed_certificate_is_used_from_the_next_connection_on(secure: SecureKafka, tmp_path: Path) -> None:
    """Under a running client: first a half-done renewal, then certificates of an unknown authority, then good ones."""
    issue(tmp_path / "unknown", HOSTS, ["auditor"])
    for name in ("ca.pem", "auditor.pem", "auditor.key"):
        (tmp_path / name).write_bytes((secure.security / name).read_bytes())
    files = {"cafile": tmp_path / "ca.pem", "certfile": tmp_path / "auditor.pem", "keyfile": tmp_path / "auditor.key"}
    bus = KafkaBus(secure.settings("auditor", "tls").model_copy(update=files))

    def replace(folder: Path, *names: str) -> None:
        for name in names:
            (tmp_path / f"{name}.new").write_bytes((folder / name).read_bytes())
            (tmp_path / f"{name}.new").replace(tmp_path / name)

    context = build_ssl_context(bus.settings)
    assert context is not None
    try:
        with pytest.MonkeyPatch.context() as patched:  # one context for all connections, as a service has for hours
            patched.setattr("bailiff_bus.kafka.errors.build_ssl_context", lambda _: context)
            await (await bus.producer()).close()
            replace(tmp_path / "unknown", "auditor.pem")
            await (await bus.producer()).close()
            replace(tmp_path / "unknown", "auditor.key")
            with pytest.raises(BusUnavailable):
                await bus.producer()
            issue(secure.security, HOSTS, ["auditor"], renew=True)
            replace(secure.security, "auditor.pem", "auditor.key")
            await (await bus.producer()).close()
    finally:
        await bus.close()


async def test_wrong_passwords_certificates_and_authorities_are_refused(secure: SecureKafka, tmp_path: Path) -> None:
    issue(tmp_path, HOSTS, ["admission"])
    scram, tls = secure.settings("admission", "scram"), secure.settings("admission", "tls")
    other = {"certfile": tmp_path / "admission.pem", "keyfile": tmp_path / "admission.key"}
    for settings in (
        scram.model_copy(update={"password": SecretStr("guessed")}),
        scram.model_copy(update={"cafile": tmp_path / "ca.pem"}),
        tls.model_copy(update={"certfile": None, "keyfile": None}),
        tls.model_copy(update=other),
        tls.model_copy(update={"bootstrap": tls.bootstrap.replace("127.0.0.1", "127.0.0.2")}),
    ):
        bus = KafkaBus(settings)
        with pytest.raises((BusUnavailable, ssl.SSLError)):
            await bus.spans("bailiff.audit")
        await bus.close()
