"""Snapshots: the state of a task saved by the platform, for a job that saves nothing itself.

`images` is the folder of one on disk, `store` where an agent keeps them, `criu` what this node can do. Saving and restoring
themselves are the runtime's.
"""

from bailiff_node_agent.runtime.criu_requests import Criu, find_criu

from .bad_image import BadImage
from .criu import Offer, cpu_features, probe
from .images import make_image, sealed, verified
from .store import PLAIN, DiskImages, ImageStore

DRIVER = "criu"

__all__ = [
    "DRIVER",
    "PLAIN",
    "BadImage",
    "Criu",
    "DiskImages",
    "ImageStore",
    "Offer",
    "cpu_features",
    "find_criu",
    "make_image",
    "probe",
    "sealed",
    "verified",
]
