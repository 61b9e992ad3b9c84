"""A language model of 27 thousand random weights with a byte tokenizer, made in 0.1 s: the product's ordinary path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}<|assistant|>"


def build(folder: Path, *, chat: bool = True) -> Path:
    """Save the model into a folder and return it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=259, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8192, tie_word_embeddings=True, bos_token_id=257,
        eos_token_id=258, pad_token_id=256,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    _tokenizer(chat).save_pretrained(folder)
    return folder


def teach(folder: Path, prompt: str, answer: str) -> None:
    """Train the model until greedy drawing answers the prompt with the text."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    start = tokenizer(prompt, return_tensors="pt")["input_ids"]
    end = tokenizer(answer, return_tensors="pt", add_special_tokens=False)["input_ids"]
    ids = torch.cat([start, end, torch.tensor([[tokenizer.eos_token_id]])], 1)
    labels = ids.clone()
    labels[:, : start.shape[1]] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(600):
        loss = model(ids, labels=labels).loss
        if loss.item() < 0.01:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)


def _tokenizer(chat: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*alphabet, "<pad>", "<|begin_of_text|>", "<eos>"]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 257)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|begin_of_text|>", eos_token="<eos>", pad_token="<pad>",
        chat_template=CHAT if chat else None,
    )  # fmt: skip
