"""Local models: the ordinary transformers path with a tiny model that really answers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from backends import BackendUnavailable, Chunk, Drawing, Request
from backends.answers import sampling_for
from backends.detokenizer import Detokenizer
from backends.local import Local
from backends.model_files import find, own_template
from backends.model_name import read, wants_raw_prompt
from backends.weights import OutOfMemory, Sampling, Weights
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
    assert text == ANSWER[:10] and cut == "it reached 10 tokens (max_new_tokens)"


def test_same_seed_same_text(weights: Weights) -> None:
    """Sampling repeats with its seed, and another seed draws another text."""
    first, again, other = (
        drawn(weights, "?", Sampling(1.5, 1.0, max_new_tokens=20, seed=seed))[0] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_batch_is_streamed_row_by_row(weights: Weights) -> None:
    """Prompts of different lengths in one batch each get the text that they get alone."""
    prompts = [PROMPT, "?", "a longer prompt than the others, so that they are padded"]
    texts: dict[int, str] = {}
    ends: dict[int, str] = {}
    for piece in weights.rows(prompts, Sampling(temperature=0, max_new_tokens=60)).pieces():
        if piece.text is None:
            ends[piece.row] = piece.cut
        else:
            assert piece.row not in ends
            texts[piece.row] = texts.get(piece.row, "") + piece.text
    assert texts[0] == ANSWER and ends[0] == "" and set(ends) == {0, 1, 2}
    alone = [drawn(weights, prompt, Sampling(temperature=0, max_new_tokens=60))[0] for prompt in prompts]
    assert [texts[row] for row in range(3)] == alone


def test_a_fix_copies_from_its_prompt(weights: Weights) -> None:
    """Drawn several tokens at a time where the text repeats itself, the answer stays the same."""
    plain = drawn(weights, PROMPT, Sampling(temperature=0))
    assert drawn(weights, PROMPT, Sampling(temperature=0, copies=True)) == plain


def test_one_row_can_end_early(weights: Weights) -> None:
    """A row that nobody wants any more is drawn no further, and the others go on."""
    generation = weights.rows(["?", "!"], Sampling(1.0, max_new_tokens=200, seed=0))
    counts = [0, 0]
    for piece in generation.pieces():
        counts[piece.row] += len(piece.text or "")
        if piece.row == 0:
            generation.stop(0)
    assert counts[0] <= 3 < counts[1]


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


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a raw prompt of its own, which it answers."""
    folder = tiny.build(tmp_path_factory.mktemp("taught"), chat=False)
    (folder / "kernelllm.py").write_text("PROMPT_TEMPLATE = '''Convert {}:\n'''\n")
    tiny.teach(folder, "Convert SOURCE:\n", ANSWER)
    return folder


def test_backend_streams_code_and_stops_after_the_file(taught: Path) -> None:
    """The backend asks by the model's own template, and what it streams as code is the file."""
    local = Local(str(taught), "cpu")
    chunks = list(local.write(Request("SOURCE", "Model")))
    assert Chunk("final", "import torch\nclass ModelNew: 'ü🙂'\n") in chunks and not local.takes_feedback


def answered(drawing: Drawing, count: int, source: str = "SOURCE", **more: Any) -> dict[int, list[Chunk]]:
    """Draw several answers to their ends."""
    for candidate in range(count):
        drawing.add(Request(source, "Model", candidate=candidate, **more))
    answers: dict[int, list[Chunk]] = {}
    ended = set()
    while (piece := drawing.receive()) is not None:
        if piece.fault:
            raise piece.fault
        if piece.chunk:
            answers.setdefault(piece.candidate, []).append(piece.chunk)
        else:
            ended.add(piece.candidate)
    assert ended == set(answers) == set(range(count))
    return answers


