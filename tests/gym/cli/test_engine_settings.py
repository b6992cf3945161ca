"""Settings that the chosen engine does not follow are refused before a run has a folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.backends.machine import detect
from zoo.gym.config import load_config
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.jobs import run_folders
from zoo.gym.train.planning.faults import check_engine

GIVEN = ["model=zen-pico", "dataset=d.jsonl"]
ON_MLX = [
    (["finetuning_type=oft"], "finetuning_type: expected lora, dora or full on MLX, got 'oft'"),
    (["num_processes=2"], "num_processes: expected 1 on mlx, got 2"),
    (["dtype=bf16-widened"], "dtype: expected auto, f32 or bf16 on MLX, got 'bf16-widened'"),
    (["quantization_bit=4", "quantization_type=fp4"], "quantization_method: expected mlx on MLX"),
    (["flash_attn=sdpa"], "flash_attn: not available on MLX: got sdpa"),
    (["flash_attn=disabled"], "flash_attn: not available on MLX: got disabled"),
    (["stream_layers=true"], "stream_layers: not available on MLX: got True"),
    (["activation_offloading=true"], "activation_offloading: not available on MLX"),
    (["stage=rm"], "stage: not available on MLX: got rm"),
    (["packing=true"], "packing: not available on MLX: got true"),
    (["adapter_name_or_path=a"], "adapter_name_or_path: expected none for training on MLX"),
]
ON_TORCH = [
    ("cpu", ["quantization_bit=3"], "quantization_bit: expected one of (4, 8) with torch, got 3"),
    ("auto", ["quantization_bit=4", "quantization_method=mlx"], "expected bnb with torch, got mlx"),
    ("cpu", ["enable_liger_kernel=true"], "enable_liger_kernel: expected the device cuda, got cpu"),
    ("mps", ["activation_offloading=true"], "activation_offloading: expected the device cuda"),
    ("cuda", ["stream_layers=true"], "stream_layers: expected the device cpu, got cuda"),
    ("mps", ["num_processes=2"], "num_processes: expected 1 on mps, got 2"),
]


def refusal(*items: str) -> str:
    config = load_config([], [*GIVEN, *items], {}).config
    with pytest.raises(InputError) as caught:
        check_engine(config)
    return caught.value.message


@pytest.mark.parametrize(("items", "message"), ON_MLX, ids=str)
def test_what_mlx_lacks_is_refused_on_any_machine(items: list[str], message: str) -> None:
    assert refusal("backend=mlx", *items).startswith(message)


@pytest.mark.parametrize(("device", "items", "message"), ON_TORCH, ids=str)
def test_what_a_device_lacks_is_refused(device: str, items: list[str], message: str) -> None:
    assert message in refusal(f"backend={device}", *items)


def test_all_are_named_in_one_message() -> None:
    lines = refusal("backend=mlx", "optim=lion", "num_processes=2", "pissa_init=true").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["optim", "pissa_init", "num_processes"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--print-config",)])
def test_nothing_is_written(call: Callable[..., Any], rows: Path, more: tuple[str, ...]) -> None:
    del rows
    words = ["my.jsonl", "--model", "zen-pico", "backend=mlx", "optim=lion", *more]
    found = call("train", *words)
    assert (found.code, found.stdout) == (2, "")
    assert "optim: not available on MLX: got lion" in found.stderr
    assert run_folders() == []


ELSEWHERE = [
    (["backend=mps"], "backend 'mps' is not available"),
    (["backend=cuda"], "backend 'cuda' is not available"),
    (["backend=cpu", "optim=adamw_8bit"], "optim: adamw_8bit steps on a CUDA device"),
]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--print-config",)], ids=["run", "print"])
@pytest.mark.parametrize(("items", "message"), ELSEWHERE, ids=str)
def test_what_this_machine_lacks_is_refused_without_a_folder(
    call: Callable[..., Any],
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    items: list[str],
    message: str,
    more: tuple[str, ...],
) -> None:
    del rows
    monkeypatch.setattr(detect, "probe", lambda name: (name == "cpu", "not here"))
    found = call("train", "my.jsonl", "--model", "zen-pico", *items, *more)
    assert (found.code, found.stdout) == (4, "")
    assert f"error: {message}" in found.stderr
    assert "hint: " in found.stderr
    assert run_folders() == []


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "probe", lambda name: (name in {"cuda", "cpu"}, ""))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    config = load_config([], [*GIVEN, "backend=cuda", "num_processes=2"], {}).config
    with pytest.raises(NotAvailableError, match="a GPU for each process of this machine, got 1"):
        check_engine(config)


def test_what_an_engine_follows_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "probe", lambda name: (True, ""))
    every = ["use_dora=true", "quantization_bit=3", "gradient_checkpointing=false", "dtype=bf16"]
    check_engine(load_config([], [*GIVEN, "backend=mlx", *every], {}).config)
    plain = ["stream_layers=true", "num_processes=2", "optim=lion", "flash_attn=disabled"]
    check_engine(load_config([], [*GIVEN, "backend=cpu", *plain], {}).config)
