"""Attention of one new token over grouped keys, without copying the cache once for every head of a group.

With a mask, several releases of transformers repeat the keys and values of the whole cache for each query head in
every layer and step. One token's heads of a group can instead stand in the place of several tokens: same numbers.
"""

from __future__ import annotations

from typing import Any

import torch

NAME = "kernelllm_grouped"


def use(model: Any) -> bool:
    """Let a model attend this way where it takes PyTorch's own attention; return whether it does."""
    if model.config._attn_implementation == "sdpa" and _heads_to_a_key(model.config) > 1:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask

        AttentionInterface.register(NAME, attend)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)
    return bool(model.config._attn_implementation == NAME)


def attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None,
    **more: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attend as transformers' "sdpa" does; one token a row with a mask that all heads share without copies."""
    rows, heads, tokens, width = query.shape
    shared = attention_mask is not None and attention_mask.dim() == 4 and attention_mask.shape[1] == 1
    special = any(more.get(name) is not None for name in ("position_bias", "softcap"))
    if tokens > 1 or not shared or special or heads == key.shape[1]:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **more)
        return out, None
    packed = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
    made = torch.nn.functional.scaled_dot_product_attention(
        packed, key, value, attn_mask=attention_mask, scale=more.get("scaling")
    )
    return made.reshape(rows, 1, heads, value.shape[-1]), None


def _heads_to_a_key(config: Any) -> int:
    heads = getattr(config, "num_attention_heads", None) or 1
    return int(heads // (getattr(config, "num_key_value_heads", None) or heads))
