"""What projects use while a unit is being tried."""

from bailiff_core import scene as scenes
from bailiff_core.model.pool import Pool
from bailiff_core.queue.usage import Usage


def usage_now(pool: Pool) -> Usage:
    """Use as the scene has it, with what is being tried there: to bring the scene up to date would take that back."""
    if pool.scene is None or pool.stale_jobs or pool.stale_nodes:
        return scenes.scene_of(pool).usage
    usage: Usage = pool.scene.usage
    return usage
