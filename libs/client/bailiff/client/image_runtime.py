"""Which runtime runs a job's image where the job names none: that of the pool's nodes."""

from collections.abc import Sequence

from bailiff_core.model.job_spec import TERMINAL_RUNTIMES
from bailiff_core.model.state import PoolState
from bailiff_core.records.job_requests import SubmitJob

DEFAULT = "docker"
LABEL = "bailiff.runtime/"


def runtime_for_images(state: PoolState) -> str:
    """Docker where a node offers it or none offers anything; else what the nodes offer, such as `kubernetes`."""
    nodes = [node for node in state.nodes.values() if node.state != "lost"]
    labels = [name for node in nodes for name, value in node.labels.items() if name.startswith(LABEL) and value == "true"]
    offered = sorted({name.removeprefix(LABEL) for name in labels})
    return DEFAULT if DEFAULT in offered or not offered else offered[0]


def with_runtime(jobs: Sequence[SubmitJob], state: PoolState, *, may_lack_terminal: bool = False) -> list[SubmitJob]:
    """The jobs; those with an image get the pool's runtime for it.

    Args:
        may_lack_terminal: Where that runtime has no terminals, they go without; else admission rejects those that ask for one.
    """
    runtime = runtime_for_images(state)
    changes = {"runtime": runtime} | ({"tty": False} if may_lack_terminal and runtime not in TERMINAL_RUNTIMES else {})
    return [
        job if job.spec.image is None else job.model_copy(update={"spec": job.spec.model_copy(update=changes)}) for job in jobs
    ]
