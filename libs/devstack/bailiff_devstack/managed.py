"""Base class of servers that are started and stopped as context managers."""

from abc import ABC, abstractmethod
from typing import Self


class Managed(ABC):
    """`with` starts it and closes it, also when the start fails: nothing is left running."""

    @abstractmethod
    def start(self) -> object:
        """Start it; returns when it is ready."""

    @abstractmethod
    def close(self) -> None:
        """Stop it if it is running."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
