"""The console's users as the pool sees them: under which name their requests are sent, and whether that name is verified."""

from dataclasses import dataclass

from bailiff_core.model.identity import Auth, SignIn
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester
from bailiff_log.keys import known_keys

from .principal import Principal


@dataclass(frozen=True, slots=True)
class RequesterNames:
    """holder: the console's name in the policy, if it signs requests. key: its public key. issuer: who authenticates users.

    unsigned: how admission takes requests that are not signed.
    """

    holder: str = ""
    key: str = ""
    issuer: str = "local"
    unsigned: Auth = "none"

    def actor(self, principal: Principal) -> str:
        """The user's name in requests."""
        return f"{self.holder}/{principal.name}" if self.holder else principal.name

    def requester(self, principal: Principal, state: PoolState) -> Requester:
        """The user as admission will see it."""
        is_known = bool(self.key) and known_keys(state).get(self.key) == self.holder
        return Requester(self.actor(principal), "signed" if is_known else self.unsigned)

    def sign_in(self, principal: Principal) -> SignIn | None:
        """Who the user is, for a request that the console's key signs."""
        return SignIn(issuer=self.issuer, subject=principal.subject or principal.name) if self.key and self.holder else None
