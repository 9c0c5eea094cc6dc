"""Asks before a policy is applied by which running jobs become evictable or leave."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.errors import ClientError, ExitCode

if TYPE_CHECKING:
    from bailiff_core.model.policy import Policy
    from bailiff_core.model.state import PoolState

    from .session import Session

MAX_SENTENCES = 40
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask when jobs become evictable or would be evicted.")]


def on_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def confirm_effects(
    session: Session, state: PoolState, policy: Policy, what: str, *, now: int, enforce: bool = False, yes: bool = False
) -> None:
    """Print the effects if any job becomes evictable or would leave, and ask. Raises `ClientError` unless confirmed."""
    if yes or state.policy is None:
        return
    from bailiff.client.preview import at
    from bailiff.policy.policy_effects import policy_effects

    effects = policy_effects(at(state, now), policy, enforce=enforce)
    if effects.rejected or not effects.harms:
        return  # a rejection is admission's to say
    sentences = effects.sentences()
    for sentence in sentences[:MAX_SENTENCES]:
        session.err.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if len(sentences) > MAX_SENTENCES:
        session.err.print(f"and {len(sentences) - MAX_SENTENCES} more")
    if not on_terminal():
        advice = "use --yes to apply it without a question"
        raise ClientError(ExitCode.USAGE, f"{what}: jobs become evictable or would be evicted: confirmation is required", advice)
    if not typer.confirm("Apply it?", err=True):
        raise ClientError(ExitCode.USAGE, f"{what}: not confirmed, nothing was requested")
