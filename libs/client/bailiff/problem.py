"""What can go wrong for the person in front of the terminal: one sentence, one piece of advice, one exit code."""

from bailiff_bus.exit_code import ExplainedCode


class ExitCode(ExplainedCode):
    """What the end of a `bailiff` command says to whoever started it."""

    DONE = 0, "Done; with --wait: the job succeeded."
    FOUND_WRONG = 1, "A check found something wrong: audit verify, audit replay, policy check, doctor."
    USAGE = 2, "The command line, a file or a setting does not fit."
    REJECTED = 3, "Admission rejected the request; the reason was printed."
    UNREACHABLE = 4, "Kafka or the query interface cannot be reached, or did not answer in time."
    NOT_FOUND = 5, "There is no such job, node, pool, record or topic."
    NO_ANSWER = 6, "The request is in Kafka, but nobody answered in time; it may still take effect."
    UNREADABLE = 7, "The log holds something that this release cannot read, or that contradicts itself."
    ENGINE_MISSING = 8, "audit replay: nothing differs, but a part of the log was not decided again: its engine is not kept here."
    JOB_FAILED = 10, "With --wait: the job failed or was evicted for good."
    JOB_CANCELLED = 11, "With --wait: the job was cancelled."
    INTERNAL = 70, "An error in this program; a report is welcome."
    INTERRUPTED = 130, "Interrupted by Ctrl-C; what was asked for before stays asked for."


class Problem(Exception):
    """Something that ends a command. `text` says what was wrong and where, `advice` what to do."""

    def __init__(self, code: ExitCode, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.advice = code, text, advice
