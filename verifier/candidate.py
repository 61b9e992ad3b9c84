"""The candidate's child: loads a kernel file inside the sandbox and runs it on request. What it says is judged outside.

The expected values are never in this process, nor is the reference.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from verifier import cases, compiled_before, running, sandbox, without_gpu
from verifier.errors import VerificationError
from verifier.launches import Trace
from verifier.loading import Refused, build, load_kernel
from verifier.wire import Channel
from verifier.witness import Witness

KERNEL_FILE = "kernel.py"
PROBLEM_FILE = "problem.py"
REBUILT_FILE = "problem_built_otherwise.py"


def serve(channel: Channel) -> None:
    """Answer requests until the other side hangs up."""
    trace = warm_up()
    session: Session | None = None
    while (frame := channel.receive_frame()) is not None:
        request, blobs = frame
        nonce = request.pop("nonce")  # before the candidate acts: an answer without it is not ours
        if session is None:
            session = Session(request["device"], os.getcwd(), trace)
        answer, made = session.answer(request, blobs)
        channel.send({**answer, "nonce": nonce}, made)


def warm_up() -> Trace | None:
    """Open the GPU, if there is one and kernels are not interpreted, and rehearse; return how Triton is traced then.

    The driver needs what the sandbox takes away. Done before the first request, so that a child that waits for its
    candidate has it behind it.
    """
    if os.environ.get("TRITON_INTERPRET") == "1" or not torch.cuda.is_available():
        return None
    from verifier import gpu_warmup, rehearsal

    gpu_warmup.launch_nothing()
    trace = instrument("cuda")
    rehearsal.rehearse("cuda", trace)
    return trace


class Session:
    """One candidate: loaded once, built once, run many times."""

    def __init__(self, device: str, scratch: str, trace: Trace | None = None, *, contained: bool = True) -> None:
        self.device, self.trace, self.contained = device, trace, contained
        self.scratch = os.path.realpath(scratch)
        self.kernel_file = str(Path(self.scratch, KERNEL_FILE))
        self.runner: running.Runner | None = None

    def answer(self, request: dict[str, Any], blobs: Sequence[bytes] = ()) -> tuple[dict[str, Any], list[Any]]:
        """Do one request; whatever goes wrong in the candidate comes back as its description."""
        try:
            if request["do"] == "load":
                return self._load(request)
            if self.runner is None:
                raise Refused("runtime_error", "nothing is loaded")
            if request["do"] == "rebuild":
                return self._rebuild(request), []
            if request["do"] == "run":
                return self.runner.run(cases.Case(**request["case"]), request)
            if request["do"] == "state":
                return self.runner.load_state(request, blobs), []
            return self.runner.repeat(request), []
        except Refused as refused:
            return {"ok": False, **refused.described(), **self._seen()}, []
        except VerificationError as fault:  # the problem's own functions failed here although they run elsewhere
            return {"ok": False, "code": "runtime_error", "message": fault.message, "line": None, **self._seen()}, []

    def _seen(self) -> dict[str, Any]:
        return self.runner.seen() if self.runner is not None else {}

    def _load(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        Path(self.kernel_file).write_text(request["kernel"], encoding="utf-8")  # Triton reads a kernel from its file
        Path(self.scratch, PROBLEM_FILE).write_text(request["source"], encoding="utf-8")
        Path(self.scratch, compiled_before.FOLDER).mkdir(exist_ok=True)
        if request["compiled"]:
            compiled_before.take_over(request["compiled"], Path(self.scratch))
        torch.set_num_threads(1)
        sys.dont_write_bytecode = True
        trace = self.trace or instrument(self.device)
        if trace.memory is not None:
            trace.memory.forget(self.kernel_file)
        problem_file = Path(self.scratch, PROBLEM_FILE)
        hidden = str(problem_file), str(Path(self.scratch, REBUILT_FILE))
        witness = Witness(self.scratch, _programs(self.device), self.kernel_file, hidden)
        missing: list[str] = []
        if self.contained:
            warnings.simplefilter("ignore")
            if self.device == "cpu":
                without_gpu.say_nothing_of_it()
            missing = sandbox.confine(self.scratch, devices(self.device), witness.programs)
        self.runner = running.Runner(self.device, self.kernel_file, trace, witness)
        problem = cases.load(request["source"], problem_file)
        sys.modules.pop(problem_file.stem)
        witness.start(audit=self.contained)  # from here on it is the candidate that acts
        kernel = load_kernel(Path(self.kernel_file))
        witness.settings()  # what it set for the whole process is put back before anything is built
        self.runner.problem, self.runner.kernel = problem, kernel
        self.runner.model = build(kernel, problem, request["seed"], self.kernel_file, self.device)
        state = running.described_state(self.runner.model)
        return {"ok": True, "missing": missing, "scratch": self.scratch, "state": state, **self._seen()}, []

    def _rebuild(self, request: dict[str, Any]) -> dict[str, Any]:
        """Construct ModelNew once more, as a problem with other arguments does, in the mode asked for."""
        assert self.runner is not None
        problem = cases.load(request["source"], Path(self.scratch, REBUILT_FILE))
        sys.modules.pop(Path(REBUILT_FILE).stem)
        model = build(self.runner.kernel, problem, request["seed"], self.kernel_file, self.device)
        self.runner.problem, self.runner.model = problem, model.train(request["training"])
        return {"ok": True, "state": running.described_state(model), **self._seen()}


def instrument(device: str) -> Trace:
    """Put our watch into Triton, in this process, for good."""
    memory = None
    if device == "cpu":
        from verifier import interpreter

        memory = interpreter.install()
        without_gpu.install()
    trace = Trace(memory)
    trace.install()
    return trace


def devices(device: str) -> tuple[str, ...]:
    """A GPU's device files, which CUDA writes to."""
    if device == "cpu":
        return ()
    return tuple(str(path) for path in Path("/dev").glob("nvidia*"))


def _programs(device: str) -> tuple[str, ...]:
    """The programs that Triton itself starts to compile for a GPU."""
    if device == "cpu":
        return ()
    import triton

    return (str(Path(triton.__file__).parent),)