def test_all_candidates_come_from_one_batch(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run draws them all, each streamed, and the same seed draws the same ones."""
    batches: list[int] = []
    rows = Weights.rows
    monkeypatch.setattr(Weights, "rows", lambda self, p, s: batches.append(len(p)) or rows(self, p, s))
    local = Local(str(taught), "cpu")
    runs = [answered(local.draw(4), 4, "OTHER", seed=seed, alone=False, max_tokens=40) for seed in (1, 1, 2)]
    assert batches == [4, 4, 4]
    said = [[c for n in range(4) for c in run[n] if c.kind != "status"] for run in runs]
    assert said[0] == said[1] != said[2]
    assert len({str(chunks) for chunks in runs[1].values()}) == 4
    assert Chunk("cut", "it reached 40 tokens (--max-tokens)") in said[0]


def test_sampling_of_one_and_of_several() -> None:
    """A single answer is drawn as the model's card draws it, KernelLLM's best of several as its published figures."""

    def drawn_at(alone: bool, raw: bool) -> tuple[float, float]:
        sampling = sampling_for(Request("s", "M", alone=alone), None, raw=raw)
        return sampling.temperature, sampling.top_p

    assert drawn_at(True, True) == drawn_at(True, False) == (0.6, 0.95)
    assert drawn_at(False, True) == (1.0, 0.97) and drawn_at(False, False) == (0.8, 0.95)


def test_out_of_memory_halves_the_batch(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, every answer is drawn in the end, and the next batch begins with what fits."""
    rows = Weights.rows
    batches: list[int] = []

    def small(self: Weights, prompts: Any, sampling: Sampling) -> Any:
        batches.append(len(prompts))
        if len(prompts) > 2:
            raise OutOfMemory("CUDA out of memory")
        return rows(self, prompts, sampling)

    monkeypatch.setattr(Weights, "rows", small)
    local = Local(str(taught), "cpu")
    answers = answered(local.draw(6), 6)
    assert batches[:3] == [6, 3, 1]
    told = [chunk.text for chunks in answers.values() for chunk in chunks if chunk.kind == "status"]
    assert "out of memory with 6 answers at a time: 3 from now on" in told
    assert all(Chunk("again", "") in chunks for chunks in answers.values())
    monkeypatch.setattr(Weights, "rows", lambda *_: (_ for _ in ()).throw(OutOfMemory("no")))
    with pytest.raises(BackendUnavailable, match="no room for one answer"):
        answered(local.draw(1), 1)


def test_a_model_in_a_child(taught: Path) -> None:
    """It streams from there; Ctrl-C returns at once, and keeps it loaded for the next turn."""
    nursery = Nursery()
    spawned: list[str] = []
    local = Local(str(taught), "cpu", lambda target: spawned.append(target) or nursery.spawn(target))
    try:
        answer = local.write(Request("OTHER", "Model"))
        assert next(answer).text == f"loading {taught}"
        assert next(answer).kind != "status"
        began = time.monotonic()
        answer.close()  # type: ignore[attr-defined]
        assert time.monotonic() - began < 0.2
        again = answered(local.draw(3), 3, alone=False)
        assert all(chunks[-1].kind == "final" for chunks in again.values()) and not local.takes_feedback
        assert spawned.count("backends.model_child:serve") == 1
    finally:
        local.close()
        nursery.close()


def test_a_model_that_was_stopped_while_loading_goes_on_loading(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended and begun anew, a large one would never be loaded by somebody who is impatient twice."""
    monkeypatch.setattr("backends.local.STOP_SECONDS", 1.5)  # the imports alone take longer
    nursery = Nursery()
    spawned: list[str] = []
    local = Local(str(taught), "cpu", lambda target: spawned.append(target) or nursery.spawn(target))
    try:
        first = local.draw(1)
        first.add(Request("SOURCE", "Model"))
        assert first.receive().chunk.kind == "status" and first.receive(0.01) is None  # type: ignore[union-attr]
        first.close()
        (chunks,) = answered(local.draw(1), 1).values()
        assert chunks[0].text == f"loading {taught}" and any(chunk.kind == "final" for chunk in chunks)
        assert spawned.count("backends.model_child:serve") == 1
    finally:
        local.close()
        nursery.close()


def test_a_model_named_from_here_is_found_by_its_child(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child works in a folder of its own, so a relative path is made whole before it goes there."""
    monkeypatch.chdir(taught.parent)
    nursery = Nursery()
    local = Local(f"./{taught.name}#plain", "cpu", nursery.spawn)
    try:
        answer = local.write(Request("SOURCE", "Model"))
        assert [next(answer).kind == "status" for _ in range(2)] == [True, False]
        answer.close()  # type: ignore[attr-defined]
    finally:
        local.close()
        nursery.close()


@pytest.mark.slow
def test_a_model_that_was_killed_is_started_again(taught: Path) -> None:
    """As the system does when memory is short: one line, and the next request loads it anew."""
    nursery = Nursery()
    local = Local(str(taught), "cpu", nursery.spawn)
    try:
        answer = local.write(Request("OTHER", "Model"))
        assert [next(answer).kind == "status" for _ in range(2)] == [True, False]
        os.kill(local._child.pid, signal.SIGKILL)  # type: ignore[union-attr]
        with pytest.raises(BackendUnavailable, match="process ended"):
            list(answer)
        assert answered(local.draw(1), 1)
        with pytest.raises(BackendUnavailable, match="no model at"):
            list(Local("/no/such/model", "cpu", nursery.spawn).write(Request("SOURCE", "Model")))
    finally:
        local.close()
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


def test_a_half_downloaded_model(tmp_path: Path) -> None:
    """Weights that are missing or cut off are told as that, and how to go on."""
    folder = tiny.build(tmp_path)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1000])
    with pytest.raises(BackendUnavailable, match=r"only partly here: model\.safetensors is cut off") as fault:
        Weights(str(folder), "cpu")
    assert fault.value.hint == "copy or fetch its files once more"
    weights.unlink()
    with pytest.raises(BackendUnavailable, match="no weights here"):
        Weights(str(folder), "cpu")
    parts = {f"layer{n}": f"model-0000{n}-of-00002.safetensors" for n in (1, 2)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    (folder / parts["layer1"]).write_bytes(whole)
    with pytest.raises(BackendUnavailable, match="1 of 2 weight files are missing"):
        Weights(str(folder), "cpu")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("tokenizer.json", None, "has no tokenizer here"),
        ("tokenizer.json", "", r"partly here: tokenizer\.json is cut off"),
        ("config.json", '{"model_type": "lla', r"partly here: config\.json is cut off"),
        ("model.safetensors.index.json", "{", "partly here: model.safetensors.index.json is cut off"),
    ],
)
def test_a_model_folder_that_is_not_whole(tmp_path: Path, file: str, content: str | None, said: str) -> None:
    """It is told which file, before a process is started for the model."""
    folder = tiny.build(tmp_path)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(BackendUnavailable, match=said) as fault:
        list(Local(str(folder), "cpu", spawn=lambda _: pytest.fail("a process was started")).write(Request("s", "M")))
    assert "\n" not in fault.value.message and fault.value.hint == "copy or fetch its files once more"


def test_more_than_fits_is_refused_before_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both numbers are told, and what to do."""
    folder = tiny.build(tmp_path)
    monkeypatch.setattr("backends.model_files.elements", lambda file: 10**15)
    with pytest.raises(BackendUnavailable, match="GB are free") as fault:
        Weights(str(folder), "cpu")
    assert "#8bit" in fault.value.hint


def test_flags_behind_the_name(tmp_path: Path) -> None:
    """Bits and the way of decoding stand behind the name, and what is no flag is told."""
    assert (read("a/b#8bit,compiled").bits, read("a/b#8bit,compiled").decoding) == (8, "compiled")
    assert read("a/b") == read("a/b#") and read("a/b").bits == 16
    assert wants_raw_prompt("facebook/KernelLLM") and not wants_raw_prompt("/cache/kernelllm/gguf/SmolLM2")
    with pytest.raises(BackendUnavailable, match="no option '3bit'"):
        read("a/b#3bit")
    if importlib.util.find_spec("bitsandbytes") is None:
        with pytest.raises(BackendUnavailable, match="4-bit weights need bitsandbytes"):
            Weights(f"{tiny.build(tmp_path)}#4bit", "cpu")
