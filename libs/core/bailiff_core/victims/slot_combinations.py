"""Combines the options of components for the cheapest evictions that gain a number of slots."""

from dataclasses import dataclass
from heapq import nsmallest
from itertools import pairwise

from bailiff_core.placement.step_budget import StepBudget

from .candidates import EvictionStep
from .objective import Fragmentation
from .set_weights import tie_breakers

COMBINATIONS_PER_STEP = 50
MAX_TIED_EFFORT = 1_000  # steps; above it, tied slots are chosen by fragmentation and grace alone, not by age
MAX_LAYERS = 256

OptionKey = tuple[int, int, tuple[tuple[int, str, int], ...]]  # weight, number of steps, their age keys


@dataclass(slots=True)
class Option:
    """Evicting these steps of one component gains `gain` slots.

    Attributes:
        key: Total order, cheapest first; fragmentation included.
    """

    gain: int
    key: OptionKey
    steps: tuple[EvictionStep, ...]


Choice = tuple[int, Option | None]  # slots gained, and the option that gains them; `None`: no eviction


def best_combination(
    parts: list[list[Option]], short: int, fragmentation: Fragmentation, budget: StepBudget
) -> tuple[list[EvictionStep] | None, bool]:
    """The cheapest steps that gain `short` slots, at most one option of each component; and whether that is certain."""
    parts = _relevant(parts, short)
    if sum(options[-1].gain for options in parts) == short:
        return [step for options in parts for step in options[-1].steps], True
    marginals = _marginals(parts)
    if marginals is not None:
        marginals.sort(key=lambda entry: entry[0])
        return [step for _, steps in marginals[:short] for step in steps], True
    choices: list[list[Choice]] = [[(0, None), *((option.gain, option) for option in options)] for options in parts]
    certain_choice: list[Option] = []
    tied = _tied(parts, short, fragmentation.above)
    if tied is not None:
        certain_choice, choices, short = tied
        if sum(_effort(each, short) for each in choices) > MAX_TIED_EFFORT:
            found = _lightest_of_tied(choices, short, fragmentation)
            if found is not None:
                return [step for option in (*certain_choice, *found) for step in option.steps], True
    best = _knapsack(choices, short, budget)
    return (None, False) if best is None else ([step for option in (*certain_choice, *best) for step in option.steps], True)


def _relevant(parts: list[list[Option]], short: int) -> list[list[Option]]:
    """The `short` cheapest components for each gain: at most `short` components are used."""
    most = min(short, max(options[-1].gain for options in parts))
    by_gain: list[list[tuple[OptionKey, int]]] = [[] for _ in range(most)]
    for at, options in enumerate(parts):
        enough = 0  # gain covered by the options before
        for option in options:
            for gain in range(enough, min(option.gain, most)):
                by_gain[gain].append((option.key, at))
            enough = option.gain
    kept = {at: None for options_of_gain in by_gain for _, at in nsmallest(short, options_of_gain)}
    return [parts[at] for at in sorted(kept)]


def _marginals(parts: list[list[Option]]) -> list[tuple[OptionKey, tuple[EvictionStep, ...]]] | None:
    """Cost of each additional slot, if it never decreases within a component: then the cheapest slots are the optimum."""
    found = []
    for options in parts:
        before: tuple[EvictionStep, ...] = ()
        last = None
        for number, option in enumerate(options, start=1):
            if option.gain != number or option.steps[: len(before)] != before:
                return None
            steps = option.steps[len(before) :]
            weight = option.key[0] - (options[number - 2].key[0] if number > 1 else 0)
            key = (weight, len(steps), tuple(sorted(step.age_key for step in steps)))
            if last is not None and key < last:
                return None
            found.append((key, steps))
            before, last = option.steps, key
    return found


