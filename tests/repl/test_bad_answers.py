"""What a model's server does wrong, at the prompt and in one shot: one clear line, nothing lost, and on with it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backends.server import Server
from kernelllm import main
from repl.arguments import parse
from repl.desk import Desk
from repl.terminal import Interrupts
from tests.backends.fake_server import Fake, Reply, said, serving, spoken
from tests.repl.fake import FakeParts, FakeVerifier
from tests.repl.modules import SMALL
from verifier.verdict import Verdict

HALF = "```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return (x"
SORRY = "I am sorry, but I write no GPU kernels."


@dataclass(frozen=True)
class Bad:
    """What the server does, what the person is told and advised, and what the session keeps beside the paste."""

    reply: Reply
    told: str
    advice: str = ""
    kept: tuple[str, ...] = ()
    code: int = 3


BAD = {
    "no key": Bad(Reply(status=401, error="who are you"), "answers 401: who are you", "KERNELLLM_API_KEY"),
    "no credit": Bad(Reply(status=402, error="pay first"), "answers 402: pay first", "no credit"),
    "wrong address": Bad(Reply(status=404, error="not found"), "answers 404: not found", "/v1"),
    "too many": Bad(Reply(status=429, error="slowly"), "answers 429: slowly", "smaller -k"),
    "much too many": Bad(
        Reply(status=429, error="slowly", headers={"Retry-After": "3600"}), "to be asked again in 3600 s", "later"
    ),
    "broken": Bad(Reply(status=500, error="CUDA error"), "answers 500: CUDA error", "server's own log"),
    "no model": Bad(Reply([b"<html>hello</html>"]), "not what an OpenAI-compatible one sends", "check the address"),
    "dies in the middle": Bad(
        Reply([*spoken(HALF, end=None, done=False), b'data: {"error": {"message": "CUDA error"}}']),
        "no_code on cpu: the answer was cut off: the server stopped: CUDA error", kept=("kernel.py",), code=1,
    ),
    "hangs up in the middle": Bad(
        Reply(spoken(HALF, end=None, done=False), breaks=True),
        "the answer was cut off: the connection ended", kept=("kernel.py",), code=1,
    ),
    "too short": Bad(
        Reply(spoken(HALF, end="length")),
        "the answer was cut off: it reached its token limit (--max-tokens)", kept=("kernel.py",), code=1,
    ),
    "thinks too long": Bad(
        Reply(said({"reasoning_content": "hm "}, end="length")),
        "it reached its token limit (--max-tokens); it held no code", kept=("reasoning.md",), code=1,
    ),
    "no code": Bad(Reply(spoken(SORRY)), "the answer holds 9 words and no code", kept=("candidate-1.md",), code=1),
    "nothing": Bad(Reply(said({"content": ""})), "the answer holds no code", code=1),
    "no end": Bad(
        Reply(spoken("```python\n" + "x = x + 1\n" * 2000)),
        "no_code on cpu: the answer was cut off: it repeats itself without end", kept=("kernel.py",), code=1,
    ),
}  # fmt: skip


class Parses(FakeVerifier):
    """A verifier that stops at the first check."""

    def verify(self, problem: Any, kernel: str, **options: Any) -> Iterator[Any]:
        """Say that it is no Python, whatever it is."""
        yield Verdict("fail", "syntax_error", "line 7: '(' was never closed", device="cpu")


class Parts(FakeParts):
    """A server and that verifier."""

    def open_verifier(self, settings: Any) -> Any:
        """Open the verifier."""
        return Parses()

    def open_backend(self, settings: Any, judge: Any) -> Any:
        """Open the server."""
        return Server(settings.model)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("backends.server.PAUSES", (0.01,))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KERNELLLM_API_KEY", raising=False)


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A server of this test alone."""
    with serving() as fake:
        yield fake


def kept(folder: Path) -> dict[str, str]:
    """Return what the session kept of its first turn."""
    return {path.name.removeprefix("01-"): path.read_text("utf-8") for path in folder.rglob("01-*")}


