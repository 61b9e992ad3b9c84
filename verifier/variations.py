"""Other values and other sizes for a problem's inputs. Which of them a problem admits is found by trying, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verifier.tree import flatten, map_tensors

MAX_DRAWS = 3  # a dimension grows at most to four times its size


def revalue(values: str, inputs: Any, seed: int) -> Any:
    """Change the floating point data of the inputs: negated, large, tiny, ties, special."""
    change = VALUES[values]

    def changed(tensor: Tensor) -> Tensor:
        if not _is_data(tensor):
            return tensor
        generator = torch.Generator().manual_seed(seed)
        new = change(tensor, generator)
        if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
            return new  # an expanded tensor cannot be written element by element
        return tensor.copy_(new)  # in place: strides are part of the input

    return map_tensors(changed, inputs)


def _is_data(tensor: Tensor) -> bool:
    """Leave masks and one-hot codes alone: only real-valued data may be moved."""
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    return bool(((tensor != 0) & (tensor != 1)).any())


def _special(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Put extreme values on a few places that are not zero: structure such as padding or a triangle stays."""
    specials = torch.tensor([0.0, -0.0, 89.0, -89.0, 1e4, -1e4], dtype=tensor.dtype, device=tensor.device)
    flat = tensor.reshape(-1).clone()
    if bool((flat >= 0).all()):
        specials = specials.abs()
    count = max(len(specials), min(flat.numel() // 64, 2**16))
    places = torch.randint(0, flat.numel(), (count,), generator=generator).to(tensor.device)
    places = places[flat[places] != 0]
    flat[places] = specials[torch.arange(len(places), device=tensor.device) % len(specials)]
    return flat.reshape(tensor.shape)


VALUES: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "negated": lambda x, _: -x,
    "large": lambda x, _: x * 100,
    "tiny": lambda x, _: x * 1e-3,
    "ties": lambda x, _: torch.round(x * 4) / 4,
    "special": _special,
}


@dataclass(frozen=True)
class Resize:
    """Dimensions that change together: (tensor number, axis) pairs, and size -> times * size + plus."""

    places: tuple[tuple[int, int], ...]
    times: int
    plus: int

    def text(self) -> str:
        """Return the form kept in a Case."""
        return ",".join(f"{tensor}.{axis}" for tensor, axis in self.places) + f"={self.times}n{self.plus:+d}"

    @classmethod
    def parse(cls, text: str) -> Resize:
        """Read what `text` wrote."""
        places, _, rule = text.partition("=")
        times, _, plus = rule.partition("n")
        pairs = (place.split(".") for place in places.split(","))
        return cls(tuple((int(t), int(a)) for t, a in pairs), int(times), int(plus))

    def size(self, old: int) -> int:
        """Return the new size of a dimension."""
        return self.times * old + self.plus


def resize(sizes: str, inputs: Any, more: Iterator[Any]) -> Any:
    """Change sizes; new elements come from further draws of get_inputs, so that indices stay in range."""
    rule = Resize.parse(sizes)
    axes: dict[int, list[int]] = {}
    for number, axis in rule.places:
        axes.setdefault(number, []).append(axis)
    tensors = list(flatten(inputs).tensors)
    most = max(-(-rule.size(tensors[t].shape[a]) // tensors[t].shape[a]) for t, a in rule.places)
    draws = [tensors] + [list(flatten(next(more)).tensors) for _ in range(most - 1)]
    counter = iter(range(len(tensors)))

    def resized(tensor: Tensor) -> Tensor:
        number = next(counter)
        return _resized(tensor, [draw[number] for draw in draws], axes.get(number, []), rule)

    return map_tensors(resized, inputs)


def _resized(tensor: Tensor, draws: list[Tensor], axes: list[int], rule: Resize) -> Tensor:
    for axis in axes:
        size = rule.size(tensor.shape[axis])
        longer = [draw if draw.shape == draws[0].shape else draws[0] for draw in draws]
        turns = [torch.cat(longer[i:] + longer[:i], axis) for i in range(len(longer))]
        draws = [turn.narrow(axis, 0, size).contiguous() for turn in turns]
        tensor = draws[0]
    return tensor


def size_rules(shapes: list[tuple[int, ...]]) -> list[tuple[str, list[Resize]]]:
    """List what may be tried, most telling first: each kind of change with its ways to group the dimensions.

    The first way that the reference accepts is used: a batch that all inputs share, every dimension of
    that size, then a single tensor's.
    """
    wanted = []
    for kind, axis, plan in (("one row", 0, (0, 1)), ("odd", 0, None), ("odd last", -1, None), ("larger", 0, (2, 3))):
        lead = next((s for s in shapes if len(s) > (1 if axis else 0)), None)
        if lead is None or lead[axis] == 0 or (kind == "one row" and lead[axis] == 1):
            continue
        times, plus = plan or (1, 1 if lead[axis] % 2 == 0 else 2)
        wanted.append((kind, [Resize(places, times, plus) for places in _groups(shapes, axis)]))
    return wanted


def _groups(shapes: list[tuple[int, ...]], axis: int) -> Iterator[tuple[tuple[int, int], ...]]:
    first = next(n for n, shape in enumerate(shapes) if len(shape) > (1 if axis else 0))
    at = axis % len(shapes[first])
    size = shapes[first][at]
    same_axis = [(n, axis % len(s)) for n, s in enumerate(shapes) if s and s[axis] == size]
    anywhere = [(n, a) for n, s in enumerate(shapes) for a, length in enumerate(s) if length == size]
    seen: set[tuple[tuple[int, int], ...]] = set()
    for places in (tuple(same_axis), tuple(anywhere), ((first, at),)):
        if places not in seen:
            seen.add(places)
            yield places
