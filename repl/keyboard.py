"""The keyboard as prompt_toolkit reads it, with raw pastes recognised: many keys at once are one paste."""

from __future__ import annotations

import select

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

MANY = 16
"""More keys than hands press between two looks at the keyboard."""

_ENTERS = (Keys.ControlM, Keys.ControlJ)


class Keyboard:
    """Reads keys from a prompt_toolkit input, those first that were typed before there was a prompt."""

    def __init__(self, source: Input, typed: str = "") -> None:
        self._source = source
        self._read = source.read_keys
        self.unbracketed = False
        """Whether the paste among the keys read last was gathered here, so that its end is only a guess."""
        setattr(source, "read_keys", lambda: self._gather(self._read()))  # noqa: B010 - replacing a method is meant
        if typed:
            store_typeahead(source, self._gather(_pressed(typed)))

    def more(self, wait: float) -> bool:
        """Tell whether a key is waiting in the terminal, or comes soon; where that cannot be asked, none is."""
        try:
            return bool(select.select([self._source.fileno()], [], [], wait)[0])
        except (OSError, ValueError, NotImplementedError):
            return False

    def _gather(self, presses: list[KeyPress]) -> list[KeyPress]:
        found = gathered(presses)
        self.unbracketed = found is not presses
        return found


def gathered(presses: list[KeyPress]) -> list[KeyPress]:
    """Make one paste of many plain keys that came at once; an Enter at their end stays a key.

    prompt_toolkit takes 0.3 ms for each key: 124 lines pasted raw would take two seconds.
    """
    body = presses[:-1] if presses and presses[-1].key in _ENTERS else presses
    plain = all(press.key in _ENTERS or press.data == "\t" or press.data == press.key for press in body)
    if len(body) < MANY or not plain or body[0].data == "/":
        return presses
    return [KeyPress(Keys.BracketedPaste, "".join(press.data for press in body)), *presses[len(body) :]]


def _pressed(typed: str) -> list[KeyPress]:
    """The keys that a terminal sends as this text."""
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed(typed)
    parser.flush()
    return presses
