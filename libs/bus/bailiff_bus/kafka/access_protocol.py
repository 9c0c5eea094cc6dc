"""Requests of Kafka's protocol that aiokafka's administration client lacks: access lists, SCRAM users, authorized operations.

The layouts are Kafka's, at the versions in the class names. With them one client library, with one set of connection
settings, is enough: no second one (librdkafka) is needed for a few requests.
"""

from typing import Any

from aiokafka.protocol.admin import (
    CreateAclsRequest_v1,
    DeleteAclsRequest_v1,
    DescribeAclsRequest_v1,
    DescribeGroupsRequest_v3,
    DescribeGroupsResponse_v3,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

TEXT, COMPACT_TEXT = String("utf-8"), CompactString("utf-8")


class AlterUserScramCredentialsResponse_v0(Response):  # type: ignore[misc]  # noqa: N801
    API_KEY = 51
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(("user", COMPACT_TEXT), ("error_code", Int16), ("error_message", COMPACT_TEXT), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )


class AlterUserScramCredentialsRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801
    FLEXIBLE_VERSION = True
    API_KEY = 51
    API_VERSION = 0
    RESPONSE_TYPE = AlterUserScramCredentialsResponse_v0
    SCHEMA = Schema(
        ("deletions", CompactArray(("name", COMPACT_TEXT), ("mechanism", Int8), ("tags", TaggedFields))),
        (
            "upsertions",
            CompactArray(
                ("name", COMPACT_TEXT),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class MetadataResponse_v8(Response):  # type: ignore[misc]  # noqa: N801
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", TEXT), ("port", Int32), ("rack", TEXT))),
        ("cluster_id", TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class MetadataRequest_v8(RequestStruct):  # type: ignore[misc]  # noqa: N801
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = MetadataResponse_v8
    SCHEMA = Schema(
        ("topics", Array(TEXT)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


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
    "MetadataRequest_v8",
    "request",
]
