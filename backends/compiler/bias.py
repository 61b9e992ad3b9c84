"""The bias of a convolution that stays in the library is added by the kernel that reads the result.

On a GPU PyTorch adds it in a pass of its own over the whole result, which the next kernel reads anyway.
"""

from __future__ import annotations

import torch
from torch import nn

from backends.compiler.environment import Environment
from backends.compiler.host import state_text
from backends.compiler.nodes import leaf_call
from backends.compiler.rules import RULES, schema_name
from backends.compiler.rules.normalization import over_channels
from backends.compiler.stay import left

READERS = frozenset("activation arithmetic function gate normalization power reduction softmax".split())
"""Families of rules whose operators read a tensor element by element, in a kernel."""

LAYERS = {
    nn.Conv1d: "conv1d",
    nn.Conv2d: "conv2d",
    nn.Conv3d: "conv3d",
    nn.ConvTranspose1d: "conv_transpose1d",
    nn.ConvTranspose2d: "conv_transpose2d",
    nn.ConvTranspose3d: "conv_transpose3d",
}
SETTINGS = ("stride", "padding", "dilation", "groups")
TRANSPOSED = ("stride", "padding", "output_padding", "groups", "dilation")


def added_apart(env: Environment, run: list[torch.fx.Node], reason: str) -> bool:
    """Leave a convolution to the library without its bias, if only kernels read it; False where that is not so."""
    node, call = run[0], leaf_call(run[0])
    assert call is not None
    module = env.captured.module.get_submodule(call[0])
    if len(run) > 1 or not _has_bias(module) or not all(map(_is_kernels, node.users)):
        return False
    own, name = state_text(call[0]), LAYERS[type(module)]
    settings = [f"{own}.{key}" for key in (TRANSPOSED if "transpose" in name else SETTINGS)]
    x, _, bias = node.all_input_nodes
    text = f"F.{name}({{0}}, {', '.join([f'{own}.weight', 'None', *settings])})"
    out = left(env, node, name, text, [x], f"{reason}; its bias is added by the next kernel")
    env.builder.results = [node.meta["val"]]
    state = over_channels(env.builder, env.values[bias], int(name[-2]))
    added = env.builder.element(out, out.dtype) + env.builder.element(state, out.dtype)
    env.values[node] = env.builder.pointwise("bias", added, out.dtype)
    return True


def _has_bias(module: nn.Module) -> bool:
    """Tell whether a layer is PyTorch's own, with a bias and without hooks: those would not be called."""
    if type(module) not in LAYERS or module._forward_pre_hooks or module._forward_hooks:
        return False
    return module._parameters.get("weight") is not None and module._parameters.get("bias") is not None


def _is_kernels(node: torch.fx.Node) -> bool:
    rule = RULES.get(schema_name(node.target))
    return rule is not None and rule.__module__.rpartition(".")[2] in READERS
