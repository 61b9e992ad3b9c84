"""The captured step: without a GPU it runs uncaptured, and must draw what transformers' own generate draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backends import grouped
from backends.decode import Decoder, supports
from backends.draw import Draw
from tests.backends import tiny
from tests.benchmarks.decode_rounding import generated, parting
from tests.benchmarks.decode_step import split


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny random model and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder: Path = tiny.build(tmp_path_factory.mktemp("tiny"))
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    return AutoModelForCausalLM.from_pretrained(folder).eval(), tokenizer


def drawn(model: Any, encoded: Any, room: int, draw: Draw) -> list[list[int]]:
    """Return the tokens, a list a row."""
    with torch.inference_mode():
        steps = list(Decoder(model).tokens(encoded["input_ids"], encoded["attention_mask"], room, draw))
    return [list(row) for row in zip(*steps, strict=True)]


def test_greedy_tokens_are_those_of_generate(loaded: Any) -> None:
    """Also for prompts of different lengths in one batch, padded on the left."""
    model, tokenizer = loaded
    assert supports(model)
    prompts = ["a short one", "a prompt that is quite a bit longer than that"]
    encoded = tokenizer(prompts, return_tensors="pt", padding=True)
    made = model.generate(**encoded, max_new_tokens=40, do_sample=False, eos_token_id=None)
    assert drawn(model, encoded, 40, Draw(0, 1)) == made[:, encoded["input_ids"].shape[1] :].tolist()


def test_a_long_answer_grows_the_cache(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was drawn before the memory was exchanged still counts: the tokens stay those of generate."""
    monkeypatch.setattr("backends.decode.STAGE", 4)
    monkeypatch.setattr("backends.decode.BUCKET", 8)
    model, tokenizer = loaded
    encoded = tokenizer(["a short one", "a prompt that is longer"], return_tensors="pt", padding=True)
    made = model.generate(**encoded, max_new_tokens=60, do_sample=False, eos_token_id=None)
    assert drawn(model, encoded, 60, Draw(0, 1)) == made[:, encoded["input_ids"].shape[1] :].tolist()


def test_draws_follow_the_chances() -> None:
    """Tokens come as often as their probabilities say, at the temperature that is set."""
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05])
    rows = chances.log().expand(20000, -1)
    counts = torch.bincount(Draw(1.0, 1.0)(rows), minlength=4) / 20000
    assert torch.allclose(counts, chances, atol=0.015)
    sharp = torch.bincount(Draw(0.5, 1.0)(rows), minlength=4) / 20000
    assert torch.allclose(sharp, chances**2 / (chances**2).sum(), atol=0.015)


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, {0}), (0.6, {0, 1}), (0.94, {0, 1, 2}), (1.0, {0, 1, 2, 3})])
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float, kept: set[int]) -> None:
    """The same tokens as transformers' own warper keeps."""
    from transformers import TopPLogitsWarper

    torch.manual_seed(0)
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert set(Draw(1.0, top_p)(logits.expand(4000, -1)).tolist()) == kept
    if top_p < 1:
        left = TopPLogitsWarper(top_p)(torch.zeros(1, 1), logits.clone())
        assert set(left.isfinite().nonzero()[:, 1].tolist()) == kept


def test_draws_within_top_p_follow_the_chances() -> None:
    """Among the tokens that top-p keeps the chances stay in proportion; of equally likely ones none is favoured."""
    torch.manual_seed(0)
    chances = torch.tensor([0.4, 0.2, 0.2, 0.15, 0.05])
    counts = torch.bincount(Draw(1.0, 0.7)(chances.log().expand(20000, -1)), minlength=5) / 20000
    assert torch.allclose(counts, torch.tensor([0.5, 0.25, 0.25, 0.0, 0.0]), atol=0.015)


def test_a_draw_where_only_one_token_is_allowed() -> None:
    """A top-p below the likeliest token's chance is greedy, however often the others come first."""
    logits = torch.tensor([[0.02] * 49 + [0.0201]]).log()
    assert Draw(1.0, 0.02)(logits.expand(500, -1)).tolist() == [49] * 500


def model_of_groups(kind: torch.dtype = torch.float32, attention: str = "sdpa") -> Any:
    """A random model in which four heads share a key."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=1024, pad_token_id=0, attn_implementation=attention,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(kind).eval()
    model.generation_config.eos_token_id = None
    return model


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_heads_that_share_keys(attention: str) -> None:
    """Greedy tokens of a padded batch are those of generate, whichever attention the model computes."""
    model = model_of_groups(attention=attention)
    ids = torch.randint(8192, (2, 30))
    mask = torch.ones_like(ids)
    mask[0, :11] = 0
    encoded = {"input_ids": ids, "attention_mask": mask}
    made = model.generate(**encoded, max_new_tokens=30, do_sample=False)
    assert drawn(model, encoded, 30, Draw(0, 1)) == made[:, 30:].tolist()
    assert (model.config._attn_implementation == grouped.NAME) == (attention == "sdpa")


def test_the_cache_is_not_copied_for_each_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a step the fused kernel is given the cache's own memory, of as many heads as there are keys."""
    model = model_of_groups()
    attend, seen = torch.nn.functional.scaled_dot_product_attention, []
    monkeypatch.setattr(
        "torch.nn.functional.scaled_dot_product_attention",
        lambda q, k, v, **more: seen.append((q.shape, k.shape[1], k.data_ptr())) or attend(q, k, v, **more),
    )
    drawn(model, {"input_ids": torch.ones(3, 5).long(), "attention_mask": torch.ones(3, 5).long()}, 4, Draw(0, 1))
    steps = [call for call in seen if call[0][1] == 2]
    assert len(steps) == 3 * 3 and all(shape == (3, 2, 4, 16) and heads == 2 for shape, heads, _ in steps)
    assert len({place for _, _, place in steps}) == 3  # one cache a layer, the same in every step


def test_half_precision_parts_by_rounding_alone() -> None:
    """In bfloat16 the captured step is as near to float32 as plain generate is: where tokens part, neither is wrong."""
    half, steps = model_of_groups(torch.bfloat16), 24
    exact = model_of_groups().bfloat16().float()
    ids = torch.randint(8192, (1, 100))
    tokens, plain = generated(half, ids, steps)
    found = parting(half, ids, steps)
    until = min(found.tokens + 1, steps)
    whole = torch.cat([ids, torch.tensor([tokens])], 1)
    with torch.inference_mode():
        true = exact(input_ids=whole).logits[0, 99:-1][:until]
    error = (plain[:until] - true).abs().max().item()
    assert found.apart <= 2 * error and "MORE" not in str(found)


def test_the_parts_of_a_step_are_measured() -> None:
    """The benchmark's split runs without a GPU too, and names what takes longest."""
    ids = torch.ones(2, 8).long()
    parts = split(model_of_groups(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert parts.model > 0 and parts.host > 0 and len(parts.kernels) == 5 and "choosing" in str(parts)