def _tied(parts: list[list[Option]], short: int, above: int) -> tuple[list[Option], list[list[Choice]], int] | None:
    """Options that belong to every cheapest set, the choices of the other components, and the slots to gain by them.

    At the levels above fragmentation all these choices cost the same per slot. `None` if the cost of an additional slot at
    these levels decreases within a component.
    """
    slots: list[list[int]] = []
    for options in parts:
        if any(option.gain != number for number, option in enumerate(options, start=1)):
            return None
        costs = [after - before for before, after in pairwise([0, *(option.key[0] // above for option in options)])]
        if any(after < before for before, after in pairwise(costs)):
            return None
        slots.append(costs)
    highest = sorted(cost for costs in slots for cost in costs)[short - 1]
    fixed: list[Option] = []
    choices: list[list[Choice]] = []
    for options, costs in zip(parts, slots, strict=True):
        least = sum(cost < highest for cost in costs)
        most = sum(cost <= highest for cost in costs)
        short -= least
        if most > least:
            choices.append([(0, options[least - 1] if least else None)])
            choices[-1] += [(gain, options[least + gain - 1]) for gain in range(1, most - least + 1)]
        elif least:
            fixed.append(options[least - 1])
    return fixed, choices, short


def _effort(choices: list[Choice], short: int) -> int:
    """Steps of the dynamic program for one component."""
    return 1 + len(choices) * short // COMBINATIONS_PER_STEP


def _lightest_of_tied(choices: list[list[Choice]], short: int, fragmentation: Fragmentation) -> list[Option] | None:
    """Tied choices that gain exactly `short` slots, of least weight from fragmentation down; ties fall to younger jobs first.

    `None`: too many different weights.
    """
    # Which numbers of slots can be gained is kept as one integer: bit n is set if some choices gain n slots. Adding a component
    # that gains g more shifts it by g; two ways to one excess are joined by `|`. A layer has one such integer for each excess
    # over the least weights, so 3 components with excesses 0 or 5 need the entries 0, 5, 10 and 15, and not all 8 combinations.
    choices = sorted(choices, key=_ages_of_first_option, reverse=True)
    excesses: list[list[int]] = []
    for of_component in choices:
        weights = [option.key[0] % fragmentation.above if option is not None else 0 for _, option in of_component]
        excesses.append([weight - min(weights) for weight in weights])
    highest = sum(max(each) for each in excesses)
    up_to_short = (1 << short + 1) - 1  # the bits 0 to `short`: more slots are never needed
    limit = 0
    while True:
        layers: list[dict[int, int]] = [{0: 1}]
        for each in excesses:
            after: dict[int, int] = {}
            for total, sums in layers[-1].items():
                for gain, excess in enumerate(each):
                    if total + excess <= limit:
                        after[total + excess] = after.get(total + excess, 0) | sums << gain & up_to_short
            if len(after) > MAX_LAYERS:
                return None
            layers.append(after)
        reached = [total for total, sums in layers[-1].items() if sums >> short & 1]
        if reached:
            return _walk_back(choices, excesses, layers, min(reached), short)
        if limit >= highest:
            return None
        limit = min(highest, max(fragmentation.per_node, 2 * limit))


def _walk_back(
    choices: list[list[Choice]], excesses: list[list[int]], layers: list[dict[int, int]], total: int, short: int
) -> list[Option]:
    """The choices that lead to this total and number of slots."""
    found = []
    for each, excess, before in zip(reversed(choices), reversed(excesses), reversed(layers[:-1]), strict=True):
        gain = next(
            gain for gain in range(min(short, len(each) - 1), -1, -1) if before.get(total - excess[gain], 0) >> (short - gain) & 1
        )
        total, short = total - excess[gain], short - gain
        option = each[gain][1]
        if option is not None:
            found.append(option)
    return found


def _ages_of_first_option(choices: list[Choice]) -> tuple[tuple[int, str, int], ...]:
    option = choices[1][1]
    assert option is not None, "only the first choice may be none"
    return option.key[2]


def _knapsack(parts: list[list[Choice]], short: int, budget: StepBudget) -> list[Option] | None:
    """Dynamic program over components: the best combination per number of slots gained. `None`: the budget is used up."""
    options = [option for choices in parts for _, option in choices if option is not None]
    breakers, scale = tie_breakers([step for option in options for step in option.steps])

    def weight_of(option: Option | None) -> int:
        return 0 if option is None else option.key[0] * scale + sum([breakers[step] for step in option.steps])

    best: list[tuple[int, object] | None] = [(0, None)] + [None] * short
    for choices in parts:
        if not budget.spend(_effort(choices, short)):
            return None
        before = best
        least = weight_of(choices[0][1])
        best = [None if known is None else (known[0] + least, (known[1], choices[0][1])) for known in before]
        for gain, option in choices[1:]:
            weight = weight_of(option)
            for gained in range(1, short + 1):
                base = before[gained - gain] if gained > gain else before[0]
                if base is None:
                    break  # a larger gain is impossible as well
                known = best[gained]
                if known is None or base[0] + weight < known[0]:
                    best[gained] = (base[0] + weight, (base[1], option))
    found = best[short]
    assert found is not None, "the options do not gain enough slots"
    chosen: list[Option] = []
    chain = found[1]
    while chain is not None:
        chain, option = chain  # type: ignore[misc]
        if option is not None:
            chosen.append(option)
    return chosen
