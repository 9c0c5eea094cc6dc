"""State of a sign-in in progress, in a cookie of the browser that started it."""

from dataclasses import asdict

from .oidc import LoginState
from .revocations import Revocations
from .tokens import Tokens

LIFETIME_S = 600


class LoginStates:
    """Login states: valid for ten minutes, single use."""

    def __init__(self, tokens: Tokens, used: Revocations) -> None:
        self._tokens, self._used = tokens, used

    def to_cookie(self, login_state: LoginState) -> str:
        """The cookie's value."""
        return self._tokens.make(asdict(login_state))

    def take(self, value: str | None) -> LoginState | None:
        """The login state of this browser, once; then None."""
        data = self._tokens.read(value, LIFETIME_S)
        if data is None or self._used.has(data["state"]):
            return None
        self._used.add(data["state"])
        return LoginState(**data)
