"""Local models: the ordinary transformers path with a tiny model that really answers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from backends import BackendUnavailable, Chunk, Request
from backends.local import Local
from backends.model_files import find, own_template
from backends.weights import Detokenizer, Sampling, Weights
from tests.backends import tiny
from verifier.nursery import Nursery

# The opening that the published script lost: 17 characters, the length of the literal begin-of-text mark.
ANSWER = "```python\nimport torch\nclass ModelNew: 'ü🙂'\n```\n"
PROMPT = "\n<|begin_of_text|>Convert:\n"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    """A model that was taught one answer."""
    folder = tiny.build(tmp_path_factory.mktemp("tiny"))
    tiny.teach(folder, PROMPT, ANSWER)
    return Weights(str(folder), "cpu")


def drawn(weights: Weights, prompt: str, sampling: Sampling) -> tuple[str, str]:
    """Return the whole text and why it was cut."""
    stream, pieces = weights.stream(prompt, sampling), []
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return "".join(pieces), end.value


def test_the_answer_is_whole(weights: Weights) -> None:
    """The prompt is cut off by tokens: no character of the answer is lost behind a begin-of-text mark."""
    assert drawn(weights, PROMPT, Sampling(temperature=0)) == (ANSWER, "")


def test_a_limit_is_told(weights: Weights) -> None:
    """An answer that reaches the limit says so instead of ending silently."""
    text, cut = drawn(weights, PROMPT, Sampling(temperature=0, max_new_tokens=10))
    assert text == ANSWER[:10] and cut == "it reached 10 tokens"


def test_same_seed_same_text(weights: Weights) -> None:
    """Sampling repeats with its seed, and another seed draws another text."""
    first, again, other = (
        drawn(weights, "?", Sampling(1.5, 1.0, max_new_tokens=20, seed=seed))[0] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_closing_stops_the_model(weights: Weights) -> None:
    """No thread goes on after the stream was closed."""
    before = threading.active_count()
    stream = weights.stream("?", Sampling(1.0, max_new_tokens=8000, seed=0))
    next(stream)
    stream.close()
    assert threading.active_count() == before


def test_time_ends_the_answer(weights: Weights) -> None:
    """A budget ends the drawing at the next token and is told."""
    assert drawn(weights, "?", Sampling(1.0, max_new_tokens=8000, seed=3, seconds=0.01))[1] == "the time budget ended"


def test_a_prompt_beyond_the_context_is_refused(weights: Weights) -> None:
    """A problem that the model cannot read is an unavailable backend, with both sizes."""
    with pytest.raises(BackendUnavailable, match="reads 8192"):
        drawn(weights, "x" * 9000, Sampling())


@pytest.mark.parametrize("text", ["naïve 🙂 x", "  a =  [1 , 2]", "日本語"])
def test_detokenizer_equals_decoding_at_once(weights: Weights, text: str) -> None:
    """Token by token the text is the same, and no broken character is shown on the way."""
    ids = weights.tokenizer(text, add_special_tokens=False)["input_ids"]
    detokenizer = Detokenizer(weights.tokenizer)
    pieces = [detokenizer.add([token]) for token in ids] + [detokenizer.rest()]
    assert "".join(pieces) == text and "�" not in "".join(pieces)


def test_backend_streams_code_and_stops_after_the_file(weights: Weights, tmp_path: Path) -> None:
    """The backend asks by the model's own template, and what it streams as code is the file."""
    folder = tiny.build(tmp_path, chat=False)
    (folder / "kernelllm.py").write_text("PROMPT_TEMPLATE = '''Convert {}:\n'''\n")
    tiny.teach(folder, "Convert SOURCE:\n", ANSWER)
    local = Local(str(folder), "cpu")
    chunks = list(local.write(Request("SOURCE", "Model")))
    assert Chunk("final", "import torch\nclass ModelNew: 'ü🙂'\n") in chunks


def test_a_model_in_a_child_is_ended_by_closing(tmp_path: Path) -> None:
    """Where children are given the model lives in one: it streams from there, and Ctrl-C ends it at once."""
    folder = tiny.build(tmp_path)
    nursery = Nursery()
    try:
        local = Local(str(folder), "cpu", nursery.spawn)
        answer = local.write(Request("SOURCE", "Model"))
        assert [next(answer).kind for _ in range(2)] == ["status", "prose"]
        began = time.monotonic()
        answer.close()  # type: ignore[attr-defined]
        assert time.monotonic() - began < 0.2
        with pytest.raises(BackendUnavailable, match="no model at"):
            list(Local("/no/such/model", "cpu", nursery.spawn).write(Request("SOURCE", "Model")))
    finally:
        nursery.close()


def test_template_is_read_without_running_it(tmp_path: Path) -> None:
    """The folder's script is text to us."""
    (tmp_path / "kernelllm.py").write_text("raise SystemExit\nPROMPT_TEMPLATE = 'a {} b'\n")
    assert own_template(tmp_path) == "a {} b"


@pytest.mark.parametrize("name", ["/no/such/model", "owner/never-downloaded", "nothing"])
def test_missing_models_are_told_at_once(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is asked of the network; the hint says what to do."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BackendUnavailable) as fault:
        find(name)
    assert fault.value.hint


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """A folder that holds no model is named as such."""
    with pytest.raises(BackendUnavailable, match=r"no config\.json"):
        find(str(tmp_path))


def test_broken_weights_are_one_line(tmp_path: Path) -> None:
    """Files that cannot be loaded are an unavailable backend, not a traceback."""
    folder = tiny.build(tmp_path)
    (folder / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not json at all!!")
    with pytest.raises(BackendUnavailable) as fault:
        Weights(str(folder), "cpu")
    assert "\n" not in fault.value.message
