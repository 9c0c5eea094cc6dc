"""Snapshots: the state of a task saved by the platform, for a job that saves nothing itself.

`images` is the folder of one on disk, `criu` what this node can do. Saving and restoring themselves are the runtime's.
"""

from bailiff_node_agent.runtime.criu_requests import Criu, find_criu

from .criu import Offer, cpu_features, probe
from .images import BadImage, image_bytes, make_image, remove_images, sealed, verified

DRIVER = "criu"

__all__ = [
    "DRIVER",
    "BadImage",
    "Criu",
    "Offer",
    "cpu_features",
    "find_criu",
    "image_bytes",
    "make_image",
    "probe",
    "remove_images",
    "sealed",
    "verified",
]
