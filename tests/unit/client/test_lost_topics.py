"""What a reader says where Kafka no longer has the log: its retention has passed, or the topic was deleted and made again."""

from collections.abc import Callable

import pytest
from tests.kits.tampering import seals_of
from tests.unit.client.chains import log
from tests.unit.client.kit import LogWriter, Run, finished_story

from bailiff.client.errors import ExitCode
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_log.keys import key_id

SEAL = bytes([7]) * 32
Loss = Callable[[LogWriter], None]


def retention_passed(log_writer: LogWriter) -> None:
    log_writer.cluster.trim(topics.AUDIT.name, 0, 9)


def all_deleted(log_writer: LogWriter) -> None:
    log_writer.cluster.trim(topics.AUDIT.name, 0, len(log_writer.records))


def begun_anew(log_writer: LogWriter) -> None:
    """Admission finds an empty topic, and begins a log of its own."""
    log_writer.cluster.truncate(topics.AUDIT.name, 0, 0)
    other = LogWriter(cluster=log_writer.cluster)
    other.now += 1
    other.begin()


def seals_deleted(log_writer: LogWriter) -> None:
    for number in range(len(log_writer.cluster.partitions(topics.SEALS.name))):
        log_writer.cluster.trim(topics.SEALS.name, number, 1_000)


@pytest.fixture
def log_writer() -> LogWriter:
    made = finished_story(LogWriter())
    for number, body in enumerate(seals_of(log(made), SEAL)):
        headers, value = wrap(body, source="/auditor", id=str(number), pool="pool-a", time_us=made.now)
        made.cluster.store(topics.SEALS.name, 0, b"pool-a", headers, value)
    return made


GONE = "the first records in partition 0 of bailiff.audit are gone"
LOSSES: dict[str, tuple[Loss, ExitCode, str]] = {
    "retention passed": (retention_passed, ExitCode.UNREADABLE, GONE),
    "all deleted": (all_deleted, ExitCode.UNREADABLE, GONE),
    "deleted and begun anew": (begun_anew, ExitCode.FOUND_WRONG, "55 records were sealed, but the log ends at record 2"),
    "its seals deleted": (seals_deleted, ExitCode.FOUND_WRONG, "no seal is signed by a trusted key"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_verification_says_what_is_missing(name: str, bailiff: Run, log_writer: LogWriter) -> None:
    assert bailiff("audit", "verify", "--trust", key_id(SEAL)).exit_code == ExitCode.DONE
    loss, code, says = LOSSES[name]
    loss(log_writer)
    found = bailiff("audit", "verify", "--trust", key_id(SEAL))
    assert found.exit_code == code
    assert says in " ".join(found.output.split())


@pytest.mark.parametrize("loss", [retention_passed, all_deleted])
@pytest.mark.parametrize("command", [("list",), ("explain", "train-7"), ("audit", "tail")])
def test_other_commands_do_not_show_a_part_of_the_log_as_the_whole(
    command: tuple[str, ...], loss: Loss, bailiff: Run, log_writer: LogWriter
) -> None:
    loss(log_writer)
    found = bailiff(*command)
    assert found.exit_code == ExitCode.UNREADABLE
    assert GONE in " ".join(found.output.split())
