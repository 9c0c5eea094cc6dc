"""What is started and ended with `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """`with` starts it and closes it, and closes it also where it does not come up: nothing of it is left running."""

    @abstractmethod
    def start(self) -> object:
        """Returns when it can be used."""

    @abstractmethod
    def close(self) -> None:
        """End what runs of it, if anything does."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
