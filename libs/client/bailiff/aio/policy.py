"""The policy of a pool: the one in force, checks, changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bailiff.client.errors import InvalidRequest
from bailiff.pool_results import Policy
from bailiff.results import Accepted

from .access import Access

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
        """What this policy would change, one sentence per field. Raises `InvalidRequest` for an invalid one."""
        from bailiff.policy.policy_diff import changes

        after = document_of(policy)
        return changes((await self._access.state(pool)).rules, after)

    async def apply(self, policy: PolicySource, *, pool: str | None = None, enforce: bool = False) -> Accepted:
        """Applies a policy. enforce: evicts jobs that it does not admit.

        A `Policy` from `get` is rejected if another one is in force by now, so that no change is overwritten.
        """
        from bailiff_bus.messages import ApplyPolicy

        based_on = policy.seq if isinstance(policy, Policy) else None
        body = ApplyPolicy(policy=document_of(policy), enforce=enforce, expected_revision=based_on)
        return await self._access.request(await self._access.pool(pool), body)


def document_of(policy: PolicySource) -> PolicyDocument:
    """The policy. Raises `InvalidRequest` with every fault, or `ClientError` for a file that cannot be read."""
    from bailiff.policy.policy_files import read_policy
    from bailiff_service.policy_files import policy_from

    if isinstance(policy, str | Path):
        return read_policy(Path(policy))
    found, faults = policy_from(_plain(policy.document if isinstance(policy, Policy) else policy))
    if found is None:
        raise InvalidRequest([f"{'.'.join(map(str, place)) or 'policy'}: {text}" for place, text in faults])
    return found


def _plain(value: Any) -> Any:
    """The value with dictionaries and lists alone, as a file has them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
