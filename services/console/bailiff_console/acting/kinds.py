"""Each kind of request of the page, and the message that it becomes."""

from collections.abc import Mapping

from bailiff_bus.messages import (
    CancelJob,
    DrainNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    RequestBody,
    ScaleJob,
    SetJob,
    UndrainNode,
    UnpauseJob,
)

SUBMIT = "submit"
KINDS: Mapping[str, type[RequestBody]] = {
    "cancel": CancelJob, "pause": PauseJob, "resume": UnpauseJob, "migrate": MigrateJob, "evict": EvictJob, "scale": ScaleJob,
    "set": SetJob, "drain": DrainNode, "undrain": UndrainNode,
}  # fmt: skip
