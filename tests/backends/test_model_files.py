"""Files of a model → a loaded one: how it is loaded smaller, and what is told of files that hold no model."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from backends import BackendUnavailable
from backends.model_files import load
from backends.model_name import read
from tests.backends import tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a model."""
    return tiny.build(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `from_pretrained` is given, on a machine that has bitsandbytes; nothing is loaded."""
    from transformers import AutoModelForCausalLM

    given: dict[str, Any] = {}
    found, version = importlib.util.find_spec, importlib.metadata.version
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: name == "bitsandbytes" or found(name, *more))
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.48.0" if name == "bitsandbytes" else version(name)
    )

    class Loaded(torch.nn.Module):
        """Cannot be moved, as a model of few bits cannot."""

        def to(self, *_: Any) -> Loaded:
            """Refuse."""
            raise ValueError("`.to` is not supported for `8-bit` models")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **more: given.update(more) or Loaded())
    return given


def loaded(folder: Path, flags: str, device: str = "cpu") -> None:
    """Load a model as it is named."""
    load(read(f"{folder}{flags}"), folder, None, device)


def test_eight_bits(whole: Path, passed: dict[str, Any]) -> None:
    """The weights are loaded as int8 onto the one device, and not moved afterwards."""
    loaded(whole, "#8bit")
    config = passed["quantization_config"]
    assert config.load_in_8bit and not config.load_in_4bit
    assert passed["device_map"] == {"": "cpu"} and passed["local_files_only"]


def test_four_bits(whole: Path, passed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are loaded as nf4, and computed with in what the device is fast at."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (1 << 34, 1 << 34))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    loaded(whole, "#4bit", "cuda")
    config = passed["quantization_config"]
    assert config.load_in_4bit and config.bnb_4bit_quant_type == "nf4"
    assert config.bnb_4bit_compute_dtype == passed["dtype"] == torch.bfloat16 and passed["device_map"] == {"": "cuda"}


def test_all_bits(whole: Path, passed: dict[str, Any]) -> None:
    """Without a flag nothing is quantised, and the model is moved to its device."""
    with pytest.raises(BackendUnavailable, match="is not supported"):  # the fake says that it was tried
        loaded(whole, "")
    assert "quantization_config" not in passed and "device_map" not in passed


def test_fewer_bits_need_less_memory(whole: Path, passed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not fit as it is may fit with 4 bits; both numbers are those of the bits."""
    monkeypatch.setattr("backends.model_files.elements", lambda _: 1 << 30)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (1 << 30, 1 << 30))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(BackendUnavailable, match=r"need 2\.0 GB and 1\.0 GB are free"):
        loaded(whole, "", "cuda")
    loaded(whole, "#4bit", "cuda")


@pytest.mark.parametrize("bits", [8, 4])
def test_few_bits_without_bitsandbytes(whole: Path, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is named, and how it is installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "bitsandbytes" else found(name, *more)
    )
    with pytest.raises(BackendUnavailable, match=f"{bits}-bit weights need bitsandbytes") as fault:
        loaded(whole, f"#{bits}bit")
    assert fault.value.hint == "pip install 'kernelllm[quantised]'"
