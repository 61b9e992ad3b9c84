"""Children from the warm process: fast, clean, limited, and gone when they should be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from verifier.children import Limits
from verifier.nursery import Nursery, scrubbed
from verifier.zygote import _House, has_time

HERE = "tests.verifier.targets"


def gone(pid: int, seconds: float = 3.0) -> bool:
    """Whether a process is gone, or soon is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_child_is_ready_at_once(nursery: Nursery) -> None:
    """A fork with torch imported costs milliseconds, not seconds."""
    nursery.spawn(f"{HERE}:echo").close()
    times = []
    for _ in range(5):
        started = time.monotonic()
        with nursery.spawn(f"{HERE}:echo") as child:
            child.send({"hello": 1})
            assert child.receive(10) is not None
        times.append(time.monotonic() - started)
    assert min(times) < 0.1


@pytest.mark.parametrize("interpret", [False, True])
def test_child_has_what_it_needs(nursery: Nursery, interpret: bool) -> None:
    """Triton is imported, its interpreter on or off, blobs come back as they were, no secret is inherited."""
    with nursery.spawn(f"{HERE}:echo", interpret=interpret) as child:
        child.send({"n": 1}, [b"abc", bytes(300_000)])
        frame = child.receive_frame(20)
    assert frame is not None
    message, blobs = frame
    assert message["got"] == {"n": 1} and blobs == [b"abc", bytes(300_000)]
    assert message["around"]["triton"] and message["environ"].get("TRITON_INTERPRET") == ("1" if interpret else None)
    assert not [name for name in message["environ"] if "TOKEN" in name or "KEY" in name]


def test_environment_is_an_allow_list() -> None:
    """Keys and tokens are dropped, whatever they are called; what children need stays."""
    kept = scrubbed(
        {"PATH": "p", "CUDA_VISIBLE_DEVICES": "0", "OPENAI_API_KEY": "s", "MY_SECRET": "s", "TORCH_TOKEN": "s"}
    )
    assert kept == {"PATH": "p", "CUDA_VISIBLE_DEVICES": "0"}


def test_grandchildren_die_too(nursery: Nursery) -> None:
    """A grandchild in a session of its own is swept up."""
    with nursery.spawn(f"{HERE}:hide") as child:
        message = child.receive(10)
        assert message is not None
        assert child.kill() == "signal 9"
    assert gone(message["pid"])


def test_flood_is_capped(nursery: Nursery) -> None:
    """Endless printing neither blocks nor fills the memory."""
    with nursery.spawn(f"{HERE}:flood", limits=Limits(file_bytes=1 << 20)) as child:
        child.receive(10)
        deadline = time.monotonic() + 10
        while not child.channel.ended and time.monotonic() < deadline:
            child.receive(0.2)
        assert child.channel.ended and child.printed() == 1 << 20


def test_memory_is_limited(nursery: Nursery) -> None:
    """What exceeds the limit is refused to the child, and nobody else notices."""
    with nursery.spawn(f"{HERE}:devour", limits=Limits(memory=1 << 30)) as child:
        assert child.receive(10) == {"refused": True}


def test_exception_is_kept(nursery: Nursery) -> None:
    """A child that raises ends with a status, and its traceback can be read."""
    with nursery.spawn(f"{HERE}:raises") as child:
        assert child.receive(10) is None and child.channel.ended
        assert child.kill() == "exit 70"
        assert "ValueError: on purpose" in child.output()


def test_scratch_folder_is_removed(nursery: Nursery) -> None:
    """Every child works in a folder of its own that goes with it."""
    with nursery.spawn(f"{HERE}:echo") as child:
        child.send({})
        message = child.receive(10)
        assert message is not None
        folder = Path(message["around"]["cwd"])
        assert folder.is_dir()
        child.kill()
    assert not folder.exists()


def _is_imported(own: Nursery, name: str) -> bool:
    with own.spawn(f"{HERE}:imported") as child:
        child.send({"names": [name]})
        return child.receive(20) == {"imported": [name]}


def test_what_children_need_is_imported_ahead() -> None:
    """A child starts with what was asked for before it, and was imported while there was none."""
    own = Nursery()
    own.ahead(["tabnanny", "this_is_no_module"])
    deadline = time.monotonic() + 60
    while not (found := _is_imported(own, "tabnanny")) and time.monotonic() < deadline:
        time.sleep(0.2)
    own.close()
    assert found


def test_nothing_is_imported_beside_children_at_work_unless_there_is_time() -> None:
    """On few processors a child that may be working keeps them, until it is said that nobody waits."""
    house = _House([], ["tabnanny"], root="", owners={1: None})  # type: ignore[dict-item]
    assert has_time(house, processors=2) is False and has_time(house, processors=4) is True
    house.is_resting = True
    assert has_time(house, processors=2) is True


def test_lent_connection_takes_its_children_along(nursery: Nursery) -> None:
    """When the borrower of a connection goes, the children it asked for go too."""
    borrowed = Nursery(*nursery.lend())
    child = borrowed.spawn(f"{HERE}:echo")
    borrowed.close()
    assert gone(child.pid)


def test_closing_leaves_no_process() -> None:
    """Closing ends the forking processes and every child; a shadowing torch.py in the folder is not imported."""
    own = Nursery()
    own.start()
    child = own.spawn(f"{HERE}:echo", interpret=True)
    started = time.monotonic()
    own.close()
    assert time.monotonic() - started < 3 and gone(child.pid)


def test_start_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting returns at once, whatever lies in the working directory."""
    (tmp_path / "torch.py").write_text("raise SystemExit('shadow')")
    monkeypatch.chdir(tmp_path)
    own = Nursery()
    started = time.monotonic()
    own.start()
    assert time.monotonic() - started < 0.5
    own.close()


def test_killed_forking_process_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scratch folders go also when the process that made them is killed; a child can be had again."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    own = Nursery()
    with own.spawn(f"{HERE}:echo"):
        assert own._process is not None and [*tmp_path.glob("kernelllm-*/*/*")]
        own._process.kill()
        own._process.wait()
    with own.spawn(f"{HERE}:echo") as child:
        child.send({})
        assert child.receive(10) is not None
    own.close()
    assert not [*tmp_path.iterdir()]


def test_starts_where_the_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory that somebody removed is no obstacle."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    own = Nursery()
    own.spawn(f"{HERE}:echo").close()
    own.close()


def test_dying_owner_takes_everything_along() -> None:
    """A terminal that is killed leaves no process behind."""
    code = (
        "import os; from verifier.nursery import Nursery; n = Nursery(); n.start();"
        f"c = n.spawn('{HERE}:echo'); print(c.pid, n._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert all(gone(int(pid)) for pid in done.stdout.split())


def test_sandbox_refuses(nursery: Nursery) -> None:
    """A confined child can write in its folder and do nothing else to the world."""
    with nursery.spawn(f"{HERE}:confined") as child:
        message = child.receive(10)
    assert message is not None
    if message["missing"]:
        pytest.skip(f"this kernel offers less: {message['missing']}")
    tried = message["tried"]
    assert tried.pop("write inside") == "done"
    assert set(tried.values()) == {"PermissionError"}, tried


def test_broken_frames_are_refused() -> None:
    """Garbage on the wire is an error of its own, not a crash."""
    from verifier.wire import BrokenFrame, Channel

    ours, theirs = socket.socketpair()
    theirs.sendall(b"\xff" * 64)
    with pytest.raises(BrokenFrame):
        Channel(ours).receive(1)
    theirs.close()
