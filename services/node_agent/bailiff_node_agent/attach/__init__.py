"""Connections of people to the terminals and ports of jobs.

The agent accepts one connection to a terminal, or several to a port, for each grant of admission, from the holder of the
certificate that it names, and passes bytes on in both directions. It does not read them. Nothing here starts or stops a task.
"""

from .attachments import Attachments
from .server import AttachServer

__all__ = ["AttachServer", "Attachments"]
