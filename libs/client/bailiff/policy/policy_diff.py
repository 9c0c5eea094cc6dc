"""Differences between two policies, one line of text per field."""

from typing import Any

from bailiff.render.serializers.policy import policy_document
from bailiff_core.humanize import memory_text, thousandths_text
from bailiff_core.model.policy import Policy


def changes(before: Policy, after: Policy) -> list[str]:
    """One line per field that differs: `preemption.search_steps: 20000 → 500`, `projects.vision: new, quota 8 GPUs`."""
    found: list[str] = []
    _compare("", _by_name(policy_document(before)), _by_name(policy_document(after)), found)
    return found


def _by_name(value: Any) -> Any:
    """The document, with each list of named entries as a mapping: an entry is compared with that of the same name."""
    if isinstance(value, dict):
        return {name: _by_name(each) for name, each in value.items()}
    if isinstance(value, list) and value and all(isinstance(each, dict) and "name" in each for each in value):
        return {each["name"]: _by_name(each) for each in value}
    return value


def _compare(path: str, before: Any, after: Any, found: list[str]) -> None:
    if [] in (before, after) and dict in (type(before), type(after)):  # no entry is there yet, or any more
        before, after = before or {}, after or {}
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            inner = f"{path}.{key}" if path else str(key)
            if key not in after:
                found.append(f"{inner}: removed")
            elif key not in before:
                about = f", {value_text('gpu_milli', after[key])}" if path.endswith(".by_model") else _about(after[key])
                found.append(f"{inner}: new{about}")
            else:
                _compare(inner, before[key], after[key], found)
    elif before != after:
        name = "gpu_milli" if ".by_model." in path else path.rpartition(".")[2]
        found.append(f"{path}: {value_text(name, before)} → {value_text(name, after)}")


def _about(entry: Any) -> str:
    """Text of a new entry: its fields that are not empty."""
    if not isinstance(entry, dict):
        return f", {value_text('', entry)}"
    fields = [
        f"{name.replace('_', ' ')} {text}"
        for name, value in entry.items()
        if name != "name" and (text := _short(name, value)) and value not in (None, [], {}, "", 0, False)
    ]
    return f", {', '.join(fields)}" if fields else ""


def _short(name: str, value: Any) -> str:
    if not isinstance(value, dict):
        return value_text(name, value)
    texts = [value_text(inner, each) for inner, each in value.items() if each not in (None, {})]
    return texts[0] if len(texts) > 1 and len(set(texts)) == 1 else " and ".join(texts)


def value_text(name: str, value: Any) -> str:
    """The value as text: `8 GPUs`, `unlimited`, `yes`, `not set`."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    unit = {"gpu_milli": " GPUs", "cpu_milli": " cores"}.get(name)
    if (unit is not None or name == "memory_bytes") and isinstance(value, int):
        if value < 0:
            return f"unlimited{unit or ' memory'}"
        return (
            f"{thousandths_text(value)}{unit.removesuffix('s') if value == 1000 else unit}"
            if unit is not None
            else memory_text(value)
        )
    if isinstance(value, list):
        return ", ".join(value_text("", each) for each in value) or "none"
    if isinstance(value, dict) and name == "by_model":
        return ", ".join(f"{value_text('gpu_milli', each)} of {key}" for key, each in value.items())
    if isinstance(value, dict):
        return ", ".join(f"{key}={value_text('', each)}" for key, each in value.items()) or "none"
    return str(value)
