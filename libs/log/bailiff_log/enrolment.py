"""Enrolment of nodes: the one-time token that `bailiff node enrol` prints, and what an agent signs with it.

A token is `bailiff1.KEY.ROOT`: the private half of a key that the log permits for one node name, and the public root key of the
pool, so that the agent knows whom to obey. The agent signs its own public keys with it, over the canonical JSON of
`["bailiff-enrolment-1", pool, node, key, encryption_key]`: the token itself is on no topic.
"""

from dataclasses import dataclass, field

from bailiff_bus.messages.reports import Enrolment

from .keys import KEY_BYTES, from_text, is_signed, key_id, sign_fields, to_text

ENROLMENT_TAG = "bailiff-enrolment-1"
TOKEN_FORMAT = "bailiff1"  # noqa: S105 - the name of the format


class InvalidToken(Exception):
    """The text is not an enrolment token."""


@dataclass(frozen=True, slots=True)
class EnrolmentToken:
    """private_key: of the token, never shown. root_key: of the pool, public."""

    private_key: bytes = field(repr=False)
    root_key: str

    def text(self) -> str:
        """The token as it is printed. Whoever has it can enrol one node."""
        return f"{TOKEN_FORMAT}.{to_text(self.private_key)}.{self.root_key}"


def read_token(text: str) -> EnrolmentToken:
    """The inverse of `text`. Raises `InvalidToken`, which does not contain the text."""
    name, *parts = text.strip().split(".")
    try:
        private_key, root_key = (from_text(part) for part in parts)
    except ValueError:
        raise InvalidToken("not an enrolment token, as `bailiff node enrol` prints it") from None
    if name != TOKEN_FORMAT or len(private_key) != KEY_BYTES or len(root_key) != KEY_BYTES:
        raise InvalidToken("not an enrolment token, as `bailiff node enrol` prints it")
    return EnrolmentToken(private_key, to_text(root_key))


def sign_enrolment(token: EnrolmentToken | None, *, pool: str, node: str, key: str, encryption_key: str) -> Enrolment:
    """What an inventory carries: the node's encryption key, and the token's signature where there is a token."""
    if token is None:
        return Enrolment(encryption_key=encryption_key)
    signature = sign_fields(token.private_key, [ENROLMENT_TAG, pool, node, key, encryption_key])
    return Enrolment(encryption_key=encryption_key, token_key=key_id(token.private_key), token_signature=signature)


def is_enrolment_signed(enrolment: Enrolment, token_key: str, *, pool: str, node: str, key: str) -> bool:
    """Whether the holder of this token signed these keys for this node."""
    if enrolment.token_key != token_key or enrolment.token_signature is None:
        return False
    return is_signed(token_key, enrolment.token_signature, [ENROLMENT_TAG, pool, node, key, enrolment.encryption_key])
