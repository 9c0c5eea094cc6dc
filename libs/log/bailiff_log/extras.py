"""How to install what only some commands need."""


def how_to_install(extra: str) -> str:
    """The line that installs an extra. From a checkout: on the package index, Bailiff's names may be those of other programs."""
    return f"install it in a checkout of Bailiff: pip install ./libs/core './libs[{extra}]'"
