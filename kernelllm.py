"""The command and the library door: arguments in, exit code out; `KernelLLM` is what Python users import."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from repl.arguments import Settings
    from repl.turn import Turn
    from verifier.verdict import Verdict


class KernelLLM:
    """A kernel-writing language model and the verifier; the weights load into this process at the first use.

    >>> from kernelllm import KernelLLM
    >>> turn = KernelLLM().convert('''
    ... import torch, torch.nn as nn
    ...
    ... class Model(nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu(x) * 2
    ...
    ... def get_inputs():
    ...     return [torch.randn(8, 100)]
    ...
    ... def get_init_inputs():
    ...     return []
    ... ''')
    >>> print(turn.verdict.outcome, turn.kernel)
    """

    def __init__(self, model_name: str = "facebook/KernelLLM", device: str = "auto") -> None:
        self.model_name, self.device = model_name, device
        self._loaded: Any = None

    def generate_raw(self, prompt: str, temperature: float = 0.6, max_new_tokens: int = 2048) -> str:
        """Complete a raw prompt and return the new text; warns when the limit cut it off."""
        return self._draw(prompt, temperature, max_new_tokens).strip()

    def stream_raw(self, prompt: str, max_new_tokens: int = 2048) -> None:
        """Complete a raw prompt and print the text as it comes."""
        self._draw(prompt, 0.6, max_new_tokens, show=lambda piece: print(piece, end="", flush=True))
        print()

    def generate_triton(self, code: str, temperature: float = 0.6, max_new_tokens: int = 2048) -> str:
        """Return the model's kernel file for a PyTorch module, not judged."""
        from backends import Request
        from backends.answers import prompt_for
        from backends.extract import extract

        prompt = prompt_for(self._weights(), Request(code, "Model"))
        text = self._draw(prompt, temperature, max_new_tokens)
        return extract(text) or text.strip()

    def convert(self, code: str, *, backend: str = "builtin", **options: Any) -> Turn:
        """Convert a module and judge the kernels; `options` are those of repl.events.Options."""
        import backends
        from backends.local import Local
        from repl.library import convert

        def writer(spawn: backends.Spawn | None) -> backends.Backend:
            if backend == "local":  # the weights of this object, not a second copy in a child
                return Local(self.model_name, self.device, weights=self._weights())
            return backends.open(backend, model=self.model_name, device=self.device, spawn=spawn)

        return convert(code, {"device": self.device, **options}, writer)

    def verify(self, problem: str, kernel: str, **options: Any) -> Verdict:
        """Judge a kernel file; `options` are those of verifier.verify."""
        from repl.library import verify

        return verify(problem, kernel, {"device": self.device, **options})

    def _draw(self, prompt: Any, temperature: float, max_new_tokens: int, show: Any = lambda piece: None) -> str:
        from backends.weights import Sampling

        pieces: list[str] = []
        stream = self._weights().stream(prompt, Sampling(temperature, max_new_tokens=max_new_tokens))
        while True:
            try:
                pieces.append(next(stream))
            except StopIteration as end:
                if end.value:
                    warnings.warn(f"the answer was cut off: {end.value}", stacklevel=3)
                return "".join(pieces)
            show(pieces[-1])

    def _weights(self) -> Any:
        if self._loaded is None:
            from backends.weights import Weights

            self._loaded = Weights(self.model_name, self.device)
        return self._loaded


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    from repl.arguments import UsageError, parse

    words = sys.argv[1:] if arguments is None else arguments
    _open_standard_streams()
    end_in_order()
    try:
        return _run(parse(words))
    except UsageError as fault:
        from repl.oneshot import bad_usage

        return bad_usage(fault, as_json="--json" in words)
    except KeyboardInterrupt:
        return 130


def end_in_order() -> None:
    """Let SIGTERM and a closed terminal unwind the stack, so that what was written is kept and the children end."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # not where nohup has it ignored
            signal.signal(number, _end)


def _run(settings: Settings) -> int:
    if settings.command == "bench":
        from repl.batch import bench

        return bench(settings)
    if settings.command == "convert" and not settings.paths and not settings.json and _at_a_terminal():
        from repl.loop import run

        return run(settings)
    from repl.oneshot import convert_one, verify_one

    return verify_one(settings) if settings.command == "verify" else convert_one(settings)


def _open_standard_streams() -> None:
    """Take the numbers of closed standard streams, before a socket of ours gets one and is written to as such."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(fd, True)
    os.close(fd)


def _at_a_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
