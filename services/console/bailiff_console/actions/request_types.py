"""Request kinds of the page, and the messages they are published as."""

from collections.abc import Mapping

from bailiff_core.records.facts import DrainNode, JobChange, RequestBody, UndrainNode
from bailiff_core.records.request import RECORDS

SUBMIT = "submit"
POLICY = "policy"
KINDS: Mapping[str, type[RequestBody]] = {
    body.VERB: body for body in RECORDS if issubclass(body, JobChange | DrainNode | UndrainNode)
}
