"""The registry of topics, its limits, and the start-up check."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from bailiff_bus import topics
from bailiff_bus.grants import readers
from bailiff_bus.topics import Topic
from bailiff_core.model.message import MESSAGE_TYPES

ROOT = Path(__file__).parents[3]


def test_every_message_type_has_one_topic_and_no_topic_holds_unknown_ones() -> None:
    listed = [schema for topic in topics.TOPICS.values() for schema in topic.schemas if schema.startswith("bailiff.")]
    assert sorted(listed) == sorted(MESSAGE_TYPES)


@pytest.mark.parametrize("topic", topics.TOPICS.values(), ids=lambda topic: topic.name)
def test_readers_of_every_topic_want_a_signature_or_there_is_a_reason(topic: Topic) -> None:
    """And whatever a service reads says which test shows what becomes of the rest."""
    tests = re.findall(r"`(tests/[^`]+)`", topic.otherwise)
    assert [each for each in tests if not (ROOT / each).is_file()] == []
    assert not topic.signed_by.startswith("nobody") or ":" in topic.signed_by
    services = set(readers(topic)) - {"console", "client", "operator"}
    assert tests or topic.otherwise == "as proposals" or not services


def test_the_audit_log_is_kept_for_ever() -> None:
    settings = topics.AUDIT.settings_for(brokers=1)
    assert settings["cleanup.policy"] == "delete"
    assert settings["retention.ms"] == settings["retention.bytes"] == "-1"
    assert settings["flush.messages"] == "1"
    assert "flush.messages" not in topics.AUDIT.settings_for(brokers=3)
    assert topics.AUDIT.settings_for(brokers=3)["min.insync.replicas"] == "2"


def test_only_the_audit_topic_pays_for_flushing() -> None:
    assert [topic for topic in topics.TOPICS.values() if "flush.messages" in topic.settings_for(1)] == [topics.AUDIT]


def test_append_times_are_the_brokers_everywhere() -> None:
    assert {topic.settings_for(1)["message.timestamp.type"] for topic in topics.TOPICS.values()} == {"LogAppendTime"}


def test_partitions_and_retention() -> None:
    assert topics.AUDIT.partition_count(pools=7) == 7
    assert topics.ALARMS.partition_count(pools=7) == 1
    assert topics.REQUESTS.retention == timedelta(days=30)
    assert topics.REQUESTS.settings_for(1)["retention.ms"] == str(30 * 24 * 3600 * 1000)
    assert topics.JOB_SPECS.settings_for(1)["cleanup.policy"] == "compact"


def good(brokers: int) -> dict[str, str]:
    return topics.AUDIT.settings_for(brokers) | {"replication": "3" if brokers >= 3 else "1"}


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_what_we_create_passes_the_check(brokers: int) -> None:
    assert topics.check_audit_settings(good(brokers), brokers) == []


def test_more_than_needed_passes() -> None:
    more = {"replication": "5", "min.insync.replicas": "3", "max.message.bytes": "4000000"}
    assert topics.check_audit_settings(good(5) | more, 5) == []


@pytest.mark.parametrize(
    ("brokers", "name", "value", "sentence"),
    [
        (1, "cleanup.policy", "compact", "bailiff.audit: cleanup.policy is compact, expected delete."),
        (1, "retention.ms", "604800000", "bailiff.audit: retention.ms is 604800000, expected -1."),
        (1, "retention.bytes", "1", "bailiff.audit: retention.bytes is 1, expected -1."),
        (
            1,
            "message.timestamp.type",
            "CreateTime",
            "bailiff.audit: message.timestamp.type is CreateTime, expected LogAppendTime.",
        ),
        (1, "flush.messages", "9223372036854775807", "bailiff.audit: flush.messages is 9223372036854775807, expected 1."),
        (3, "unclean.leader.election.enable", "true", "bailiff.audit: unclean.leader.election.enable is true, expected false."),
        (3, "replication", "1", "bailiff.audit: replication is 1, expected at least 3."),
        (3, "min.insync.replicas", "1", "bailiff.audit: min.insync.replicas is 1, expected at least 2."),
        (1, "max.message.bytes", "1000", "bailiff.audit: max.message.bytes is 1000, expected at least 937984."),
    ],
)
def test_each_wrong_setting_is_a_sentence(brokers: int, name: str, value: str, sentence: str) -> None:
    assert topics.check_audit_settings(good(brokers) | {name: value}, brokers) == [sentence]


@pytest.mark.parametrize("living", [1, 2])
def test_a_broker_that_is_away_asks_for_no_other_settings(living: int) -> None:
    assert topics.check_audit_settings(good(3), living) == []
    assert topics.check_audit_settings(good(3) | {"min.insync.replicas": "1"}, living) == [
        "bailiff.audit: min.insync.replicas is 1, expected at least 2."
    ]


def test_settings_that_are_missing_are_wrong() -> None:
    assert len(topics.check_audit_settings({}, 3)) == 8


def test_sizes_count_key_headers_and_value() -> None:
    limit = topics.AUDIT_LIMIT
    topics.check_size(topics.AUDIT.name, b"k", (("h", b"vv"),), bytes(limit - 4))
    with pytest.raises(ValueError, match=r"exceeds the limit of bailiff\.audit, 921600"):
        topics.check_size(topics.AUDIT.name, b"k", (("h", b"vv"),), bytes(limit - 3))
