"""How two of our processes talk: length-prefixed JSON with raw byte blobs over a socket of their own.

Never a pickle, never stdout: pasted code prints, and what comes back is data to be judged.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

_HEAD = struct.Struct("!IQ")
_PIECE = 1 << 20
JSON_LIMIT = 16 << 20
BLOB_LIMIT = 4 << 30


class BrokenFrame(Exception):
    """The other side sent something that is not a frame, or one beyond the limits."""


class Channel:
    """One end of a conversation. `ended` turns true when the other side is gone."""

    def __init__(self, sock: socket.socket, blob_limit: int = BLOB_LIMIT) -> None:
        self._sock = sock
        self._pending = bytearray()
        self.blob_limit = blob_limit
        self.ended = False
        self._sock.setblocking(True)

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._sock.fileno()

    def send(self, message: dict[str, Any], blobs: Sequence[Any] = ()) -> None:
        """Send one message; the blobs travel as raw bytes behind it. A listener that is gone is not an error."""
        sizes = [memoryview(blob).nbytes for blob in blobs]
        text = json.dumps({**message, "blobs": sizes} if blobs else message).encode()
        try:
            self._sock.sendall(_HEAD.pack(len(text), sum(sizes)) + text)
            for blob in blobs:
                self._sock.sendall(memoryview(blob).cast("B") if memoryview(blob).nbytes else b"")
        except OSError:
            self.ended = True

    def receive(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Return the next message, or None when the time is over or the other side is gone (see `ended`)."""
        frame = self.receive_frame(timeout)
        return frame[0] if frame else None

    def receive_frame(self, timeout: float | None = None) -> tuple[dict[str, Any], list[bytes]] | None:
        """Return the next message with its blobs; None as in `receive`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._fill(_HEAD.size, deadline):
            return None
        text_size, blob_size = _HEAD.unpack_from(self._pending)
        if text_size > JSON_LIMIT or blob_size > self.blob_limit:
            raise BrokenFrame(f"a message of {text_size + blob_size} bytes")
        total = _HEAD.size + text_size + blob_size
        if not self._fill(total, deadline):
            return None
        frame = bytes(self._pending[_HEAD.size : total])
        del self._pending[:total]
        return _decode(frame, text_size, blob_size)

    def hung_up(self) -> bool:
        """Look, without waiting, whether the other side is gone; `ended` only knows it after a receive."""
        if not self.ended and select.select([self._sock], [], [], 0)[0]:
            try:
                self.ended = not self._sock.recv(1, socket.MSG_PEEK)
            except OSError:
                self.ended = True
        return self.ended

    def finish(self) -> None:
        """Send no more; what the other side still has to say can be received."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Let whoever waits here, in another thread, hear that the other side is gone; then `close`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and give the socket back."""
        self.ended = True
        self._sock.close()

    def _fill(self, size: int, deadline: float | None) -> bool:
        while len(self._pending) < size:
            if self.ended:
                return False
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._sock], [], [], left)[0]:
                return False
            try:
                piece = self._sock.recv(min(_PIECE, size - len(self._pending) + 4096))
            except OSError:
                piece = b""
            self.ended = not piece
            self._pending += piece
        return True


def _decode(frame: bytes, text_size: int, blob_size: int) -> tuple[dict[str, Any], list[bytes]]:
    try:
        message = json.loads(frame[:text_size])
    except ValueError as fault:
        raise BrokenFrame("a message that is not JSON") from fault
    if not isinstance(message, dict):
        raise BrokenFrame("a message that is not an object")
    sizes = message.pop("blobs", [])
    if not all(isinstance(size, int) and size >= 0 for size in sizes) or sum(sizes) != blob_size:
        raise BrokenFrame("blobs that do not fit their announcement")
    blobs, at = [], text_size
    for size in sizes:
        blobs.append(frame[at : at + size])
        at += size
    return message, blobs
