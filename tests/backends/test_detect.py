"""The device that is used: CUDA before MLX before MPS before the CPU, with the reasons."""

import pytest
import torch

from tests.codes import raises
from zoo.backends.machine import detect
from zoo.backends.machine.detect import Detection
from zoo.backends.machine.installing import install_command


def machine(monkeypatch: pytest.MonkeyPatch, *working: str, apple: bool = True) -> Detection:
    """What is chosen on a machine where these devices work."""
    monkeypatch.setattr(detect, "probe", lambda name: (name in working, f"about {name}"))
    monkeypatch.setattr(detect, "has_apple_gpu", lambda: apple)
    return detect.detect()


@pytest.mark.parametrize(
    ("working", "chosen"),
    [
        (("cuda", "mlx", "mps", "cpu"), "cuda"),
        (("mlx", "mps", "cpu"), "mlx"),
        (("mps", "cpu"), "mps"),
        (("cpu",), "cpu"),
    ],
)
def test_the_first_device_that_works_is_used(
    monkeypatch: pytest.MonkeyPatch, working: tuple[str, ...], chosen: str
) -> None:
    found = machine(monkeypatch, *working)
    assert (found.name, found.reason) == (chosen, f"about {chosen}")
    for name, why in found.others:
        works = f"works, but {chosen} comes first"
        assert why == (works if name in working else f"about {name}")


def test_mlx_without_an_apple_gpu_is_used_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine(monkeypatch, "mlx", "cpu", apple=False)
    assert found.name == "cpu"
    assert dict(found.others)["mlx"] == "about mlx; used only by name: backend=mlx"
    assert detect.require("mlx") == "mlx"


@pytest.mark.parametrize("missing", ["mlx", "mlx_lm"])
def test_a_missing_library_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(detect, "find_spec", lambda name: None if name == missing else object())
    monkeypatch.setattr("sys.platform", "linux")
    expected = f"{missing.replace('_', '-')} is not installed: {install_command('mlx')}"
    with raises("backends.not_available") as refused:
        detect.require("mlx")
    assert expected in refused.value.message


@pytest.mark.parametrize(
    ("cuda", "hip", "there", "said"),
    [
        ("13.0", None, True, "A GPU with CUDA 13.0"),
        (None, "7.1", True, "A GPU with ROCm 7.1"),
        ("13.0", None, False, "no CUDA device found"),
        (None, "7.1", False, "no ROCm device found"),
        (None, None, False, "this torch was built without CUDA or ROCm"),
    ],
)
def test_amd_s_platform_is_named_where_torch_calls_it_cuda(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, hip: str | None, said: str, *, there: bool
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    assert detect.probe("cuda") == (there, said)


def test_an_intel_gpu_is_named_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    expected = "the engine was never tried on an Intel GPU"
    assert dict(detect.detect().others)["xpu"] == expected
    with raises("backends.not_available", f"'xpu' is not available: {expected}"):
        detect.require("xpu")


def test_windows_has_no_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with raises("backends.not_available", "MLX does not run on Windows"):
        detect.require("mlx")
