"""Exit codes of services with their meanings, and the exception that ends a service with one."""

from enum import IntEnum
from typing import Self


class ExplainedCode(IntEnum):
    """An enum of `NAME = number, "meaning"`; the meaning becomes the member's docstring."""

    def __new__(cls, value: int, meaning: str) -> Self:
        """Create a member with its meaning as docstring."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.__doc__ = meaning
        return member


class ExitCode(ExplainedCode):
    """Exit codes of a service."""

    CLEAN = 0, "Stopped on request."
    SETTINGS = 2, "The settings, or a file that they name, are invalid. A restart does not help."
    KAFKA_SETTINGS = (
        3,
        "A topic or broker setting could lose, truncate or reorder the log (docs/reference/log-protocol.md#location).",
    )
    CLOCK = 4, "The clocks of this machine and of the broker differ too much (docs/reference/log-protocol-fences.md#time)."
    UNREADABLE_RECORD = 5, "The log contains a record that this release cannot read and must not skip."
    STOP_TIMED_OUT = 6, "Did not stop within the stop timeout."
    STATE_DIVERGED = 7, "The folded state differs from the log's state digest: a fault in the program or in the log."
    CREDENTIALS = 8, "The service has no valid certificate for a signed pool (docs/how-to/security.md#keys)."
    DISK = 9, "A file of the service is damaged or cannot be written: its disk is full, read-only, or fails."
    INTERNAL = 70, "Internal error. Restart the service, and report the error with its log."


class MustStop(Exception):
    """The service cannot continue. The text is one line for the operator."""

    def __init__(self, code: ExitCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
