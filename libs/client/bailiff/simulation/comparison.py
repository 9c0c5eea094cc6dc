"""The comparison of a pool's past with its simulation under another policy, as `bailiff what-if -o json` prints it.

Hours and GPU-hours, unless a name says otherwise. Pairs: simulated under the policies in force, and under the other one.
"""

from typing import Literal

from typing_extensions import TypedDict

from bailiff_core.views import Gpus

Label = Literal["recorded", "simulated", "other"]


class WaitingTimes(TypedDict):
    """Time from submission to start."""

    mean: float
    p95: float


class RunGpuHours(TypedDict):
    """GPU-hours of one run.

    Attributes:
        restarts: The time that restarts took.
    """

    work: float
    lost: float
    restarts: float
    held: float


class Fairness(TypedDict):
    """How evenly projects were served.

    Attributes:
        jain: Jain's index; null for fewer than two projects.
    """

    jain: float | None
    share_of_entitlement: dict[str, float]


class RunFigures(TypedDict):
    """One of the three runs.

    Attributes:
        waiting: Waiting times of `all`, and by class and project.
    """

    label: Label
    jobs: int
    refused: int
    ended: int
    waiting: dict[str, WaitingTimes]
    evictions: int
    gpu_hours: RunGpuHours
    utilisation: float
    fairness: Fairness


class GroupFigures(TypedDict):
    """The jobs of one class or project."""

    jobs: int
    waited_mean: float
    waited_p95: float
    evictions: int
    gpu_hours_lost: float
    gpu_hours_done: float


class GroupOfRuns(TypedDict):
    """A class or project in the three runs."""

    recorded: GroupFigures
    simulated: GroupFigures
    other: GroupFigures


ChangedJob = TypedDict(
    "ChangedJob",
    {
        "job": str,
        "project": str,
        "class": str,
        "gpus": Gpus,
        "time_lost_hours": float,
        "waited_hours": tuple[float, float],
        "evictions": tuple[int, int],
        "gpu_hours_lost": tuple[float, float],
        "outcome": tuple[str | None, str | None],
    },
)
"""A job that would have waited longer or shorter, or repeated other work."""


class RejectedJob(TypedDict):
    """A job that only the other policy does not accept."""

    job: str
    reason: str


class SettingEffect(TypedDict):
    """A setting that moves the mean waiting time, how it was changed, and that time then."""

    setting: str
    change: str
    waited_mean: float


class WaitDifference(TypedDict):
    """Why the mean waiting time differs.

    Attributes:
        label: The policy that makes the difference.
        before: As recorded, or simulated under the policy in force.
        after: Simulated under the policy of the label.
        changed_from: The run of which one setting at a time was changed.
        settings: The strongest first; null: too many jobs, more than `most`, to simulate them again for each setting.
    """

    label: str
    before: float
    after: float
    changed_from: Literal["before", "after"]
    settings: list[SettingEffect] | None
    most: int


Comparison = TypedDict(
    "Comparison",
    {
        "pool": str,
        "policy": str,
        "from": int,
        "to": int,
        "headline": list[str],
        "assumptions": list[str],
        "confidence": str,
        "rejected": list[RejectedJob],
        "never_started": list[str],
        "runs": list[RunFigures],
        "groups": dict[str, GroupOfRuns],
        "improved": list[ChangedJob],
        "worsened": list[ChangedJob],
    },
)
"""from, to: µs UTC. headline: what to know first. never_started: jobs that ran, and never would under the other policy."""
