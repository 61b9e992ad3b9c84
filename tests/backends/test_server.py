"""Any OpenAI-compatible server, with the names and quirks of each kind."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import backends
from backends import BackendUnavailable, Chunk, Request
from backends.presets import PRESETS, is_server, key_of, read
from backends.probe import checked, reachable
from backends.server import Server
from tests.backends.fake_server import ANSWER, KERNEL, Fake, Reply, said, serving, spoken

REQUEST = Request("SOURCE", "Model")
GOOD = Reply(spoken(ANSWER))


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A server of this test alone."""
    with serving() as fake:
        fake.replies = [GOOD]
        yield fake


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELLLM_API_KEY", *(preset.key for preset in PRESETS.values() if preset.key)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("backends.server.PAUSES", (0.01,))


def asked(fake: Fake, request: Request = REQUEST, suffix: str = "") -> list[Chunk]:
    """Ask the server once."""
    return list(Server(fake.address + suffix).write(request))


def kinds(chunks: list[Chunk], kind: str) -> list[str]:
    """Return the texts of one kind."""
    return [chunk.text for chunk in chunks if chunk.kind == kind]


@pytest.mark.parametrize("done", [True, False])
def test_a_streamed_answer(fake: Fake, done: bool) -> None:
    """The kernel is what the fence holds, with or without a [DONE] at the end."""
    fake.replies = [Reply(spoken(ANSWER, done=done))]
    chunks = asked(fake)
    assert "".join(kinds(chunks, "code")) == KERNEL and chunks[-1] == Chunk("final", KERNEL)
    assert fake.asked[0]["path"] == "/v1/chat/completions" and fake.asked[0]["model"] == "one"


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": "<think>hm</think>"},
        {"content": None, "reasoning_content": "hm"},
        {"content": [{"type": "text", "text": "<think>hm</think>"}]},
    ],
    ids=["deepseek", "vllm", "openrouter", "details", "tags", "null content", "parts"],
)
def test_reasoning_is_no_code(fake: Fake, delta: dict[str, Any]) -> None:
    """Whatever a server calls the reasoning, it is read as that, once."""
    fake.replies = [Reply(said(delta, {"content": ANSWER}))]
    chunks = asked(fake)
    assert kinds(chunks, "reasoning") == ["hm"] and Chunk("final", KERNEL) in chunks


def test_a_template_that_opens_the_thinking(fake: Fake) -> None:
    """With only a closing tag in the answer, what came before it was reasoning, and what was shown of it is void."""
    fake.replies = [Reply(spoken(f"first ```python\nno\n```\n</think>\n{ANSWER}"))]
    chunks = asked(fake)
    assert kinds(chunks, "again") == [""] and chunks[-1] == Chunk("final", KERNEL)
    assert "no" in "".join(kinds(chunks, "reasoning"))


def test_a_server_that_does_not_stream(fake: Fake) -> None:
    """One JSON object instead of a stream is an answer all the same."""
    body = b'{"choices": [{"message": {"content": "```python\\nclass ModelNew: 1\\n```"}, "finish_reason": "stop"}]}'
    fake.replies = [Reply([body], headers={"Content-Type": "application/json"})]
    assert asked(fake)[-1] == Chunk("final", "class ModelNew: 1\n")


def test_other_choices_belong_to_nobody(fake: Fake) -> None:
    """A server that sends several choices is read as one answer."""
    lines = [b'data: {"choices": [{"index": 1, "delta": {"content": "noise"}}]}', *spoken(ANSWER)]
    fake.replies = [Reply(lines)]
    assert not kinds(asked(fake), "prose")


def test_kernelllm_is_asked_for_a_raw_completion(fake: Fake) -> None:
    """Tuned on one raw prompt, it is never asked by the chat template its server advertises."""
    body = b'data: {"choices": [{"text": "```\\nclass ModelNew: 1\\n```\\n", "finish_reason": "stop"}]}'
    fake.replies = [Reply([body])]
    server = Server(fake.address + "#facebook/KernelLLM")
    assert Chunk("final", "class ModelNew: 1\n") in list(server.write(REQUEST))
    sent = fake.asked[0]
    assert sent["path"] == "/v1/completions" and "SOURCE" in sent["prompt"] and sent["max_tokens"] == 4096
    assert not server.takes_feedback
    asked(fake, suffix="/completions#mine")
    assert fake.asked[1]["path"] == "/v1/completions"


