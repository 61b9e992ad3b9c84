"""`server`: any OpenAI-compatible endpoint as a backend, one streamed request a candidate, several at a time."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from typing import Any

from backends import BackendUnavailable, Chunk, Drawing, Request, Spawn
from backends.briefing import Briefing
from backends.drawing import Threads
from backends.model_name import wants_raw_prompt
from backends.parameters import MAX_TOKENS, RAW_TOKENS, Parameters, heat, sampled, speaks_of_context
from backends.presets import Address, check_key, is_local, key_names, read
from backends.prompt import messages, raw
from backends.reply import Splitter
from backends.server_events import Piece, pieces
from backends.transport import CONNECT_SECONDS, BrokenOff, Lines, decoded, events, reason

SILENCE_SECONDS = 300.0
"""A model that thinks may say nothing for minutes."""

PARALLEL = 8
"""Requests at a time, at most: enough to keep a serving engine's batch full without waiting in its queue."""

ATTEMPTS = 4
PAUSES = (0.5, 2.0, 5.0)
LONGEST_PAUSE = 60.0

LONGER_CONTEXT = "the module and what was found of it are too long for this model: use one with a longer context"

_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}


class Server:
    """Draws answers from a server; holds no connection between requests."""

    name = "server"

    def __init__(self, address: str | None, spawn: Spawn | None = None) -> None:
        self._address = read(address)
        check_key(self._address)
        self._lines = Lines(self._address)
        self._model = self._address.model
        self._raw = self._address.raw
        self._briefing = Briefing(spawn)
        self._parameters = Parameters()

    @property
    def takes_feedback(self) -> bool:
        """False for models tuned on one raw prompt: they are asked anew instead."""
        return not self._raw

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream one answer; raise BackendUnavailable when the server does not give it."""
        body = self._body(request)
        path = "/completions" if self._raw else "/chat/completions"
        splitter = Splitter()
        ends = time.monotonic() + request.seconds if request.seconds else None
        for attempt in range(ATTEMPTS):
            try:
                yield from self._attempt(path, body, splitter, ends)
                return
            except _Again as again:
                # Nothing of an answer was shown yet, so asking again repeats and loses nothing.
                pause = again.seconds if again.seconds is not None else PAUSES[min(attempt, len(PAUSES) - 1)]
                late = ends is not None and time.monotonic() + pause > ends
                if attempt + 1 == ATTEMPTS or pause > LONGEST_PAUSE or late:
                    asks = f", and to be asked again in {pause:.0f} s" if again.seconds else ""
                    raise BackendUnavailable(f"{self._address.name} {again.said}{asks}", again.hint) from again
                # What matters comes first: the row that shows it is short.
                yield Chunk("status", f"once more in {pause:.0f} s: {self._address.name} {again.said}")
                if self._lines.stopped.wait(pause):
                    return

    def draw(self, width: int) -> Drawing:
        """Draw several answers at a time, each by a request of its own."""
        self._lines.stopped.clear()
        here = is_local(self._address)  # it may well have this machine's GPU
        return Threads(self.write, min(width, PARALLEL), self._lines.hang_up, self._briefing.of, disturbs=here)

    def close(self) -> None:
        """End what is under way; nothing else is held."""
        self._lines.hang_up()

    def _attempt(self, path: str, body: dict[str, Any], splitter: Splitter, ends: float | None) -> Iterator[Chunk]:
        """Ask once; raise _Again when it failed before the first word and may succeed later."""
        begun = False
        try:
            for _ in range(10):  # each turn the server named something that it does not take
                silence = min(SILENCE_SECONDS, ends - time.monotonic()) if ends else SILENCE_SECONDS
                fitted = self._parameters.fitted(body)
                with self._lines.request("POST", path, fitted, silence) as response:
                    if response.status == 200:
                        for piece in pieces(events(response), self._address):
                            begun = begun or piece.kind in ("reasoning", "text")
                            yield from _chunks(piece, splitter)
                            if splitter.answered:
                                break
                        yield from splitter.finish()
                        return
                    text = response.read(4000).decode("utf-8", "replace")
                    status, after = response.status, response.getheader("Retry-After")
                if status not in (400, 422) or not self._parameters.learn(text, fitted):
                    break
        except BrokenOff as fault:
            if not begun:
                raise _Again(f"broke off: {fault}", "see the server's own log", None) from fault
            yield from splitter.finish(f"the stream broke off: {fault}")
            return
        except BackendUnavailable as fault:
            if not begun:
                raise
            yield from splitter.finish(fault.message)
            return
        said = f"answers {status}: {reason(text, self._address)}"
        if status in _BUSY:
            raise _Again(said, _hint(status, self._address), _pause(after))
        hint = LONGER_CONTEXT if speaks_of_context(text) else _hint(status, self._address)
        raise BackendUnavailable(f"{self._address.name} {said}", hint)

    def _body(self, request: Request) -> dict[str, Any]:
        self._model = self._model or self._only_model()
        self._raw = self._raw or wants_raw_prompt(self._model)
        facts = self._briefing.of(request)
        asked = {"prompt": raw(request.source)} if self._raw else {"messages": messages(request, facts)}
        return {
            "model": self._model,
            **asked,
            "stream": True,
            **sampled(*heat(request, raw=self._raw)),
            "seed": request.seed + request.candidate,
            "max_tokens": request.max_tokens or (RAW_TOKENS if self._raw else MAX_TOKENS),
        }

    def _only_model(self) -> str:
        name = self._address.name
        try:
            with self._lines.request("GET", "/models", None, CONNECT_SECONDS) as response:
                status, text = response.status, response.read(1 << 20)
        except BrokenOff as fault:
            raise BackendUnavailable(f"{name} does not answer: {fault}", "is the server running?") from fault
        if status in (401, 403):
            message = f"{name} answers {status}: {reason(text.decode('utf-8', 'replace'), self._address)}"
            raise BackendUnavailable(message, _hint(status, self._address))
        listed = decoded(text).get("data") if status == 200 else None
        names = [str(entry.get("id")) for entry in listed or [] if isinstance(entry, dict)]
        if len(names) != 1:
            offered = f"it offers {', '.join(names[:8])}" if names else "it does not list its models"
            raise BackendUnavailable(f"which model of {name}? {offered}", "name one: --model ADDRESS#MODEL")
        return names[0]


class _Again(Exception):
    """A request that failed before its first word, and may do better later."""

    def __init__(self, said: str, hint: str, seconds: float | None) -> None:
        super().__init__(said)
        self.said, self.hint, self.seconds = said, hint, seconds


def _chunks(piece: Piece, splitter: Splitter) -> Iterator[Chunk]:
    if piece.kind == "reasoning":
        yield Chunk("reasoning", piece.text)
    elif piece.kind == "text":
        yield from splitter.feed(piece.text)
    else:
        splitter.cut = splitter.cut or piece.text


def _pause(after: str | None) -> float | None:
    """Read Retry-After: seconds, or a date."""
    if not after:
        return None
    try:
        return max(float(after), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _hint(status: int, address: Address) -> str:
    if status in (401, 403):
        return f"put the key into {key_names(address)}"
    if status == 402:
        return "the account there has no credit left"
    if status == 404:
        return "check the address and the model's name; the address usually ends in /v1"
    return "it is overloaded or limits you; try later, or a smaller -k" if status == 429 else "see the server's own log"
