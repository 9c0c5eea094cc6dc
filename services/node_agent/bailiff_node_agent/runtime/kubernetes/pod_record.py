"""What a pod's annotation keeps about its task, for an agent that has lost its own record. Others may write it, too."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bailiff_kubernetes import Object
from bailiff_kubernetes.names import TASK_RECORD
from bailiff_kubernetes.resources import annotations_of

MAX_TEXT = 64 * 1024
Name = Annotated[str, Field(max_length=253)]


class PodRecord(BaseModel):
    """ordered_by: seq of the record that ordered the start. devices: as the log gave them. part: of each device, as `1/2`."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    ordered_by: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    is_only_task: bool = True
    devices: Annotated[tuple[Name, ...], Field(max_length=1024)] = ()
    part: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}(/[1-9][0-9]{0,9})?$")] | None = None


def record_in(pod: Object) -> PodRecord | None:
    """The pod's record; None where it has none, or something else."""
    text = annotations_of(pod).get(TASK_RECORD)
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        return PodRecord.model_validate_json(text)
    except ValidationError:
        return None
