"""The person's terminal, or whatever standard input and output are: raw while attached, and restored at every end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from typing import TYPE_CHECKING, Any

from .detach_keys import DetachKeys
from .frames import INPUT, OUTPUT, SKIPPED, frame, next_frame, resize
from .output_filter import OutputFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_BYTES = 4096


class LocalTerminal:
    """The terminal of the person, for one connection after the other.

    Args:
        keys: The keys that detach.
    """

    def __init__(self, keys: bytes) -> None:
        self._keys, self._filter = keys, OutputFilter()
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._raw, self._shown = os.isatty(self._in), os.isatty(self._out)

    @contextlib.contextmanager
    def raw(self) -> Iterator[None]:
        """Every key goes to the task, Ctrl-C too. What the terminal itself has typed since is dropped at the end."""
        before: Any = termios.tcgetattr(self._in) if self._raw else None
        try:
            if self._raw:
                tty.setraw(self._in, termios.TCSADRAIN)
            yield
        finally:
            if self._shown:
                os.write(self._out, self._filter.undo())
            if self._raw:
                termios.tcsetattr(self._in, termios.TCSAFLUSH, before)

    def notice(self, text: str) -> None:
        """A line of Bailiff's own, amid the task's output."""
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"\r\n[bailiff] {text}\r\n".encode() if self._raw else f"[bailiff] {text}\n".encode())

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Pass keys and output on until the person detaches (True) or the connection ends (False)."""
        import signal

        loop = asyncio.get_running_loop()
        if self._shown:
            self._send_size(writer)
            loop.add_signal_handler(signal.SIGWINCH, self._send_size, writer)
        typing, showing = asyncio.create_task(self._type(writer)), asyncio.create_task(self._show(reader))
        try:
            await asyncio.wait((typing, showing), return_when=asyncio.FIRST_COMPLETED)
            if showing.done() or not typing.result():
                await showing
                return False
            return True
        finally:
            typing.cancel()
            showing.cancel()
            await asyncio.gather(typing, showing, return_exceptions=True)
            if self._shown:
                loop.remove_signal_handler(signal.SIGWINCH)

    def _send_size(self, writer: asyncio.StreamWriter) -> None:
        size = os.get_terminal_size(self._out)
        writer.write(resize(size.lines, size.columns))

    async def _type(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the person has detached; False at the end of the input, or if the connection is gone."""
        keys = DetachKeys(self._keys)
        while True:
            if not await _readable(self._in) or not (data := os.read(self._in, READ_BYTES)):
                return False
            sent, detached = keys.feed(data) if self._raw else (data, False)
            try:
                if sent:
                    writer.write(frame(INPUT, sent))
                    await writer.drain()
            except OSError:
                return False
            if detached:
                return True

    async def _show(self, reader: asyncio.StreamReader) -> None:
        while (found := await next_frame(reader)) is not None:
            kind, content = found
            if kind == OUTPUT:
                data = self._filter.feed(content) if self._shown else content
                await asyncio.to_thread(_write_all, self._out, data)
            elif kind == SKIPPED:
                self.notice(f"{int.from_bytes(content, 'big')} bytes of output were left out: this terminal was too slow")


async def _readable(handle: int) -> bool:
    """Wait until something can be read; False for a file, which has no such moment."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(handle, ready.set)
    except PermissionError:
        return False
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)
    return True


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
