"""The pool as trials see it: node resources, project usage and the indices that scheduling needs, kept up to date."""

from .snapshot import Scene, current_usage, scene_of

__all__ = ["Scene", "current_usage", "scene_of"]
