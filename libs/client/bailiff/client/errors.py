"""Exit codes of `bailiff` commands, and the error that ends one: text, advice, exit code."""

from bailiff_service.exit_code import ExplainedCode


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
    """An error that ends a command. text: what is wrong and where; advice: what to do."""

    def __init__(self, code: ExitCode, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.advice = code, text, advice
