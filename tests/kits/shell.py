"""A person at a shell beside a task, on the frames of a terminal."""

import asyncio

from bailiff.attach.frames import INPUT, OUTPUT, frame, next_frame


class Shell:
    """What a person at a shell types and sees."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer, self.screen = reader, writer, ""

    async def asks(self, command: str) -> str:
        """What the command prints."""
        self.writer.write(frame(INPUT, f"echo '<<'; {command}; echo '>''>'\r".encode()))
        self.screen = ""
        while ">>" not in self.screen:
            await self.sees()
        return self.screen.rpartition("<<\r\n")[2].partition(">>")[0].strip()

    async def sees(self) -> str:
        """The screen, with what is shown next."""
        found = await asyncio.wait_for(next_frame(self._reader), 60)
        assert found is not None, self.screen
        assert found[0] == OUTPUT
        self.screen += found[1].decode(errors="replace")
        return self.screen

    async def ended(self) -> None:
        """The connection ends."""
        while await asyncio.wait_for(next_frame(self._reader), 60) is not None:
            pass
        self.writer.close()
