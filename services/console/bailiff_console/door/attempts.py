"""Sign-ins under way, each in a cookie of the browser that began it."""

from dataclasses import asdict

from .oidc import Attempt
from .signedout import SignedOut
from .tokens import Tokens

LASTS_S = 600


class Attempts:
    """Good for ten minutes, each to be taken once."""

    def __init__(self, tokens: Tokens, taken: SignedOut) -> None:
        self._tokens, self._taken = tokens, taken

    def keep(self, attempt: Attempt) -> str:
        """The value of the browser's cookie."""
        return self._tokens.make(asdict(attempt))

    def take(self, value: str | None) -> Attempt | None:
        """The attempt of this browser; a second time there is none."""
        data = self._tokens.read(value, LASTS_S)
        if data is None or self._taken.has(data["state"]):
            return None
        self._taken.add(data["state"])
        return Attempt(**data)
