"""Commands about the policy: show, check, diff, apply."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.answers import require_accepted
from bailiff.client.errors import ExitCode
from bailiff_core.humanize import count_text

from . import tune  # noqa: F401 - `policy tune`
from .parameters import Reason
from .policy_confirmation import Yes, confirm_effects
from .session import Session, command

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="Policy file (YAML).")]


@command("policy show")
async def show(session: Session) -> None:
    """Print the policy in force. Edit and apply it: bailiff policy show -o yaml > policy.yaml"""
    from bailiff.render.serializers.policy import policy_in_force
    from bailiff.tables.policy import policy_block

    async with session.client() as client:
        found = policy_in_force((await client.projection(session.pool)).state)
        session.show(found, lambda: policy_block(found))


@command("policy check", leave_out=("actor", "key"))
async def check(
    session: Session,
    file: PolicyFile,
    live: Annotated[bool, typer.Option("--live", help="Also compare it with what the pool has.")] = False,
) -> None:
    """Check a policy file; errors name file, line and field. Needs no Kafka without --live.

    Also says what does not add up in its quotas, and what projects have that state no quota of CPU or memory.
    """
    from bailiff.policy.policy_files import read_policy
    from bailiff.policy.quota_findings import quota_findings, unstated_quotas
    from bailiff.render.serializers.projects import capacity_of

    policy, capacity = read_policy(file, ExitCode.FOUND_WRONG), None
    if live:
        async with session.client() as client:
            capacity = capacity_of((await client.projection(session.pool)).state, policy)
    classes = [entry.name for entry in policy.priority_classes]
    findings = [*quota_findings(policy, capacity)]
    unstated = unstated_quotas(policy, capacity)
    result: dict[str, Any] = {
        "ok": True,
        "file": str(file),
        "priority_classes": classes,
        "findings": [each._asdict() for each in findings],
        "unstated_quotas": unstated,
    }
    lines = [f"{file} is valid, with the classes {', '.join(classes)}"]
    lines += [each.text for each in findings] + unstated
    session.show(result, lambda: "\n".join(lines))


@command("policy diff")
async def diff(session: Session, file: PolicyFile) -> None:
    """Show which fields this file would change in the policy in force. Nothing is sent."""
    from bailiff.policy.policy_diff import changes
    from bailiff.policy.policy_files import read_policy

    policy = read_policy(file)
    async with session.client() as client:
        projection = await client.projection(session.pool)
        changed = changes(projection.state.rules, policy)
        summary = f"{file} would change {count_text(len(changed), 'field')} of the policy in force in {projection.pool}"
        result = {"pool": projection.pool, "revision": projection.state.policy_revision, "changes": changed}
        session.show(
            result,
            lambda: "\n".join([summary if changed else f"{file} is the policy in force", *(f"  {line}" for line in changed)]),
        )


@command("policy apply")
async def apply(
    session: Session,
    file: PolicyFile,
    enforce: Annotated[bool, typer.Option("--enforce", help="Evict jobs that the policy does not admit.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Apply even if another policy was applied since `policy show` wrote the file.")
    ] = False,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Apply a policy file. Running jobs are not evicted, except with --enforce. If it is in force already, nothing is recorded.

    Jobs that would become evictable, or would be evicted now, are shown first, and confirmed; so is what you yourself could no
    longer do, as when the file lacks your key.

    A file written by `policy show -o yaml` contains the revision that it was made from. If another policy is in force now, it is
    rejected, so that no change is overwritten.
    """
    from bailiff.policy.apply import apply_policy
    from bailiff.policy.policy_diff import changes
    from bailiff.policy.policy_files import read_policy
    from bailiff_core.records.pool_requests import ApplyPolicy

    policy = read_policy(file)
    made_from = None if anyway else revision_in(file)
    async with session.client() as client:
        projection = await client.projection(session.pool)
        confirm_effects(session, client, projection.state, policy, "policy apply", enforce=enforce, yes=yes)
        before = projection.state.policy
        body = ApplyPolicy(policy=policy, enforce=enforce, expected_revision=made_from, reason=reason)

        async def send() -> int:
            return (await require_accepted(client, await client.request(projection.pool, body))).seq

        applied = await apply_policy(client, projection.pool, body, send)
        changed = changes(before, policy) if before is not None and not applied.unchanged else []
        unchanged = "unchanged: " if applied.unchanged else ""
        summary = f"{unchanged}policy in force since {projection.pool}#{applied.seq}"
        result = {
            "pool": projection.pool,
            "seq": applied.seq,
            "unchanged": applied.unchanged,
            "changes": changed,
            "enforce": enforce,
        }
        session.show(result, lambda: "\n".join([summary, *(f"  {line}" for line in changed)]))


def revision_in(file: Path) -> int | None:
    """The revision from which `policy show` made the file, or None if the file is a bare policy."""
    from bailiff.client.job_parser import read_yaml

    value, _ = read_yaml(file)
    seq = value.get("seq") if isinstance(value, dict) and isinstance(value.get("policy"), dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0 else None
