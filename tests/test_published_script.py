"""What the script published with facebook/KernelLLM gets wrong, one test each that ours gets it right.

`pytest --collect-only -q -k published` prints the list.
"""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backends import Request
from backends.answers import prompt_for
from backends.generation import Sampling
from backends.local import Local
from backends.reply import chunks
from backends.weights import Weights
from kernelllm import KernelLLM, main
from tests.repl.modules import SMALL
from verifier.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "\n<|begin_of_text|>Convert MODULE:\n"


def text_of(weights: Weights, sampling: Sampling) -> str:
    """Draw one answer to the prompt that the model was taught."""
    return "".join(weights.stream(PROMPT, sampling))


def at_the_prompt(text: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
    """Type at the prompt of a terminal that cannot draw, and leave."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    command = [sys.executable, "-m", "tests.repl.fake", "quick", "--plain"]
    return subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_the_pasted_module_is_converted_and_not_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompt put its own HingeLoss sample to the model, whatever was pasted."""
    assert at_the_prompt(f"{SMALL}\n.\n", tmp_path, monkeypatch).returncode == 0
    (kept,) = tmp_path.rglob("*-problem.py")
    assert kept.read_text().strip() == SMALL.strip()


def test_the_given_module_is_in_what_the_model_is_asked(llm: KernelLLM) -> None:
    """The module once, whole, and no other."""
    asked = prompt_for(llm._weights(), Request(SMALL, "Net"))
    assert asked.count(SMALL) == 1 and "HingeLoss" not in asked


def test_nothing_typed_starts_no_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty input was answered with the sample's kernel."""
    assert at_the_prompt("\n.\n", tmp_path, monkeypatch).returncode == 0
    assert not list(tmp_path.rglob("*-kernel.py"))


def test_the_first_characters_of_an_answer_are_kept(llm: KernelLLM) -> None:
    """It cut off the prompt by its letters, of which decoding drops 17: the fence and `import torch` were lost."""
    assert llm.generate_raw(PROMPT, temperature=0.01).startswith("```python\nimport torch\n")


def test_the_marks_at_the_beginning_are_those_it_was_measured_with(llm: KernelLLM) -> None:
    """Its prompt holds a begin-of-text mark and its tokenizer adds one: the same two go in, and neither is counted."""
    ids = llm._weights().tokens([PROMPT])["input_ids"][0].tolist()
    assert ids.count(257) == 2 and ids[0] == ids[2] == 257
    chat = llm._weights().tokens([[{"role": "user", "content": "Convert MODULE"}]])["input_ids"][0].tolist()
    assert chat.count(257) == 0  # a chat template brings its own marks: the tokenizer adds none to them


def test_the_answer_is_a_file_and_not_a_fenced_text(llm: KernelLLM) -> None:
    """It printed what the model said; a person had to cut the code out."""
    assert llm.generate_triton("MODULE", temperature=0.01) == "import torch\nclass ModelNew: 1\n"


def test_streaming_runs_where_the_model_is(llm: KernelLLM, capsys: pytest.CaptureFixture[str]) -> None:
    """It moved the inputs to CUDA, so a model on the processor or on a second device failed."""
    with pytest.warns(UserWarning, match="cut off: it reached 5 tokens"):
        llm.stream_raw("?", max_new_tokens=5)
    assert capsys.readouterr().out.endswith("\n")


def test_closed_standard_input_ends() -> None:
    """It generated the sample for ever."""
    line = f"exec {sys.executable} {ROOT / 'kernelllm.py'} <&-"
    told = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert told.returncode == 2 and "empty" in told.stderr


def test_end_of_input_at_once_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It died of an unbound variable."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "empty"


def test_the_word_exit_still_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one command that it knew is understood."""
    told = at_the_prompt("exit\n.\n", tmp_path, monkeypatch)
    assert told.returncode == 0 and not told.stderr and not list(tmp_path.rglob("*-problem.py"))


def test_the_docstrings_example_can_be_converted() -> None:
    """Its own example was badly indented."""
    lines = inspect.getdoc(KernelLLM).split("'''")[1].splitlines()  # type: ignore[union-attr]
    assert Problem.parse("\n".join(line.removeprefix("...").removeprefix(" ") for line in lines)).entry == "Model"


def test_a_cut_answer_is_told(llm: KernelLLM) -> None:
    """It stopped long modules at 2,048 tokens without a word."""
    with pytest.warns(UserWarning, match="cut off: it reached 3 tokens"):
        llm.generate_raw(PROMPT, max_new_tokens=3)


def test_every_end_that_the_model_names_ends_its_answer(llm: KernelLLM) -> None:
    """It passed the tokenizer's one end of three, and the model wrote on."""
    weights = llm._weights()
    config = weights.model.generation_config
    before, newline = config.eos_token_id, weights.tokenizer("\n", add_special_tokens=False)["input_ids"][0]
    config.eos_token_id = [before, newline]
    try:
        assert text_of(weights, Sampling(0)) == "```python"
    finally:
        config.eos_token_id = before


def test_a_temperature_of_zero_is_greedy(llm: KernelLLM) -> None:
    """It sampled always, and at 0 transformers refuses to."""
    texts = {llm.generate_raw(PROMPT, temperature=0.0) for _ in range(2)}
    assert texts == {"```python\nimport torch\nclass ModelNew: 1\n```"}


def test_a_seed_repeats_an_answer(llm: KernelLLM) -> None:
    """It had none."""
    texts = [text_of(llm._weights(), Sampling(3.0, 1.0, max_new_tokens=20, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(("bf16", "kind"), [(True, "bfloat16"), (False, "float16")])
def test_half_precision_is_what_the_gpu_has(
    llm: KernelLLM, monkeypatch: pytest.MonkeyPatch, bf16: bool, kind: str
) -> None:
    """It loaded float16 only, of weights that are stored as bfloat16; the processor computes in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    from backends.model_files import load
    from backends.model_name import ModelName

    asked: dict[str, Any] = {}
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
    monkeypatch.setattr("backends.model_files._check_memory", lambda *_: False)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **more: asked.update(more) or _Moved())
    load(ModelName(llm.model_name), Path(llm.model_name), None, "cuda")
    assert str(asked["dtype"]) == f"torch.{kind}"
    assert str(llm._weights().model.dtype) == "torch.float32"


class _Moved:
    """A model that can be put anywhere."""

    def to(self, _device: str) -> _Moved:
        """Stay."""
        return self

    def eval(self) -> _Moved:
        """Stay."""
        return self


def test_nothing_is_loaded_before_it_is_needed() -> None:
    """Its constructor loaded 16 GB."""
    KernelLLM("/no/such/model")
    Local("/no/such/model").close()


def test_imports_that_pytorch_removed_are_mended() -> None:
    """The model writes as of an older PyTorch: on a current one each such answer died at its first import."""
    said = "```\nfrom torch._inductor.runtime.triton_heuristics import grid\nclass ModelNew: 1\n```\n"
    made = list(chunks([said]))
    assert any(chunk.kind == "repaired" for chunk in made)
    final = next(chunk.text for chunk in made if chunk.kind == "final")
    assert "triton_heuristics import grid" not in final


def test_what_the_model_wrote_is_judged(llm: KernelLLM) -> None:
    """It judged nothing."""
    turn = llm.convert(SMALL, backend="local", speed=False)
    assert turn.verdict and turn.verdict.outcome == "fail" and turn.kernel is None