@pytest.mark.parametrize(("end", "why"), [("length", "--max-tokens"), (None, "ended"), ("content_filter", "filter")])
def test_a_cut_answer_is_told(fake: Fake, end: str | None, why: str) -> None:
    """A limit, a filter, or a connection that ends in the middle, is said after what arrived."""
    fake.replies = [Reply(spoken("```python\nimport torch\ncl", end=end, done=False))]
    chunks = asked(fake)
    assert chunks[-1].kind == "cut" and why in chunks[-1].text
    assert "import torch" in "".join(kinds(chunks, "code"))


def test_a_stream_that_breaks_off_keeps_what_came(fake: Fake) -> None:
    """After the first word nothing is asked again: the part is kept, and why it is one."""
    fake.replies = [Reply(spoken("```python\nimport torch\ncl", end=None, done=False), breaks=True)]
    chunks = asked(fake)
    assert chunks[-1].kind == "cut" and len(fake.asked) == 1


def test_an_error_in_the_middle_keeps_what_came(fake: Fake) -> None:
    """A server that fails mid-stream says so inside it; what was written by then is kept."""
    lines = [*spoken("```python\nimport torch\n", end=None, done=False), b'data: {"error": {"message": "CUDA died"}}']
    fake.replies = [Reply(lines)]
    assert "CUDA died" in asked(fake)[-1].text


def test_an_error_at_once_is_an_error(fake: Fake) -> None:
    """Servers report some errors after they said 200."""
    fake.replies = [Reply([b'data: {"error": {"message": "out of memory"}}'])]
    with pytest.raises(BackendUnavailable, match="out of memory"):
        asked(fake)


def test_endless_repetition_is_cut(fake: Fake) -> None:
    """A model that goes in circles is stopped, and that is told."""
    fake.replies = [Reply(spoken("```python\n" + "x = x + 1\n" * 2000))]
    chunks = asked(fake)
    assert chunks[-1] == Chunk("cut", "it repeats itself without end")
    assert len("".join(kinds(chunks, "code"))) < 4000


def test_endless_repetition_in_one_line(fake: Fake) -> None:
    """Also where no line ever ends."""
    fake.replies = [Reply(spoken("```python\nx = " + "FiringSpirited" * 1000))]
    chunks = asked(fake)
    assert chunks[-1].text == "it repeats itself without end" and len("".join(kinds(chunks, "code"))) < 3000


def test_a_server_of_transformers_is_asked_to_sample(fake: Fake) -> None:
    """Without it each seed gets the same greedy answer there, and the best of k is one answer."""
    asked(fake)
    assert json.loads(fake.asked[0]["generation_config"])["do_sample"] is True


@pytest.mark.parametrize("refused", ["seed", "top_p", "temperature", "generation_config"])
def test_a_refused_parameter_is_left_out(fake: Fake, refused: str) -> None:
    """A server that does not take it is asked again without it, and not told of it a second time."""
    fake.replies = [lambda body: Reply(status=400, error=f"unknown: {refused}") if refused in body else GOOD]
    server = Server(fake.address + "#mine")
    for _ in range(2):
        assert Chunk("final", KERNEL) in list(server.write(REQUEST))
    assert [refused in request for request in fake.asked] == [True, False, False]


def test_the_persons_token_limit_is_asked_for(fake: Fake) -> None:
    """A paid server writes no more than it may."""
    asked(fake, Request("SOURCE", "Model", max_tokens=300))
    assert fake.asked[0]["max_tokens"] == 300


def test_the_token_limit_is_negotiated(fake: Fake) -> None:
    """One server wants another name for it, another has less room: both are learnt once."""

    def strict(body: dict[str, Any]) -> Reply:
        if "max_tokens" in body:
            return Reply(status=400, error="Unsupported parameter: use 'max_completion_tokens' instead")
        small = body["max_completion_tokens"] <= 4096
        return GOOD if small else Reply(status=400, error="maximum context length is 8192 tokens")

    fake.replies = [strict]
    server = Server(fake.address + "#mine")
    assert Chunk("final", KERNEL) in list(server.write(REQUEST))
    before = len(fake.asked)
    list(server.write(REQUEST))
    assert len(fake.asked) == before + 1 and fake.asked[-1]["max_completion_tokens"] == 4096


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(fake: Fake, status: int) -> None:
    """Before the first word a request is repeated, and the person sees why they wait."""
    fake.replies = [Reply(status=status, error="busy"), GOOD]
    chunks = asked(fake)
    assert Chunk("final", KERNEL) in chunks and "once more" in kinds(chunks, "status")[0]


