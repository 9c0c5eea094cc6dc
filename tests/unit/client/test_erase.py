"""`bailiff audit erase --job`: erases the spec of an ended job at once."""

import pytest
from tests.unit.client.kit import LogWriter, Run, quiet_story

from bailiff.client.errors import ExitCode
from bailiff_bus import topics
from bailiff_core.model.job_spec import JobSpec

ENDED, RUNNING = b"pool-a/done-1/" + b"a" * 64, b"pool-a/train-7/" + b"a" * 64


@pytest.fixture
def log_writer() -> LogWriter:
    made = quiet_story(LogWriter())
    for key in (ENDED, RUNNING):
        spec = JobSpec(command=("train", "--for", "Ada")).to_json()
        made.cluster.store(topics.JOB_SPECS.name, 0, key, (), b'{"salt":"00","spec":%b}' % spec)
    return made


def newest(log_writer: LogWriter) -> dict[bytes | None, bytes]:
    """Messages that remain after Kafka has compacted the topic."""
    partitions = range(topics.JOB_SPECS.partition_count(1))
    return {message.key: message.value for at in partitions for message in log_writer.cluster.messages(topics.JOB_SPECS.name, at)}


def test_the_spec_of_an_ended_job_is_erased_and_the_log_stays_valid(bailiff: Run, log_writer: LogWriter) -> None:
    result = bailiff("audit", "erase", "--job", "done-1")
    assert result.exit_code == ExitCode.DONE
    assert "bailiff.requests (for 30d)" in result.output
    assert newest(log_writer)[ENDED] == b""
    assert b"Ada" in newest(log_writer)[RUNNING]
    assert bailiff("audit", "verify").exit_code == ExitCode.DONE
    assert bailiff("audit", "replay").exit_code == ExitCode.DONE
    assert bailiff("audit", "erase", "--job", "done-1").exit_code == ExitCode.NOT_FOUND


def test_the_spec_of_a_running_job_is_not_erased(bailiff: Run, log_writer: LogWriter) -> None:
    refused = bailiff("audit", "erase", "--job", "train-7")
    assert refused.exit_code == ExitCode.USAGE
    assert "bailiff cancel train-7" in refused.output
    assert b"Ada" in newest(log_writer)[RUNNING]
    assert bailiff("audit", "erase", "--job", "nobody").exit_code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    "options", [(), ("--actor", "u-7"), ("--actor", "u-7", "--job", "done-1"), ("--archive", "x", "--job", "y")]
)
def test_invalid_erase_targets_are_rejected(options: tuple[str, ...], bailiff: Run) -> None:
    assert bailiff("audit", "erase", *options).exit_code == ExitCode.USAGE
