"""Numbers of a layer that the kernel is written for: the file refuses a layer with others."""

from __future__ import annotations

import inspect

from backends.compiler.build import Builder
from backends.compiler.host import state_text


def layer_numbers(builder: Builder, names: tuple[str, ...]) -> None:
    """Hold the file to a layer's attributes, where the constructor's arguments may change them."""
    module = builder.host.module
    path = builder.origin.module
    if not path or not inspect.signature(type(module).__init__).parameters.keys() - {"self"}:
        return
    layer = module.get_submodule(path)
    held = {name: getattr(layer, name) for name in names if hasattr(layer, name)}
    if not held:
        return
    owner = state_text(path)
    texts, values = [f"{owner}.{name}" for name in held], list(held.values())
    many = len(held) > 1
    found = f"({', '.join(texts)})" if many else texts[0]
    wanted = f"({', '.join(map(repr, values))})" if many else repr(values[0])
    shown = ", ".join(f"{name}={value!r}" for name, value in held.items())
    builder.guards[f"{found} != {wanted}"] = f"written for {owner} with {shown}"