@pytest.mark.parametrize("dated", [False, True])
def test_retry_after_is_honoured(fake: Fake, dated: bool) -> None:
    """The server says when: in seconds, or as a date."""
    after = email.utils.formatdate(time.time() + 2, usegmt=True) if dated else "0.3"
    fake.replies = [Reply(status=429, error="slowly", headers={"Retry-After": after}), GOOD]
    began = time.monotonic()
    assert Chunk("final", KERNEL) in asked(fake)
    assert time.monotonic() - began > 0.25


def test_a_wait_beyond_the_budget_is_not_waited(fake: Fake) -> None:
    """A pause that ends after the time budget, or after a minute, is an error now."""
    fake.replies = [Reply(status=429, error="slowly", headers={"Retry-After": "3"})]
    began = time.monotonic()
    with pytest.raises(BackendUnavailable, match="slowly"):
        asked(fake, Request("SOURCE", "Model", seconds=2.0))
    fake.replies = [Reply(status=429, error="slowly", headers={"Retry-After": "3600"})]
    with pytest.raises(BackendUnavailable):
        asked(fake)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("status", "hint", "times"), [(401, "KERNELLLM_API_KEY", 1), (404, "/v1", 1), (402, "credit", 1), (500, "log", 4)]
)
def test_errors_carry_the_servers_words(fake: Fake, status: int, hint: str, times: int) -> None:
    """An error is one line with the server's own message, and what to do; what cannot help is not repeated."""
    fake.replies = [Reply(status=status, error="not today")]
    with pytest.raises(BackendUnavailable, match="not today") as fault:
        asked(fake)
    assert hint in fault.value.hint and len(fake.asked) == times


def test_several_models_need_a_name(fake: Fake) -> None:
    """The models are listed, and a name behind # chooses."""
    fake.models = ["a", "b"]
    with pytest.raises(BackendUnavailable, match="a, b"):
        asked(fake)
    assert Chunk("final", KERNEL) in asked(fake, suffix="#b") and fake.asked[-1]["model"] == "b"


