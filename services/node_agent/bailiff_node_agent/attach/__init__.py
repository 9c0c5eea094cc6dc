"""Connections of people to the terminals of interactive jobs.

The agent accepts one connection for each grant of admission, from the holder of the certificate that it names, and passes bytes
on in both directions. It does not read them. Nothing here starts or stops a task.
"""

from .attachments import Attachments
from .server import AttachServer

__all__ = ["AttachServer", "Attachments"]
