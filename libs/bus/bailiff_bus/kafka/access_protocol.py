"""Requests of Kafka's protocol that aiokafka lacks: access lists, SCRAM users, authorized operations, ids of topics.

The layouts are Kafka's, at the versions in the class names. With them one client library, with one set of connection
settings, is enough: no second one (librdkafka) is needed for a few requests.
"""

from collections.abc import Iterable
from io import BytesIO
from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.admin import (
    CreateAclsRequest_v1,
    DeleteAclsRequest_v1,
    DescribeAclsRequest_v1,
    DescribeGroupsRequest_v3,
    DescribeGroupsResponse_v3,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

COMPACT_TEXT, TAGS = CompactString("utf-8"), ("tags", TaggedFields)


class AlterUserScramCredentialsResponse_v0(Response):  # type: ignore[misc]  # noqa: N801
    API_KEY = 51
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(("user", COMPACT_TEXT), ("error_code", Int16), ("error_message", COMPACT_TEXT), TAGS),
        ),
        TAGS,
    )


class AlterUserScramCredentialsRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801
    FLEXIBLE_VERSION = True
    API_KEY = 51
    API_VERSION = 0
    RESPONSE_TYPE = AlterUserScramCredentialsResponse_v0
    SCHEMA = Schema(
        ("deletions", CompactArray(("name", COMPACT_TEXT), ("mechanism", Int8), TAGS)),
        (
            "upsertions",
            CompactArray(
                ("name", COMPACT_TEXT),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                TAGS,
            ),
        ),
        TAGS,
    )


class Uuid(AbstractType[bytes]):  # type: ignore[misc]
    """16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """As they are."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """As they are."""
        return data.read(16)


class MetadataResponse_v10(Response):  # type: ignore[misc]  # noqa: N801
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(("node_id", Int32), ("host", COMPACT_TEXT), ("port", Int32), ("rack", COMPACT_TEXT), TAGS)),
        ("cluster_id", COMPACT_TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", COMPACT_TEXT),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                TAGS,
            ),
        ),
        ("cluster_authorized_operations", Int32),
        TAGS,
    )


class MetadataRequest_v10(RequestStruct):  # type: ignore[misc]  # noqa: N801
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = MetadataResponse_v10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("topic", COMPACT_TEXT), TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        TAGS,
    )


def named_topics(names: Iterable[str]) -> list[tuple[bytes, str, dict[int, bytes]]]:
    """The topics of a `MetadataRequest_v10`, by their names."""
    return [(bytes(16), name, {}) for name in names]


class DescribeGroupsAuthorizedRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """As aiokafka's, which declares version 2 of the response."""

    API_KEY = DescribeGroupsRequest_v3.API_KEY
    API_VERSION = DescribeGroupsRequest_v3.API_VERSION
    RESPONSE_TYPE = DescribeGroupsResponse_v3
    SCHEMA = DescribeGroupsRequest_v3.SCHEMA


class _Fixed(Request[Any]):  # type: ignore[misc]
    """Sends one prepared request, at its own version."""

    API_KEY = -1

    def __init__(self, prepared: RequestStruct) -> None:
        self._prepared = prepared
        self.API_KEY = prepared.API_KEY

    def build(self, request_struct_class: Any) -> Any:  # noqa: ARG002 - aiokafka's signature
        return self._prepared

    def prepare(self, versions: Any) -> Any:  # noqa: ARG002
        return self._prepared


def request(kind: type[RequestStruct], *fields: Any) -> Request[Any]:
    """A request of exactly this version with these fields."""
    return _Fixed(kind(*fields))


__all__ = [
    "AlterUserScramCredentialsRequest_v0",
    "CreateAclsRequest_v1",
    "DeleteAclsRequest_v1",
    "DescribeAclsRequest_v1",
    "DescribeGroupsAuthorizedRequest_v3",
    "MetadataRequest_v10",
    "named_topics",
    "request",
]
