"""Records of every type with a canary in every text: made from the models, so that new types and fields are among them."""

import types
from itertools import count
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le

from bailiff_core.model.document import Document
from bailiff_core.model.policy import Policy
from bailiff_core.records import AUDIT_TYPES
from bailiff_core.records.payload import Payload

CANARY = "canary"
A_TIME = 1_795_262_400_000_000  # 2026-11-21


class Aviary:
    """Makes documents of a model with canaries for texts. `planted`: each canary, by the field that it was put into."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.planted: dict[str, str] = {}

    def everything(self) -> list[Payload]:
        """One record of each type."""
        return [self.document(kind, kind.__name__) for kind in AUDIT_TYPES.values()]

    def text(self, where: str) -> str:
        """A canary that was never seen before."""
        found = f"{CANARY}{next(self._numbers):05}"
        self.planted[found] = where
        return found

    def document(self, kind: type[Document], where: str) -> Any:
        """A document in which every field is there; what its validators would say is not asked, but for the tree of projects."""
        fields = {name: self.value(annotation, f"{where}.{name}") for name, annotation in annotations(kind).items()}
        made = kind.model_construct(**{**fields, **({"gpu_share_milli": 500} if "gpu_share_milli" in fields else {})})
        if isinstance(made, Policy):
            top = made.projects[0].model_copy(update={"parent": None})
            below = made.projects[0].model_copy(update={"name": self.text(f"{where}.projects.name"), "parent": top.name})
            budgets = tuple(each.model_copy(update={"project": top.name}) for each in made.protections.budgets)
            rules = made.protections.model_copy(update={"budgets": budgets})
            of = {"project": top.name, "priority_class": made.priority_classes[0].name}
            hours = tuple(each.model_copy(update=of) for each in made.budgets)
            made = made.model_copy(update={"projects": (top, below), "protections": rules, "budgets": hours})
        return made

    def value(self, annotation: Any, where: str) -> Any:
        """A value of this type."""
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            found = self.value(parts[0], where)
            limits = [rule for part in parts[1:] for rule in getattr(part, "metadata", ())]
            least = [rule.ge for rule in limits if isinstance(rule, Ge)]
            most = [rule.le for rule in limits if isinstance(rule, Le)]
            return min([max([found, *least]), *most]) if type(found) is int else found
        if origin is Literal:
            return parts[0]
        if origin in (Union, types.UnionType):
            return self.value(next(part for part in parts if part is not type(None)), where)
        if origin is tuple:
            return (self.value(parts[0], where),)
        if origin is dict:
            return {self.value(parts[0], f"{where}.key"): self.value(parts[1], where)}
        if annotation is str:
            return self.text(where)
        if annotation is bool:
            return True
        if annotation is int:
            return 7
        return self.document(annotation, where)


def annotations(kind: type[Document]) -> dict[str, Any]:
    """The type of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.model_fields}


def texts_allowed(annotation: Any) -> bool:
    """Whether a field of this type could hold any text at all."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return False
    if parts:
        return any(texts_allowed(part) for part in (parts[:1] if origin is Annotated else parts))
    return annotation is str or (isinstance(annotation, type) and issubclass(annotation, Document))


def documents_in(annotation: Any) -> list[type[Document]]:
    """The documents that a field of this type holds."""
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return [annotation]
    parts = () if get_origin(annotation) is Literal else get_args(annotation)
    return [found for part in parts for found in documents_in(part)]
