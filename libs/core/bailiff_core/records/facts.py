"""Facts: records of what came from outside, and the requests that lead to some of them, by one name each.

One module per subject: requests about jobs, nodes and the pool; nodes, devices, tasks, evictions, attachments; the log.
"""

# ruff: noqa: F403 - this is a namespace
from .attachments import *
from .budget_requests import *
from .calendar_requests import *
from .devices import *
from .evictions import *
from .job_requests import *
from .log import *
from .node_requests import *
from .nodes import *
from .pool_requests import *
from .request import *
from .tasks import *
