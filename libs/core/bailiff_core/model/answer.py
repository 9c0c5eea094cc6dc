"""Victim selection's answer to one open request: who leaves, where the asker goes, and why this and no other."""

from typing import Annotated, Literal

from pydantic import Field

from .document import Count, Document, Integer, Name
from .places import NodeShare


class VictimChoice(Document):
    """One victim and what evicting it loses, in GPU-ms (semantics §5). `reserved`: it had not started yet."""

    job: Name
    attempt: Count
    priority: Integer
    gpus: Count
    lost_gpu_ms: Count
    reserved: bool = False


class Excluded(Document):
    """So many jobs could not be victims because of this rule; the first few by name."""

    rule: str
    jobs: Count
    examples: Annotated[tuple[Name, ...], Field(max_length=5)] = ()


class Explanation(Document):
    """Why this set and no other. `proven`: an exact search finished. `steps` of it were used."""

    candidates: Count = 0
    excluded: tuple[Excluded, ...] = ()
    steps: Count = 0
    proven: bool = False
    runner_up: tuple[Name, ...] = ()
    runner_up_lost_gpu_ms: Count = 0


class Answer(Document):
    """The answer to one open request: victims and a placement, or why there are none.

    refused: `impossible` (proven: no set of permitted victims makes room) or `gave-up` (the step budget ran out).
    """

    request: Count
    job: Name
    victims: tuple[VictimChoice, ...] = ()
    placement: tuple[NodeShare, ...] = ()
    refused: Literal["impossible", "gave-up"] | None = None
    would_need: Annotated[str, Field(max_length=2000)] = ""
    explanation: Explanation = Explanation()
