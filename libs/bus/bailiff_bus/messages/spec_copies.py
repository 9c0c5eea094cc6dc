"""`bailiff.job-spec-copies`: private parts of jobs, encrypted for those to whom admission has granted to read them."""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.document import Count, Name
from bailiff_core.model.message import MessageBody


class JobSpecCopy(MessageBody):
    """The answer to the grant of this record: `spec` and `salt` as JSON, encrypted (HPKE). encrypted: absent: it was erased."""

    job: Name
    grant: Count
    encrypted: Annotated[str, Field(max_length=800_000)] | None = None
