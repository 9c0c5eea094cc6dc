"""The pool as trials see it: node resources, project usage and the indices that scheduling needs, kept up to date."""

from .snapshot import SchedulingSnapshot, current_snapshot, current_usage

__all__ = ["SchedulingSnapshot", "current_snapshot", "current_usage"]
