"""Work on large files in a process of its own that ends with whoever waits for it: JSON lines come back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

from backends import BackendUnavailable

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from backends.{module} import main; main(*sys.argv[2:])"


def messages(module: str, *words: str) -> Generator[dict[str, Any], None, None]:
    """Run `backends.MODULE.main(*words)` and yield what it says; raise BackendUnavailable. Closing ends it."""
    root = str(Path(__file__).resolve().parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT.format(module=module), root, *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            message = json.loads(line)
            if "unavailable" in message:
                raise BackendUnavailable(*message["unavailable"])
            yield message
        if process.wait():
            raise BackendUnavailable(f"the process for {words[0]} ended with {process.returncode}", "try again")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        process.stdout.close()


def say(**message: Any) -> None:
    """Say something to whoever waits."""
    print(json.dumps(message), flush=True)
