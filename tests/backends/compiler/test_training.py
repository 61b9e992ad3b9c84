"""Layers in training mode: statistics of the batch, and what a call leaves behind in the module."""

from __future__ import annotations

import re

from tests.backends.compiler.written import kernels, source, triton

NORM = "self.norm = nn.BatchNorm2d(8)"


def test_batch_norm_by_the_batch_reads_it_twice() -> None:
    """One kernel for each image's statistics, one that puts them together, one that normalises, with the tail."""
    text = triton(source("return F.relu(self.norm(x0))", (4, 8, 16, 16), init=NORM))
    assert kernels(text) == ["image_mean_image_variance", "batch_mean_channel_scale", "batch_norm_relu"]
    assert "In PyTorch: nothing" in text


def test_running_statistics_are_written_where_they_lie() -> None:
    """The launcher allocates no new ones; the kernel reads and stores the same pointer."""
    text = triton(source("return self.norm(x0)", (4, 8, 16, 16), init=NORM))
    assert text.count("tl.store(running_mean_ptr") == 1 and text.count("tl.load(running_mean_ptr") == 1
    assert not re.search(r"running_mean = \w+\.(new_)?empty", text)
    assert "self.norm.num_batches_tracked += 1" in text


def test_a_file_for_training_refuses_evaluation() -> None:
    """In evaluation mode a batch norm is another formula, so the file says so."""
    text = triton(source("return self.norm(x0)", (4, 8, 16, 16), init=NORM))
    assert "if not self.norm.training:" in text and "call .train() first" in text


def test_many_layers_ask_for_the_mode_once() -> None:
    """A network of many batch norms has one question in front, not one for each."""
    norms = "\n".join(f"self.norm{index} = nn.BatchNorm2d(8)" for index in range(4))
    text = triton(source("return self.norm0(self.norm1(self.norm2(self.norm3(x0))))", (4, 8, 16, 16), init=norms))
    assert text.count("call .train() first") == 1 and "self.modules()" in text


def test_statistics_that_something_else_reads_stay_in_pytorch() -> None:
    """Nothing may read a running mean before or after it should: where forward uses it itself, PyTorch keeps order."""
    text = triton(source("return self.norm(x0) + self.norm.running_mean.sum()", (4, 8, 16, 16), init=NORM))
    assert "self.norm(x0)" in text and "batch_norm:" in text
