"""Access lists and SCRAM users in Kafka, and what the connected user may do."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, for_code

from bailiff_bus.grants import CLUSTER, Grant, Operation, ResourceType
from bailiff_bus.kafka_settings import KafkaSettings

from .access_protocol import (
    AlterUserScramCredentialsRequest_v0,
    CreateAclsRequest_v1,
    DeleteAclsRequest_v1,
    DescribeAclsRequest_v1,
    DescribeGroupsAuthorizedRequest_v3,
    MetadataRequest_v10,
    named_topics,
    request,
)
from .admin import connected_admin
from .group_membership import COORDINATOR_STARTS, RETRY_S

SCRAM_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
ITERATIONS = 8192  # Kafka's tools use 4096, the minimum
RESOURCES: Mapping[ResourceType, int] = {"topic": 2, "group": 3, "cluster": 4}
ANY, LITERAL, ALLOW = 1, 3, 3
OPERATIONS = frozenset(map(int, Operation))


@dataclass(frozen=True, slots=True, order=True)
class AccessRule:
    """One entry of the access lists: it allows `grant` to the principal, such as `User:bailiff-admission`, from any host."""

    principal: str
    grant: Grant


@asynccontextmanager
async def access_admin(settings: KafkaSettings) -> AsyncIterator["AccessAdmin"]:
    """A connection for a few calls. Raises `BusUnavailable`."""
    async with connected_admin(settings, "answer about access lists") as admin:
        yield AccessAdmin(admin)


class AccessAdmin:
    """Reads and changes access lists and users; asks for the connected user's rights. Changes need Alter on the cluster."""

    def __init__(self, admin: AIOKafkaAdminClient) -> None:
        self._admin = admin

    async def rules(self, principal: str) -> frozenset[AccessRule]:
        """The principal's rules that allow something from any host on a literal name of a topic, a group or the cluster."""
        answer = await self._send(DescribeAclsRequest_v1, ANY, None, LITERAL, principal, None, ANY, ALLOW)
        _check(answer.error_code, answer.error_message)
        types = {number: name for name, number in RESOURCES.items()}
        return frozenset(
            AccessRule(principal, Grant(types[resource], name, Operation(operation)))
            for resource, name, _, entries in answer.resources
            for _, host, operation, _ in entries
            if resource in types and host == "*" and operation in OPERATIONS
        )

    async def create(self, rules: Iterable[AccessRule]) -> None:
        """Create the rules; existing ones stay."""
        answer = await self._send(CreateAclsRequest_v1, [(*_where(rule), ALLOW) for rule in rules])
        for code, text in answer.creation_responses:
            _check(code, text)

    async def delete(self, rules: Iterable[AccessRule]) -> None:
        answer = await self._send(DeleteAclsRequest_v1, [(*_where(rule), ALLOW) for rule in rules])
        for code, text, *_ in answer.filter_responses:
            _check(code, text)

    async def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """Create the SCRAM user, or change its password. Kafka gets a salted hash, never the password."""
        number, digest = SCRAM_MECHANISMS[mechanism]
        salt = secrets.token_bytes(32)
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS)
        answer = await self._send(AlterUserScramCredentialsRequest_v0, [], [(user, number, ITERATIONS, salt, salted, {})], {})
        for _, code, text, _ in answer.results:
            _check(code, text)

    async def allowed(self, topics: Collection[str], groups: Collection[str] = ()) -> frozenset[Grant]:
        """What the connected user may do on these topics and groups, and on the cluster, by Kafka's own answer.

        A topic that does not exist counts as one on which nothing is allowed.
        """
        answer = await self._send(MetadataRequest_v10, named_topics(topics), False, True, True, {})
        found = {Grant("cluster", CLUSTER, each) for each in _operations(answer.cluster_authorized_operations)}
        for code, topic, _, _, _, operations, _ in answer.topics:
            found |= {Grant("topic", topic, each) for each in _operations(operations) if not code}
        for group in groups:
            found |= {Grant("group", group, each) for each in await self._allowed_on_group(group)}
        return frozenset(found)

    async def _allowed_on_group(self, group: str) -> frozenset[Operation]:
        while True:
            try:
                coordinator = await self._admin.find_coordinator(group)
                answer = await self._send(DescribeGroupsAuthorizedRequest_v3, [group], True, node=coordinator)
                ((code, *_, operations),) = answer.groups
                _check(code, group)
            except GroupAuthorizationFailedError:
                return frozenset()
            except COORDINATOR_STARTS:  # the first question about a group makes Kafka create the topic of groups
                await asyncio.sleep(RETRY_S)
            else:
                return _operations(operations)

    async def _send(self, kind: Any, *fields: Any, node: int | None = None) -> Any:
        if node is None:
            return await self._admin._send_request(request(kind, *fields))
        return await self._admin._send_request_to_node(node, request(kind, *fields))


def _where(rule: AccessRule) -> tuple[int, str, int, str, str, int]:
    grant = rule.grant
    return RESOURCES[grant.resource], grant.name, LITERAL, rule.principal, "*", int(grant.operation)


def _operations(bits: int) -> frozenset[Operation]:
    """The operations in Kafka's bit field; the smallest number stands for none."""
    return frozenset(each for each in Operation if bits >= 0 and bits >> each & 1)


def _check(code: int, text: str | None) -> None:
    if code:
        error = for_code(code)
        raise error(text or error.description)
