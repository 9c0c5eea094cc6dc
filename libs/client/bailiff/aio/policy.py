"""The policy of a pool: the one in force, checks, changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bailiff import fields
from bailiff.client.errors import InvalidRequest
from bailiff.pool_results import Policy
from bailiff.results import Accepted

from .access import Access, translated

if TYPE_CHECKING:
    from bailiff_core.model.policy import Policy as PolicyDocument

PolicySource = str | Path | Mapping[str, Any] | Policy
"""A policy file (YAML), its content as a mapping, or a policy that was in force."""


class PolicyOfPool:
    """The policy of a pool."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def get(self, *, pool: str | None = None) -> Policy:
        """The policy in force."""
        from bailiff.render.serializers.policy import policy_in_force

        found = policy_in_force(await self._access.state(pool))
        return Policy(found["pool"], found["seq"], found["policy"])

    async def diff(self, policy: PolicySource, *, pool: str | None = None) -> list[str]:
        """What this policy would change, one sentence per field.

        Raises:
            InvalidRequest: It is invalid.
        """
        from bailiff.policy.policy_diff import changes

        after = document_of(policy)
        return changes((await self._access.state(pool)).rules, after)

    async def apply(
        self,
        policy: PolicySource,
        *,
        pool: str | None = None,
        enforce: bool = False,
        reason: str = "",
        lose_permissions: bool = False,
    ) -> Accepted:
        """Applies a policy.

        A `Policy` from `get` is rejected if another one is in force by now, so that no change is overwritten. One that is in
        force already is not recorded again: the result is the record since which it is.

        Args:
            enforce: Evict jobs that it does not admit.
            reason: Recorded in the log.
            lose_permissions: Apply it also if you could no longer do what you may do now, as when it lacks your key.

        Raises:
            InvalidRequest: It is invalid, or you would lose permissions.
        """
        from bailiff.policy.apply import apply_policy
        from bailiff_core.records.pool_requests import ApplyPolicy

        based_on = policy.seq if isinstance(policy, Policy) else None
        body = ApplyPolicy(policy=document_of(policy), enforce=enforce, expected_revision=based_on, reason=reason)
        name = await self._access.pool(pool)

        async def send() -> int:
            return (await self._access.request(name, body, lose_permissions=lose_permissions)).seq

        with translated():
            return Accepted(name, (await apply_policy(self._access.client, name, body, send)).seq)

    async def revoke_key(
        self, key: str, *, reason: str = "", pool: str | None = None, lose_permissions: bool = False
    ) -> Accepted:
        """Revokes a key for good; only the root key, and operators that the policy names, may.

        Args:
            key: The key's id, as `bailiff key show` prints it.
            reason: Recorded in the log.
            lose_permissions: Revoke it also if you could no longer do what you may do now, as with your own last key.

        Raises:
            InvalidRequest: You would lose permissions.
        """
        from bailiff_core.records.pool_requests import RevokeKey

        body = RevokeKey(key=key, reason=reason)
        return await self._access.request(await self._access.pool(pool), body, lose_permissions=lose_permissions)


def document_of(policy: PolicySource) -> PolicyDocument:
    """The policy.

    Raises:
        InvalidRequest: It is invalid; names every fault.
        ClientError: The file cannot be read.
    """
    from bailiff.policy.policy_files import read_policy
    from bailiff_service.policy_files import policy_from

    if isinstance(policy, str | Path):
        return read_policy(Path(policy))
    found, faults = policy_from(fields.as_in_a_file(policy.document if isinstance(policy, Policy) else policy))
    if found is None:
        raise InvalidRequest([f"{'.'.join(map(str, place)) or 'policy'}: {text}" for place, text in faults])
    return found
