"""The order in which waiting jobs are served: priority first, then who came first."""

from .order import dequeue, enqueue, queue_key

__all__ = ["dequeue", "enqueue", "queue_key"]
