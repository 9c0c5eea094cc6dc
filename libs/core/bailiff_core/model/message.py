"""The base of every message that is not an audit record, and the registry of types."""

from typing import Any, ClassVar

from .document import Document

MESSAGE_TYPES: dict[str, type["MessageBody"]] = {}
MAX_INPUT_BYTES = 256 * 1024
"""Limit of one message to the services or to a node."""


class MessageBody(Document):
    """Data of one message type. `TYPE` is its CloudEvents type: its name, unless it states another; bases state none: `""`."""

    TYPE: ClassVar[str] = ""

    def public_data(self, data: bytes) -> bytes:
        """What the content digest covers, as canonical JSON.

        Args:
            data: This message's, as sent, as canonical JSON.
        """
        return data

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.TYPE = cls.__dict__.get("TYPE", f"bailiff.{cls.__name__}.v1")
        if cls.TYPE:
            MESSAGE_TYPES[cls.TYPE] = cls
