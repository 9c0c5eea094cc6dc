"""Exit codes of `bailiff` commands, and the errors of the client: each with text, advice and exit code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bailiff_service.exit_code import ExplainedCode

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(ExplainedCode):
    """Exit codes of `bailiff` commands."""

    DONE = 0, "Done; with --wait: the job succeeded."
    FOUND_WRONG = 1, "A check failed: audit verify, audit replay, policy check, doctor."
    USAGE = 2, "Invalid command line, file or setting."
    REJECTED = 3, "Admission rejected the request; the reason was printed."
    UNREACHABLE = 4, "Kafka or the query interface is unreachable, or did not respond in time."
    NOT_FOUND = 5, "No such job, node, pool, record or topic."
    NO_ANSWER = 6, "The request was published, but there was no response in time; it may still take effect."
    UNREADABLE = 7, "The log contains a record that this release cannot read, or is inconsistent."
    ENGINE_MISSING = 8, "audit replay: no difference, but part of the log was not replayed because its engine is not stored here."
    JOB_FAILED = 10, "With --wait: the job failed or was evicted for good."
    JOB_CANCELLED = 11, "With --wait: the job was cancelled."
    INTERNAL = 70, "Internal error; please report it."
    INTERRUPTED = 130, "Interrupted by Ctrl-C; published requests remain in effect."


class ClientError(Exception):
    """The base of the client's errors, and what ends a command. text: what is wrong and where; advice: what to do."""

    def __init__(self, exit_code: ExitCode, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.exit_code, self.text, self.advice = exit_code, text, advice


class InvalidRequest(ClientError):
    """A value that cannot be sent: of a job, a filter or a setting. faults: one sentence each."""

    def __init__(self, faults: Sequence[str], advice: str = "") -> None:
        super().__init__(ExitCode.USAGE, "\n".join(faults), advice)
        self.faults = tuple(faults)


class Rejected(ClientError):
    """Admission rejected a request. code: as in the table of rejections; seq: of the record in the pool's log."""

    def __init__(self, code: str, reason: str, *, job: str = "", pool: str = "", seq: int = -1) -> None:
        where = f"{job}: " if job else ""
        super().__init__(ExitCode.REJECTED, f"{where}rejected at {pool}#{seq}: {reason} ({code})")
        self.code, self.reason, self.job, self.pool, self.seq = code, reason, job, pool, seq


class JobRejected(Rejected):
    """Admission rejected the submission of a job."""


class NotPermitted(Rejected):
    """Admission rejected a request because of who sent it."""


NOT_PERMITTED = ("not-permitted", "auth-not-accepted", "unknown-key", "bad-signature", "wrong-actor", "not-signed")


class JobNotFound(ClientError):
    """There is no such job in the pool."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(ExitCode.NOT_FOUND, text, advice)


class PoolNotFound(ClientError):
    """There is no such pool, or none has a log yet."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(ExitCode.NOT_FOUND, text, advice)


class ProjectNotFound(ClientError):
    """There is no such project in the policy."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(ExitCode.NOT_FOUND, text, advice)


class Unreachable(ClientError):
    """Kafka or the query interface does not respond."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(ExitCode.UNREACHABLE, text, advice)


class NoAnswer(ClientError, TimeoutError):
    """A request was published, and admission has not responded in time. It may still take effect."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(ExitCode.NO_ANSWER, text, advice)


class Timeout(ClientError, TimeoutError):
    """A job has not ended within the time given to `wait`. The job is not affected."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(ExitCode.NO_ANSWER, text, advice)


class JobFailed(ClientError):
    """A job that was waited for ended, and not by success. outcome: failed, cancelled, evicted or timed-out."""

    def __init__(self, job: str, outcome: str, reason: str = "") -> None:
        code = ExitCode.JOB_CANCELLED if outcome == "cancelled" else ExitCode.JOB_FAILED
        super().__init__(code, f"{job} {outcome}" + (f": {reason}" if reason else ""), f"its output: bailiff logs {job}")
        self.job, self.outcome, self.reason = job, outcome, reason


class UnreadableLog(ClientError):
    """The log is truncated or inconsistent, or has records that this release cannot read."""

    def __init__(self, text: str, advice: str = "see: bailiff audit verify") -> None:
        super().__init__(ExitCode.UNREADABLE, text, advice)


def as_client_error(error: Exception) -> ClientError | None:
    """The error as one of the client's; None for an internal error."""
    if isinstance(error, ClientError):
        return error
    from bailiff_bus.port import BusUnavailable, OffsetOutOfRange
    from bailiff_core.records.wire import UnreadableRecord
    from bailiff_log.projection import StateDiverged
    from bailiff_service.settings import SettingsError

    match error:
        case SettingsError():
            return InvalidRequest([f"settings: {sentence}" for sentence in error.sentences])
        case BusUnavailable():
            advice = (
                "check that Kafka is running; set its address: --kafka HOST:PORT or BAILIFF_KAFKA__BOOTSTRAP; see: bailiff doctor"
            )
            text = re.sub(r"KafkaConnectionError: Unable to bootstrap from \[.*\]", "no connection", str(error))
            return Unreachable(text, advice)
        case OffsetOutOfRange():
            return UnreadableLog(f"the log is truncated: {error}")
        case UnreadableRecord():
            return UnreadableLog(f"the log cannot be read further: {error}")
        case StateDiverged():
            return UnreadableLog(str(error), "see: bailiff audit replay")
        case _:
            return None