def test_keys_go_only_where_they_belong(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another company's key is not sent to this server; our own variable is."""
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    asked(fake)
    monkeypatch.setenv("KERNELLLM_API_KEY", "ours")
    asked(fake)
    assert [request["key"] for request in fake.asked] == [None, "Bearer ours"]
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sea")
    assert key_of(read("deepseek")) == "sea" and key_of(read("openai")) == "theirs"
    assert key_of(read("http://api.openai.com/v1")) == "ours"  # not in the clear


def test_a_key_is_never_printed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers repeat the key in what they say about it."""
    monkeypatch.setenv("KERNELLLM_API_KEY", "sk-secret")
    fake.replies = [Reply(status=401, error="Incorrect API key provided: sk-secret")]
    with pytest.raises(BackendUnavailable) as fault:
        asked(fake)
    assert "sk-secret" not in fault.value.message and "Incorrect" in fault.value.message


@pytest.mark.parametrize("model", [None, "localhost:8000", "http://", "http://[", "http://127.0.0.1:1/v1#m"])
def test_no_server(model: str | None) -> None:
    """No address, half an address and a refused connection are told in one line."""
    with pytest.raises(BackendUnavailable) as fault:
        list(backends.open("server", model=model).write(REQUEST))
    assert fault.value.hint and "\n" not in fault.value.message


def test_presets() -> None:
    """A well-known server is meant by its name, with a model behind it."""
    address = read("ollama#qwen3:8b")
    assert (address.url, address.model) == ("http://127.0.0.1:11434/v1", "qwen3:8b")
    assert is_server("deepseek") and is_server("http://x/v1") and not is_server("some/folder")
    assert set(PRESETS) == {"vllm", "sglang", "llama.cpp", "ollama", "lmstudio", "deepseek", "openai", "openrouter"}


def drawn(server: Server, count: int) -> dict[int, list[Chunk]]:
    """Draw several answers and return each one's chunks."""
    drawing = server.draw(count)
    for candidate in range(count):
        drawing.add(Request("SOURCE", "Model", candidate=candidate))
    answers: dict[int, list[Chunk]] = {}
    while (piece := drawing.receive()) is not None:
        assert piece.fault is None
        if piece.chunk:
            answers.setdefault(piece.candidate, []).append(piece.chunk)
    drawing.close()
    return answers


def test_several_requests_at_a_time(fake: Fake) -> None:
    """Candidates are separate requests, each with a seed of its own, and not more than eight at a time."""
    fake.replies = [Reply(spoken(f"```python\n{KERNEL}"), pause=0.01)]  # no last fence: read to its end
    answers = drawn(Server(fake.address + "#m"), 12)
    assert len(answers) == 12 and all(Chunk("final", KERNEL) in chunks for chunks in answers.values())
    assert 1 < fake.most_at_once <= 8 and len({request["seed"] for request in fake.asked}) == 12
    assert len({str(request["messages"]) for request in fake.asked}) == 1  # one prefix for all


def test_closing_hangs_up(fake: Fake) -> None:
    """Ctrl-C ends every request at once, and the server notices."""
    fake.replies = [Reply(spoken(ANSWER * 40), pause=0.02)]
    server = Server(fake.address + "#m")
    drawing = server.draw(3)
    for candidate in range(3):
        drawing.add(Request("SOURCE", "Model", candidate=candidate))
    assert drawing.receive() is not None
    began = time.monotonic()
    drawing.close()
    assert time.monotonic() - began < 0.1
    while fake.at_once and time.monotonic() - began < 2:
        time.sleep(0.01)
    assert fake.at_once == 0


def test_backend_command_draws_one_token(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reachable server is named with its models, the chosen one writes a token, and what is wrong is one line."""
    assert "one token in" in checked(fake.address) and fake.asked[-1]["max_tokens"] == 1
    fake.replies = [Reply(status=401, error="who are you")]
    assert "401: who are you" in checked(fake.address)
    assert "does not answer" in checked("http://127.0.0.1:1/v1#m")
    from backends.presets import Preset

    monkeypatch.setattr("backends.probe.PRESETS", {"vllm": Preset(fake.address), "openai": PRESETS["openai"]})
    monkeypatch.setattr("backends.presets.PRESETS", {"vllm": Preset(fake.address), "openai": PRESETS["openai"]})
    assert dict(reachable()) == {"vllm": "answers: one", "openai": "needs a key in OPENAI_API_KEY or KERNELLLM_API_KEY"}


def test_a_missing_key_is_told_before_anything_is_sent() -> None:
    """A company's server is not asked without one, and both names of it are told."""
    with pytest.raises(BackendUnavailable, match="needs a key") as fault:
        backends.open("server", model="openai#gpt")
    assert fault.value.hint == "put it into OPENAI_API_KEY or KERNELLLM_API_KEY"


def test_a_problem_beyond_the_context(fake: Fake) -> None:
    """When no shorter answer makes room, it is said that the model reads too little."""
    fake.replies = [Reply(status=400, error="This model's maximum context length is 1024 tokens")]
    with pytest.raises(BackendUnavailable, match="1024 tokens") as fault:
        asked(fake)
    assert "longer context" in fault.value.hint


def test_a_page_that_is_no_model_is_told(fake: Fake) -> None:
    """An address that answers with something else is not an empty answer."""
    fake.replies = [Reply([b"<html>", b"<p>hello</p>", b"</html>"])]
    with pytest.raises(BackendUnavailable, match="not what an OpenAI-compatible"):
        asked(fake)


def test_an_empty_answer_is_no_broken_connection(fake: Fake) -> None:
    """A stream that says it is done is whole, with nothing in it."""
    fake.replies = [Reply([b"data: [DONE]"])]
    assert asked(fake) == [Chunk("final", "")]


def test_a_wait_that_is_too_long_is_told(fake: Fake) -> None:
    """How long the server wants to be left alone is in the error."""
    fake.replies = [Reply(status=429, error="slowly", headers={"Retry-After": "3600"})]
    with pytest.raises(BackendUnavailable, match="429: slowly, and to be asked again in 3600 s"):
        asked(fake)
