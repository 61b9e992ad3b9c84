"""The command as people run it, a process of its own, and the class that Python users import."""

from __future__ import annotations

import inspect
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelllm import KernelLLM

ROOT = Path(__file__).resolve().parent.parent

PROBLEM = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(8, 100)]


def get_init_inputs():
    return []
"""

KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_relu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * 2, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n_elements = out.numel()
        if n_elements:
            double_relu_kernel[(triton.cdiv(n_elements, 1024),)](x, out, n_elements, BLOCK_SIZE=1024)
        return out
"""

FIELDS = ["problem", "kernel", "candidates", "verdict", "error", "seconds"]


def run(*words: str, text: str | None = None, path: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, from another folder, with no terminal."""
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
    environment = {**os.environ, "XDG_STATE_HOME": "/nonexistent", "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, str(ROOT / "kernelllm.py"), *words],
        capture_output=True, text=True, timeout=110, env=environment, **options, **more,
    )  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A problem, a right kernel and a wrong one."""
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "wrong.py").write_text(KERNEL.replace("* 2", "* 3"))
    return tmp_path


def test_help_is_quick() -> None:
    """--help costs the processor less than 0.2 s, the whole process, and lists the exit codes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = run("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert told.returncode == 0 and "130 interrupted" in told.stdout
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 0.2


def test_a_verified_kernel_goes_to_stdout(files: Path) -> None:
    """One-shot: the kernel and nothing else on stdout, stream and table on stderr, exit 0."""
    told = run(str(files / "problem.py"), "--backend", "recorded", "--model", str(files / "kernel.py"), "--no-speed")
    assert told.returncode == 0, told.stderr
    assert told.stdout == KERNEL
    assert "verified" in told.stderr and "tl.store" in told.stderr and "\x1b" not in told.stderr


def test_piped_input_and_json(files: Path) -> None:
    """Piped text is a problem; --json prints one object with the fields of the contract."""
    told = run("--json", "--backend", "recorded", "--model", str(files / "wrong.py"), "--no-speed", text=PROBLEM)
    answer = json.loads(told.stdout)
    assert told.returncode == 1 and list(answer) == FIELDS
    assert answer["verdict"]["code"] == "value_mismatch" and answer["kernel"] is None
    assert answer["problem"]["name"] == "Model" and answer["candidates"][0]["backend"] == "recorded"


def test_verify(files: Path) -> None:
    """`verify` judges a given kernel and prints no kernel."""
    told = run("verify", str(files / "problem.py"), str(files / "wrong.py"), "--no-speed")
    assert told.returncode == 1 and "value_mismatch" in told.stderr and not told.stdout


def test_in_process(files: Path) -> None:
    """--in-process judges without any child and says the same."""
    words = ("verify", str(files / "problem.py"), str(files / "kernel.py"), "--in-process", "--no-speed", "--json")
    told = run(*words)
    assert told.returncode == 0 and json.loads(told.stdout)["verdict"]["outcome"] == "pass", told.stderr


def test_an_unverified_kernel_says_so_in_its_first_line(files: Path) -> None:
    """What failed is not handed out as if it were right."""
    told = run(str(files / "problem.py"), "--backend", "recorded", "--model", str(files / "wrong.py"), "--no-speed")
    assert told.returncode == 1 and told.stdout.startswith("# NOT VERIFIED: value_mismatch")


def test_best_of_k(files: Path) -> None:
    """Of several candidates the verified one is given."""
    folder = files / "answers"
    folder.mkdir()
    (folder / "1.py").write_text((files / "wrong.py").read_text())
    (folder / "2.md").write_text(f"Better:\n```python\n{KERNEL}```\n")
    told = run(str(files / "problem.py"), "--backend", "recorded", "--model", str(folder), "-k", "2", "--no-speed")
    assert told.returncode == 0 and told.stdout == KERNEL


def test_files_beside_the_user_are_not_imported(files: Path) -> None:
    """A torch.py or random.py in the working directory is not taken for the real one."""
    for name in ("torch.py", "triton.py", "random.py", "signal.py"):
        (files / name).write_text("raise SystemExit('the wrong file was imported')\n")
    told = run("verify", "problem.py", "kernel.py", "--no-speed", cwd=files)
    assert told.returncode == 0, told.stderr


BAD_INPUT = {
    "missing_file": ["nowhere.py"],
    "is_directory": ["."],
    "usage": ["--bugdet"],
    "empty": ["-"],
    "too_large": ["/dev/zero"],
    "unreadable": ["verify", "problem.py", "bytes"],
    "not_pytorch": ["text"],
    "syntax_error": ["broken"],
    "backend_unavailable": ["problem.py", "--backend", "local", "--model", "/no/model"],
}


@pytest.mark.parametrize("code", BAD_INPUT)
def test_bad_input_is_one_clear_message(code: str, files: Path) -> None:
    """Each fault has its code, a hint and a non-zero exit; never a traceback."""
    (files / "text").write_text("hello, world\n")
    (files / "bytes").write_bytes(b"\xff\xfe\xfa\x80" * 9)
    (files / "broken").write_text(PROBLEM.replace("return torch.relu(x) * 2", "return torch.relu(x)) * 2"))
    told = run(*BAD_INPUT[code], "--json", cwd=files)
    answer = json.loads(told.stdout)
    assert answer["error"]["code"] == code and answer["error"]["message"] and answer["error"]["hint"]
    assert told.returncode == (3 if code == "backend_unavailable" else 2)
    assert "Traceback" not in told.stderr and answer["error"]["message"].split()[0] in told.stderr


def test_all_standard_streams_closed(files: Path) -> None:
    """No socket of ours takes the number of a closed stream: the verdict is the same."""
    command = f"exec {sys.executable} {ROOT / 'kernelllm.py'} verify problem.py kernel.py --no-speed <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], cwd=files, timeout=60).returncode == 0


def test_a_full_disk_is_one_line() -> None:
    """A result that cannot be written is told, and is no success."""
    command = f"exec {sys.executable} {ROOT / 'kernelllm.py'} --json nowhere.py >/dev/full"
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert told.returncode == 2 and "cannot be written" in told.stderr and "Traceback" not in told.stderr


def test_without_triton_nothing_is_blamed_on_the_kernel(files: Path) -> None:
    """Where Triton is not installed a kernel cannot be verified: exit 4, and not a failed check."""
    (files / "sitecustomize.py").write_text("import sys\nsys.modules['triton'] = None\n")
    told = run("verify", "problem.py", "kernel.py", "--json", cwd=files, path=str(files))
    verdict = json.loads(told.stdout)["verdict"]
    assert told.returncode == 4 and verdict["outcome"] == "cannot_verify" and "pip install triton" in verdict["message"]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_termination_leave_nothing_behind(files: Path, sent: int, code: int) -> None:
    """An interrupted run prints its object with the error `interrupted`; no process of it is left in any case."""
    slow = files / "slow.py"
    slow.write_text(KERNEL.replace("x = x.contiguous()", "open('/dev/null'); import time; time.sleep(300)"))
    words = ["verify", str(files / "problem.py"), str(slow), "--json", "--no-speed"]
    environment = {**os.environ, "XDG_STATE_HOME": str(files)}
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "kernelllm.py"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: len(of_this_run(files)) >= 4)  # itself, the two that fork, the judge
    process.send_signal(sent)
    began = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 3 and process.returncode == code, err
    assert b"Traceback" not in err
    if code == 130:
        assert json.loads(out)["error"]["code"] == "interrupted"
    wait_until(lambda: not of_this_run(files))


def of_this_run(mark: Path) -> list[str]:
    """Return the processes that were started with this folder in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(mark).encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def wait_until(reached: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_reader_that_goes_away_is_no_error(files: Path) -> None:
    """`kernelllm ... | head -0` ends quietly."""
    command = f"{sys.executable} {ROOT / 'kernelllm.py'} nowhere.py --json | true"
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=files)
    assert "Traceback" not in told.stderr and "BrokenPipe" not in told.stderr


