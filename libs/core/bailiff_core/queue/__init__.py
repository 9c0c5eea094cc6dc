"""Who is tried first: the order of pending jobs. Nothing about room or eviction may enter here."""

from .order import dequeue, enqueue, queue_key

__all__ = ["dequeue", "enqueue", "queue_key"]
