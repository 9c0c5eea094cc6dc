"""The base of every message that is not an audit record, and the registry of types."""

from typing import Any, ClassVar

from bailiff_core.model.document import Document

MESSAGE_TYPES: dict[str, type["MessageBody"]] = {}


class MessageBody(Document):
    """Data of one message type. `TYPE` is its CloudEvents type; classes without one are bases."""

    TYPE: ClassVar[str] = ""

    def public_data(self, data: bytes) -> bytes:
        """What the content digest covers, as canonical JSON. data: this message's, as sent, as canonical JSON."""
        return data

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if cls.__dict__.get("TYPE"):
            MESSAGE_TYPES[cls.TYPE] = cls