@pytest.mark.parametrize("name", BAD)
def test_at_the_prompt(name: str, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told with what to do, the paste and all that was written are kept, and the next paste is converted."""
    bad = BAD[name]
    fake.replies = [bad.reply]
    with Interrupts() as interrupts:
        desk = Desk(parse(["--model", fake.address]), interrupts, Parts("quick"), plain=True)
        desk.take(SMALL)
        told = " ".join(capsys.readouterr().out.split())
        assert bad.told in told and bad.advice in told and "Traceback" not in told
        files = kept(tmp_path)
        assert set(files) == {"problem.py", "verdict.json", *bad.kept} and files["problem.py"].strip() == SMALL.strip()
        assert all(text.strip() for text in files.values())
        fake.replies = [Reply(spoken("```python\nclass ModelNew: 1\n```\n"))]
        desk.take(SMALL)
        assert desk.kernel == "class ModelNew: 1\n"
        desk.close()


@pytest.mark.parametrize("name", BAD)
def test_in_one_shot(
    name: str, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One JSON object that says the same, and the exit code of the contract."""
    bad = BAD[name]
    fake.replies = [bad.reply]
    monkeypatch.setattr("repl.parts.open_verifier", Parts("quick").open_verifier)
    (tmp_path / "problem.py").write_text(SMALL)
    assert main([str(tmp_path / "problem.py"), "--json", "--in-process", "--model", fake.address]) == bad.code
    answer = json.loads(capsys.readouterr().out)
    error, verdict = answer["error"], answer["verdict"]
    assert answer["kernel"] is None and (error is None) == (bad.code == 1)
    assert (verdict or error)["code"] == ("no_code" if verdict else "backend_unavailable")
    assert bad.told.removeprefix("no_code on cpu: ") in (verdict or error)["message"]
    assert "\n" not in (verdict or error)["message"] and (error is None or bad.advice in error["hint"])


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("/no/such/model", "there is no model at /no/such/model"),
        ("owner/never-fetched", "owner/never-fetched is not on this machine"),
        ("EMPTY", "holds no model (no config.json)"),
        ("http://127.0.0.1:1/v1#m", "127.0.0.1:1 does not answer: Connection refused"),
        ("openai#gpt", "api.openai.com needs a key"),
    ],
)
def test_a_model_that_is_not_there(
    model: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, one line and what to do."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "problem.py").write_text(SMALL)
    (tmp_path / "empty").mkdir()
    model = model.replace("EMPTY", str(tmp_path / "empty"))
    assert main([str(tmp_path / "problem.py"), "--json", "--in-process", "--device", "cpu", "--model", model]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "backend_unavailable" and told in error["message"] and error["hint"]


@pytest.mark.parametrize("thinking", [False, True])
def test_ctrl_c_in_the_middle_of_an_answer(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], thinking: bool
) -> None:
    """What came by then is kept: half a kernel, or what was thought."""
    thoughts, code = said(*({"reasoning": "hm "} for _ in range(200))), spoken("```python\n" + "y = 2\n" * 99)
    fake.replies = [Reply(thoughts if thinking else code, pause=0.02)]
    with Interrupts() as interrupts:
        desk = Desk(parse(["--model", fake.address]), interrupts, Parts("quick"), plain=True)
        threading.Timer(0.6, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        desk.take(SMALL)
        desk.close()
    assert "stopped; what was written so far is kept" in capsys.readouterr().out
    files = kept(tmp_path)
    assert ("hm hm" in files["reasoning.md"]) if thinking else ("y = 2\ny = 2\n" in files["kernel.py"])
    assert json.loads(files["verdict.json"])["error"]["code"] == "interrupted"


def test_reasoning_of_the_best_of_several(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    """It is kept with each candidate, and shown when asked for."""

    def numbered(body: dict[str, Any]) -> Reply:
        return Reply(said({"reasoning": f"thought {body['seed']}"}, {"content": f"```\nx = {body['seed']}\n```\n"}))

    fake.replies = [numbered]
    with Interrupts() as interrupts:
        desk = Desk(parse(["--model", fake.address, "-k", "2"]), interrupts, Parts("quick"), plain=True)
        desk.take(SMALL)
        capsys.readouterr()
        desk.take("/show reasoning")
        desk.close()
    number = desk.kernel.strip()[-1]
    assert f"thought {number}" in capsys.readouterr().out
