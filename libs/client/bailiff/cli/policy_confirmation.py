"""Asks before a request by which running jobs become evictable or leave, or by which its sender loses permissions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bailiff.client.client import Client
    from bailiff_core.model.policy import Policy
    from bailiff_core.model.state import PoolState

    from .session import Session

MAX_SENTENCES = 40
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask when jobs become evictable or would be evicted, or you lose permissions.")
]


def on_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def confirm_effects(
    session: Session, client: Client, state: PoolState, policy: Policy, what: str, *, enforce: bool = False, yes: bool = False
) -> None:
    """Print what does not add up in the new quotas; and the effects, if any job becomes evictable or would leave, or the user
    loses permissions, and ask.

    Raises:
        ClientError: The person did not confirm.
    """
    from bailiff.policy.quota_findings import new_quota_findings

    for sentence in new_quota_findings(state, policy)[:MAX_SENTENCES]:
        session.note(sentence)
    if yes:
        return
    from bailiff.client.preview import at
    from bailiff.client.requester import lost_by, requester_of
    from bailiff.policy.policy_effects import policy_effects
    from bailiff_core.records.pool_requests import ApplyPolicy

    lost = lost_by(state, ApplyPolicy(policy=policy), requester_of(client, state))
    effects = policy_effects(at(state, client.now()), policy, enforce=enforce)
    if effects.rejected:
        return  # a rejection is admission's to say
    if lost or effects.harms:
        why = "you would lose permissions" if lost else "jobs become evictable or would be evicted"
        confirm(session, what, [*lost, *(effects.sentences() if effects.harms else [])], why)


def confirm(session: Session, what: str, sentences: Sequence[str], why: str) -> None:
    """Print the effects and ask. Raises `ClientError` unless confirmed."""
    for sentence in sentences[:MAX_SENTENCES]:
        session.note(sentence)
    if len(sentences) > MAX_SENTENCES:
        session.note(f"and {len(sentences) - MAX_SENTENCES} more")
    if not on_terminal():
        raise UsageError(f"{what}: {why}: confirmation is required", "use --yes to do it without a question")
    if not typer.confirm("Apply it?" if "policy" in what or "project" in what else "Do it?", err=True):
        raise UsageError(f"{what}: not confirmed, nothing was requested")
