"""Serializer of attachments: who was attached to a job, from when to when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from bailiff_core.records import facts

from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bailiff_core.records import Record


class AttachmentRow(TypedDict):
    """One grant.

    Attributes:
        user: Who requested it.
        user_verified: Whether that name was verified.
        port: Null for the terminal, or a shell.
        shell: To a shell beside the task.
        started_at: Null until somebody has connected.
        ended_at: Null until it has ended.
    """

    seq: int
    user: str
    user_verified: bool
    task: int
    port: int | None
    shell: bool
    granted_at: str | None
    started_at: str | None
    ended_at: str | None
    reason: str | None


def attachments_of(history: Iterable[Record]) -> list[AttachmentRow]:
    """The attachments of a job, oldest first."""
    found: dict[int, AttachmentRow] = {}
    for record in history:
        data = record.data
        if isinstance(data, facts.AttachGranted):
            found[record.seq] = {
                "seq": record.seq,
                "user": record.actor,
                "user_verified": record.actor_verified,
                "task": data.task,
                "port": data.port,
                "shell": data.shell,
                "granted_at": moment(record.time),
                "started_at": None,
                "ended_at": None,
                "reason": None,
            }
        elif isinstance(data, facts.AttachStarted) and data.grant in found:
            found[data.grant]["started_at"] = moment(record.time)
        elif isinstance(data, facts.AttachEnded) and data.grant in found:
            found[data.grant]["ended_at"], found[data.grant]["reason"] = moment(record.time), data.reason
    return list(found.values())