def test_bench_resumes(files: Path) -> None:
    """Each problem is a JSON line, a summary ends them, and a second run does nothing twice."""
    words = ["bench", "problem.py", "text.py", "--backend", "recorded", "--model", "kernel.py", "--json", "--no-speed"]
    (files / "text.py").write_text("x = 1\n")
    told = run(*words, "--output", "kept.jsonl", cwd=files)
    *results, last = map(json.loads, told.stdout.splitlines())
    assert told.returncode == 0 and len(results) == 2 and last["summary"] is True
    assert last["total"]["verified"] == 1 and last["total"]["codes"] == {"not_pytorch": 1}
    again = run(*words, "--output", "kept.jsonl", cwd=files)
    kept = [line for line in (files / "kept.jsonl").read_text().splitlines() if line]
    replayed = {told["file"]: told for told in map(json.loads, again.stdout.splitlines()) if "file" in told}
    assert len(kept) == 2 and replayed == {told["file"]: told for told in results}


class TestPythonDoor:
    """What Python users import; what the published script got wrong is in tests/test_published_script.py."""

    def test_signatures(self) -> None:
        """Names and defaults are those of the published script."""
        init = inspect.signature(KernelLLM.__init__).parameters
        assert init["model_name"].default == "facebook/KernelLLM" and "device" in init
        for name, defaults in {
            "generate_raw": {"temperature": 0.6, "max_new_tokens": 2048},
            "stream_raw": {"max_new_tokens": 2048},
            "generate_triton": {"temperature": 0.6, "max_new_tokens": 2048},
        }.items():
            parameters = inspect.signature(getattr(KernelLLM, name)).parameters
            assert {p: parameters[p].default for p in defaults} == defaults

    def test_verify(self, llm: KernelLLM) -> None:
        """A verdict is a value, also when the kernel is wrong."""
        assert llm.verify(PROBLEM, KERNEL, speed=False).passed

    def test_convert_with_the_compiler(self) -> None:
        """Without a model and its weights the compiler writes, and the same verifier judges."""
        turn = KernelLLM().convert(PROBLEM, speed=False)
        assert turn.verdict and turn.verdict.passed and turn.kernel and "class ModelNew" in turn.kernel

    def test_convert_with_the_model(self, llm: KernelLLM) -> None:
        """The language model's answer goes the same way: this tiny one's is no kernel, and that is said."""
        turn = llm.convert(PROBLEM, backend="local", speed=False)
        assert turn.candidates[0].backend == "local" and turn.verdict and not turn.verdict.passed
        assert turn.kernel is None
