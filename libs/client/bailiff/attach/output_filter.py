"""What a task's output may do to the terminal that shows it.

Text, colours, and movement of the cursor pass. Left out are the sequences that reach beyond the screen: strings to the terminal
itself (OSC, DCS, APC, PM, SOS: the window's title, the clipboard, definitions of keys), printing, and changes of the window.
"""

from __future__ import annotations

import re

ESC, BEL, CANCEL = 0x1B, 0x07, (0x18, 0x1A)
STRINGS = b"]PX^_k"
LEFT_OUT = b"ti"  # final bytes: changes of the window, printing
MAX_SEQUENCE, MAX_STRING = 64, 64 * 1024
SPECIAL = re.compile(rb"[\x1b\xc2]")
MODE = re.compile(rb"\[\?([0-9;]+)([hl])")
CURSOR = 25  # the one mode here that is on at first


class OutputFilter:
    """The filter of one connection; a sequence may come in parts."""

    def __init__(self) -> None:
        self._state, self._sequence, self._length = "text", bytearray(), 0
        self._changed: dict[int, bool] = {}

    def feed(self, data: bytes) -> bytes:
        """What is shown of this output."""
        out, at = bytearray(), 0
        while at < len(data):
            if self._state == "text":
                found = SPECIAL.search(data, at)
                end = found.start() if found else len(data)
                out += data[at:end]
                if found:
                    self._state = "escape" if data[end] == ESC else "c2"
                at = end + 1
            else:
                out += self._take(data[at])
                at += 1
        return bytes(out)

    def undo(self) -> bytes:
        """What restores the terminal: the modes that the output has changed, colours, the cursor."""
        changed = [(mode, on) for mode, on in self._changed.items() if on != (mode == CURSOR)]
        back = [b"\x1b[?%d%b" % (mode, b"l" if on else b"h") for mode, on in changed]
        return b"".join([*back, b"\x1b[0m"])

    def _take(self, byte: int) -> bytes:
        if self._state == "c2":  # U+0080 to U+009F are control characters to some terminals
            self._state = "text"
            return b"" if 0x80 <= byte <= 0x9F else bytes((0xC2, byte))
        if self._state in ("string", "string-escape"):
            return self._in_string(byte)
        if self._state == "escape":
            if byte == ord("["):
                self._state, self._sequence = "csi", bytearray(b"[")
                return b""
            if byte in STRINGS:
                self._state, self._length = "string", 0
                return b""
            self._state = "escape" if byte == ESC else "text"
            return b"" if byte == ESC else bytes((ESC, byte))
        return self._in_csi(byte)

    def _in_csi(self, byte: int) -> bytes:
        if byte == ESC or byte in CANCEL or len(self._sequence) >= MAX_SEQUENCE:
            self._state = "escape" if byte == ESC else "text"
            return b""
        if byte < 0x20:  # control characters count inside of a sequence, too
            return bytes((byte,))
        self._sequence.append(byte)
        if byte < 0x40:
            return b""
        self._state = "text"
        if byte in LEFT_OUT:
            return b""
        self._note_mode()
        return b"\x1b" + bytes(self._sequence)

    def _in_string(self, byte: int) -> bytes:
        self._length += 1
        ended = self._state == "string-escape" or byte == BEL or byte in CANCEL or self._length > MAX_STRING
        self._state = "text" if ended else "string-escape" if byte == ESC else "string"
        return b""

    def _note_mode(self) -> None:
        found = MODE.fullmatch(self._sequence)
        for text in found[1].split(b";") if found else ():
            if text and len(text) <= 5 and found is not None and len(self._changed) < 256:
                self._changed[int(text)] = found[2] == b"h"
