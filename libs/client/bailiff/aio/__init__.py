"""The asynchronous Python client: `async with bailiff.aio.connect() as b: …`. `bailiff.connect` is the same without `await`."""

from .audit import Audit
from .budgets import Budgets
from .connection import Connection, connect
from .job import Job
from .policy import PolicyOfPool

__all__ = ["Audit", "Budgets", "Connection", "Job", "PolicyOfPool", "connect"]
