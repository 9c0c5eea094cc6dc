"""What a person signed, as a record keeps it. Only the shape: `bailiff_log.signed_requests` makes and checks it."""

from typing import Annotated

from pydantic import Field

from .certificate import Key, Signature
from .document import Document, Hash, Time

Text = Annotated[str, Field(max_length=256)]


class SignedRequest(Document):
    """A signed request without its private parts.

    Attributes:
        key: The signer's key.
        sig: The signature, over source, id, time and the content digest.
        type: Covered by the content digest, as `actor` and `data`.
        actor: The actor as in the request.
        data: Canonical JSON.
        digest: The content digest, where a rejected request is too long to be kept.
    """

    key: Key
    sig: Signature
    type: Text
    source: Text
    id: Text
    time: Time
    actor: Text = ""
    data: str = ""
    digest: Hash | None = None
