"""Request kinds of the page and the messages they are published as."""

from collections.abc import Mapping

from bailiff_bus.messages import (
    CancelJob,
    DrainNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    RequestBody,
    ResumeJob,
    ScaleJob,
    SetPriorityClass,
    UndrainNode,
)

SUBMIT = "submit"
POLICY = "policy"
KINDS: Mapping[str, type[RequestBody]] = {
    "cancel": CancelJob, "pause": PauseJob, "resume": ResumeJob, "migrate": MigrateJob, "evict": EvictJob, "scale": ScaleJob,
    "set": SetPriorityClass, "drain": DrainNode, "undrain": UndrainNode,
}  # fmt: skip
