"""Exit codes of `bailiff` commands, and the errors of the client: each with text, advice and exit code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Self

from bailiff_service.exit_code import ExplainedCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ExitCode(ExplainedCode):
    """Exit codes of `bailiff` commands."""

    DONE = 0, "Done; with --wait: the job succeeded."
    FOUND_WRONG = 1, "A check failed: audit verify, replay, check-proof, check-receipt; policy check, doctor."
    USAGE = 2, "Invalid command line, file or setting."
    REJECTED = 3, "Admission rejected the request; the reason was printed."
    UNREACHABLE = 4, "Kafka or the HTTP API is unreachable, or did not respond in time."
    NOT_FOUND = 5, "No such job, node, pool, record or topic; no seal yet."
    NO_ANSWER = 6, "The request was published, but there was no response in time; it may still take effect."
    UNREADABLE = 7, "The log, or a receipt, has something that this release cannot read, or is inconsistent."
    ENGINE_MISSING = 8, "audit replay: no difference, but part of the log was not replayed because its engine is not stored here."
    TO_JUDGE = 9, "With --strict: audit verify or audit replay found no fault, but something that a person has to judge."
    JOB_FAILED = 10, "With --wait: the job failed or was evicted for good."
    JOB_CANCELLED = 11, "With --wait: the job was cancelled."
    INTERNAL = 70, "Internal error; please report it."
    INTERRUPTED = 130, "Interrupted by Ctrl-C; published requests remain in effect."


class ClientError(Exception):
    """The base of the client's errors, and what ends a command.

    Attributes:
        text: What is wrong and where.
        advice: What to do.
    """

    def __init__(self, exit_code: ExitCode, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.exit_code, self.text, self.advice = exit_code, text, advice


class InvalidRequest(ClientError):
    """A value that cannot be sent: of a job, a filter or a setting.

    Attributes:
        faults: One sentence each.
    """

    def __init__(self, faults: Sequence[str], advice: str = "") -> None:
        super().__init__(ExitCode.USAGE, "\n".join(faults), advice)
        self.faults = tuple(faults)


class Rejected(ClientError):
    """Admission rejected a request.

    Attributes:
        code: The code, as in the table of rejections.
        seq: Number of the record of the rejection in the pool's log.
    """

    def __init__(self, code: str, reason: str, *, job: str = "", pool: str = "", seq: int = -1, advice: str = "") -> None:
        where = f"{job}: " if job else ""
        super().__init__(ExitCode.REJECTED, f"{where}rejected at {pool}#{seq}: {reason} ({code})", advice)
        self.code, self.reason, self.job, self.pool, self.seq = code, reason, job, pool, seq


class JobRejected(Rejected):
    """Admission rejected the submission of a job."""


class NotPermitted(Rejected):
    """Admission rejected a request because of who sent it."""


NAMES_COMPARED = 5_000
"""Of many names the newest are compared with an unknown one: all take seconds."""
NOT_PERMITTED = ("not-permitted", "auth-not-accepted", "unknown-key", "bad-signature", "wrong-actor", "not-signed")


class _WithCode(ClientError):
    """A kind of error that always has the same exit code."""

    CODE: ClassVar[ExitCode]
    ADVICE: ClassVar[str] = ""

    def __init__(self, text: str, advice: str | None = None) -> None:
        super().__init__(self.CODE, text, self.ADVICE if advice is None else advice)


class UsageError(_WithCode):
    """The command line, a file or a setting is invalid."""

    CODE = ExitCode.USAGE


class CheckFailed(_WithCode):
    """What was read is not as it has to be."""

    CODE = ExitCode.FOUND_WRONG


class NotAsSealed(CheckFailed):
    """The log begins with other records than those that were sealed."""

    def __init__(self, records: int) -> None:
        super().__init__(f"the log's first {records} records are not those that were sealed", "see: bailiff audit verify")


class NotFound(_WithCode):
    """What was asked for does not exist; most of its types say so of a name.

    Attributes:
        KIND: What a name of this kind stands for.
        ALL: The command that lists all.
        REJECTION: The code with which admission rejects an unknown name.
        FIELD: The field of a request that has the name.
    """

    CODE = ExitCode.NOT_FOUND
    KIND: ClassVar[str]
    ALL: ClassVar[str]
    REJECTION: ClassVar[str] = ""
    FIELD: ClassVar[str] = ""

    @classmethod
    def named(cls, name: str, known: Iterable[str], pool: str = "") -> Self:
        """The error for a name that is none of the known ones of this pool."""
        return cls(f"there is no {cls.KIND} {name!r}" + (f" in {pool}" if pool else ""), cls.hint(name, known))

    @classmethod
    def hint(cls, name: str, known: Iterable[str]) -> str:
        """The known name that is closest, or some of them, and how to list all."""
        from bailiff_core.model.references import suggest

        return f"{suggest(name, list(known)[-NAMES_COMPARED:])} (all: {cls.ALL})"


class JobNotFound(NotFound):
    """There is no such job in the pool."""

    KIND, ALL, REJECTION, FIELD = "job", "bailiff list --all", "no-such-job", "job"


class NodeNotFound(NotFound):
    """There is no such node in the pool."""

    KIND, ALL, REJECTION, FIELD = "node", "bailiff nodes", "no-such-node", "node"


class PoolNotFound(NotFound):
    """There is no such pool, or none has a log yet."""

    KIND, ALL = "pool", "bailiff pools"


class ProjectNotFound(NotFound):
    """There is no such project in the policy."""

    KIND, ALL, REJECTION, FIELD = "project", "bailiff project list", "unknown-project", "project"


class ClassNotFound(NotFound):
    """There is no such priority class in the policy."""

    KIND, ALL, REJECTION, FIELD = "priority class", "bailiff class list", "unknown-class", "priority_class"


class UserNotFound(NotFound):
    """No job of the pool was ever of such a user."""

    KIND, ALL = "user", "bailiff accounting --by user"


class Unreachable(_WithCode):
    """Kafka or the HTTP API does not respond."""

    CODE = ExitCode.UNREACHABLE


class NoAnswer(_WithCode, TimeoutError):
    """A request was published, and admission has not responded in time. It may still take effect."""

    CODE = ExitCode.NO_ANSWER


class Timeout(_WithCode, TimeoutError):
    """A job has not ended within the time given to `wait`. The job is not affected."""

    CODE = ExitCode.NO_ANSWER


class JobFailed(ClientError):
    """A job that was waited for ended, and not by success.

    Attributes:
        outcome: `failed`, `cancelled`, `evicted` or `timed-out`.
        output: The last lines of its last attempt; empty where they could not be read.
    """

    def __init__(self, job: str, outcome: str, reason: str = "", output: Sequence[str] = ()) -> None:
        code = ExitCode.JOB_CANCELLED if outcome == "cancelled" else ExitCode.JOB_FAILED
        advice = f"its output: bailiff logs {job}"
        super().__init__(code, f"{job} {outcome}" + (f": {reason}" if reason else ""), advice)
        self.job, self.outcome, self.reason, self.output = job, outcome, reason, tuple(output)

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"  | {line}" for line in self.output), self.advice])


class UnreadableLog(_WithCode):
    """The log is truncated or inconsistent, or has records that this release cannot read."""

    CODE, ADVICE = ExitCode.UNREADABLE, "see: bailiff audit verify"


def how_to_reach(*settings: str) -> str:
    """What to do where Bailiff does not answer, or its address is not known.

    Args:
        settings: What sets the address.
    """
    where = " or ".join(settings)
    return f"to start Bailiff on this machine: make up; it prints the line that sets its address. Another address: {where}"


def as_client_error(error: Exception) -> ClientError | None:
    """The error as one of the client's; None for an internal error."""
    if isinstance(error, ClientError):
        return error
    from bailiff_bus.port import BusUnavailable, OffsetOutOfRange
    from bailiff_core.records.wire import UnreadableRecord
    from bailiff_log.archive import ArchiveError
    from bailiff_log.projection import StateDiverged
    from bailiff_service.settings import SettingsError

    match error:
        case SettingsError():
            return InvalidRequest([f"settings: {sentence}" for sentence in error.sentences])
        case BusUnavailable():
            text = re.sub(r"KafkaConnectionError: Unable to bootstrap from \[.*\]", "no connection", str(error))
            return Unreachable(text, how_to_reach("--kafka HOST:PORT", "BAILIFF_KAFKA__BOOTSTRAP"))
        case OffsetOutOfRange():
            return UnreadableLog(f"the log is truncated: {error}")
        case UnreadableRecord():
            return UnreadableLog(f"the log cannot be read further: {error}")
        case StateDiverged():
            return UnreadableLog(str(error), "see: bailiff audit replay")
        case ArchiveError():
            return ClientError(ExitCode.UNREACHABLE, f"the archive: {error}")
        case _:
            return None
