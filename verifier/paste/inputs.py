"""Writes get_inputs() and get_init_inputs() where the paste has none: from its own example, else guessed."""

from __future__ import annotations

import ast

from verifier.paste import examples, shapes, sizes
from verifier.paste.choose import ModuleClass
from verifier.paste.evaluate import constants
from verifier.paste.layers import Layers
from verifier.paste.statements import Statement
from verifier.paste.syntax import Code


def made(
    code: Code, body: list[Statement], table: dict[str, str], classes: dict[str, ModuleClass], module: ModuleClass
) -> tuple[str, ...] | None:
    """Return the text to add and the notes about it, or None where nothing is missing."""
    defined = {name for s in body for name in s.bound}
    has_inputs, has_init = "get_inputs" in defined, "get_init_inputs" in defined
    if has_inputs and has_init:
        return None
    text = ""
    notes: list[str] = []
    values = dict(constants(body))
    functions = {s.node.name: s.node for s in body if isinstance(s.node, ast.FunctionDef)}
    layers = Layers(classes, table, functions)
    if has_init:
        known = sizes.given(body, module, values)
    else:
        added, note, known = _constructor(body, module, layers, values, has_inputs)
        text, notes = text + added, notes + note
    if not has_inputs:
        added, note = _arguments(body, module, layers, values, known)
        text, notes = added + text, note + notes
    return text, *notes


def _constructor(
    body: list[Statement], module: ModuleClass, layers: Layers, values: dict[str, object], has_inputs: bool
) -> tuple[str, list[str], dict[str, object]]:
    names = sizes.parameter_names(module.init)
    call = examples.construction(body, module.name)
    texts = call.positional(names) if call else None
    if call and texts is not None:
        known = sizes.known(body, module, dict(zip(names, texts, strict=False)), values)
        shown = f"[{', '.join(texts)}]"
        notes = [f"no get_init_inputs(): took {shown} from the paste's own {module.name}(…)"] if texts else []
        return _function("get_init_inputs", call.before, shown), notes, known
    guessed = sizes.guessed(body, layers.classes, module)
    if has_inputs:
        guessed |= shapes.fitted(body, module, layers, values, guessed)
    shown = f"[{', '.join(guessed.values())}]"
    keywords = sizes.required_keywords(module.init)
    if keywords:
        shown = f"[{shown}, {{{', '.join(f'{name!r}: {text}' for name, text in keywords.items())}}}]"
        guessed |= keywords
    note: list[str] = []
    if guessed:
        told = ", ".join(f"{name}={text}" for name, text in guessed.items())
        note = [f"no get_init_inputs(): guessed {told}; change it to your sizes"]
    return _function("get_init_inputs", (), shown), note, sizes.known(body, module, guessed, values)


def _arguments(
    body: list[Statement], module: ModuleClass, layers: Layers, values: dict[str, object], known: dict[str, object]
) -> tuple[str, list[str]]:
    names = sizes.parameter_names(module.forward)
    call = examples.use(body, module.name, is_class=True) or _wrapped_use(body, module)
    call = call or examples.named(body, sizes.required_names(module.forward))
    texts = call.positional(names) if call else None
    if call and texts is not None:
        shown = f"[{', '.join(texts)}]"
        shown_whole = "; ".join([*call.before, shown])
        return _function("get_inputs", call.before, shown), [
            f"no get_inputs(): took {shown_whole} from the paste's own example"
        ]
    required = sizes.required_names(module.forward) if module.forward else ["input"]
    guess = [shapes.guessed(name, module, layers, {**values, **known}) for name in required]
    shown = f"[{', '.join(g.text for g in guess)}]"
    why = next((f" from {g.reason}" for g in guess if g.reason), "")
    note = [f"no get_inputs(): guessed {shown}{why}; change it to your sizes"] if guess else []
    return _function("get_inputs", (), shown), note


def _wrapped_use(body: list[Statement], module: ModuleClass) -> examples.Call | None:
    """For a function wrapped in a Model: the example call of the function, less what was written in."""
    doc = ast.get_docstring(module.node) or ""
    if not doc.startswith("Calls ") or module.forward is None:
        return None
    call = examples.use(body, doc.removeprefix("Calls ").rstrip("."), is_class=False)
    if call is None:
        return None
    arguments = tuple(a for a in call.arguments if not isinstance(a, ast.Constant))
    keywords = tuple((k, v) for k, v in call.keywords if not isinstance(v, ast.Constant))
    return examples.Call(call.before, arguments, keywords)


def _function(name: str, before: tuple[str, ...], shown: str) -> str:
    lines = "".join(f"    {line}\n" for text in before for line in text.split("\n"))
    return f"\n\ndef {name}():\n{lines}    return {shown}\n"
