"""Bad deltas and adapters, bases that are not theirs, and disks that take nothing."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gym import broken
from tests.gym.conftest import Refused
from zoo.gym.cli import main

APPLY = ("delta", "apply", "d.safetensors", "--base", "zen-pico", "--out", "out")
CHECK = ("delta", "check", "d.safetensors", "--base", "zen-pico")
USES = {
    "info": ("delta", "info", "d.safetensors"),
    "check": CHECK,
    "apply": APPLY,
    "chat": ("chat", "--delta", "d.safetensors"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full fine-tune of zen-pico, and its delta."""
    folder = tmp_path_factory.mktemp("kept")
    broken.move_weights(broken.pico(folder / "tuned"))
    words = ["delta", "create", str(folder / "tuned"), "--base", "zen-pico"]
    assert main([*words, "--out", str(folder / "d.safetensors")]) == 0
    return folder


@pytest.fixture
def delta(place: Path, kept: Path) -> Path:
    """A sound delta file in the working folder."""
    return Path(shutil.copyfile(kept / "d.safetensors", place / "d.safetensors"))


@pytest.fixture
def tuned(place: Path, kept: Path) -> Path:
    """A full fine-tune in the working folder."""
    return Path(shutil.copytree(kept / "tuned", place / "tuned"))


@pytest.mark.parametrize("words", USES.values(), ids=USES)
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0], ids=["header", "middle", "last"])
def test_a_flipped_bit_is_found_by_whatever_reads_the_delta(
    refused: Refused, delta: Path, words: tuple[str, ...], share: float
) -> None:
    content = bytearray(delta.read_bytes())
    content[int((len(content) - 1) * share)] ^= 1
    delta.write_bytes(content)
    assert "d.safetensors" in refused(*words, code=2)


NO_DELTAS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda content: content[:-7], "truncated file: expected at least"),
    "empty": (lambda _: b"", "truncated file: expected at least"),
    "pointer": (lambda _: broken.LFS.encode(), "LFS pointer instead of the file itself"),
    "text": (lambda _: b'{"text": "a row of data, no delta"}', "not a safetensors file"),
    "zeros": (lambda content: bytes(len(content)), "d.safetensors"),
}


@pytest.mark.parametrize("words", USES.values(), ids=USES)
@pytest.mark.parametrize("case", NO_DELTAS.values(), ids=NO_DELTAS)
def test_a_file_that_is_no_delta_is_refused(
    refused: Refused,
    delta: Path,
    words: tuple[str, ...],
    case: tuple[Callable[[bytes], bytes], str],
) -> None:
    delta.write_bytes(case[0](delta.read_bytes()))
    assert case[1] in refused(*words, code=2)


@pytest.mark.parametrize("words", USES.values(), ids=USES)
def test_weights_are_no_delta(refused: Refused, tuned: Path, words: tuple[str, ...]) -> None:
    (tuned / broken.WEIGHTS).rename("d.safetensors")
    message = refused(*words, code=2)
    assert "is not a delta: metadata format: expected 'zoo-gym-delta', got 'pt'" in message


WRONG_BASE = {
    "apply": ("delta", "apply", "d.safetensors", "--base", "./tuned", "--out", "out"),
    "check": ("delta", "check", "d.safetensors", "--base", "./tuned"),
    "chat": ("chat", "--delta", "d.safetensors", "--model", "./tuned"),
}


@pytest.mark.parametrize("words", WRONG_BASE.values(), ids=WRONG_BASE)
def test_a_delta_on_the_wrong_base_names_both(
    refused: Refused, delta: Path, tuned: Path, words: tuple[str, ...]
) -> None:
    message = refused(*words, code=2)
    assert "d.safetensors belongs to another base: expected 'zen-pico' (" in message
    assert "got 'tuned' (" in message


SPOILT: dict[str, tuple[broken.Break, str]] = {
    "nan": (broken.put_nan, ": expected finite values, got nan at [3]"),
    "shape": (broken.reshape, f"'{broken.NORM}': expected shape [128] as in the base, got [64]"),
    "truncated": (broken.cut(broken.WEIGHTS), "model.safetensors: truncated file: expected at"),
    "pointer": (broken.write(broken.WEIGHTS, broken.LFS), "LFS pointer"),
    "pickle": (broken.rename("pytorch_model.bin"), "expected safetensors, got 'pytorch_model.bin"),
}


@pytest.mark.parametrize("case", SPOILT.values(), ids=SPOILT)
def test_a_bad_fine_tune_gives_no_delta(
    refused: Refused, tuned: Path, case: tuple[broken.Break, str]
) -> None:
    case[0](tuned)
    assert case[1] in refused("delta", "create", "tuned", "--base", "zen-pico", code=2)


@pytest.mark.parametrize("name", [name for name in SPOILT if name != "shape"])
def test_a_bad_base_gives_no_delta(refused: Refused, tuned: Path, place: Path, name: str) -> None:
    spoil, part = SPOILT[name]
    spoil(broken.pico(place / "base"))
    assert part in refused("delta", "create", "tuned", "--base", "./base", code=2)


OUTPUTS = ["d.safetensors/below"] + ["/proc/below"] * (sys.platform == "linux")


@pytest.mark.parametrize("out", OUTPUTS)
def test_an_unwritable_place_is_told(refused: Refused, delta: Path, tuned: Path, out: str) -> None:
    words = ["delta", "create", "tuned", "--base", "zen-pico", "--out", out]
    assert refused(*words, code=1).startswith("cannot write '")
    assert refused(*APPLY[:-1], out, code=1).startswith("cannot write '")


def test_a_folder_that_holds_something_is_not_written_into(
    refused: Refused, delta: Path, tuned: Path
) -> None:
    message = refused(*APPLY[:-1], "tuned", code=2)
    assert message == "output 'tuned': expected no folder or an empty one"


@pytest.mark.parametrize("words", [APPLY, ("delta", "create", "tuned", "--base", "zen-pico")])
def test_a_full_disk_leaves_nothing_half_written(
    refused: Refused,
    delta: Path,
    tuned: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert refused(*words, code=1).endswith(": no space left on device")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of zen-pico as the backend writes it."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec, LoraSpec
    from zoo.models import resolve

    folder = tmp_path_factory.mktemp("trained") / "adapter"
    policy = load_backend("cpu").load(resolve("zen-pico").folder, LoadSpec(train=LoraSpec(rank=2)))
    policy.save_result(folder, base="zen-pico")
    return folder


ADAPTER = "adapter_model.safetensors"
FIRST = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"


def edit(change: Callable[..., object]) -> broken.Break:
    """Returns what edits the tensors of an adapter by name."""

    def rewrite(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        tensors = load_file(folder / ADAPTER)
        change(tensors)
        save_file(tensors, folder / ADAPTER)

    return rewrite


ADAPTERS: dict[str, tuple[broken.Break, str]] = {
    "truncated": (broken.cut(ADAPTER), f"{ADAPTER}: truncated file: expected at least"),
    "pointer": (broken.write(ADAPTER, broken.LFS), "LFS pointer instead of the file itself"),
    "pickle": (lambda folder: (folder / ADAPTER).rename(folder / "adapter_model.bin"), ADAPTER),
    "nan": (edit(lambda tensors: tensors[FIRST].fill_(float("nan"))), f"{FIRST}"),
    "missing": (edit(lambda tensors: tensors.pop(FIRST)), "layers.0.mlp.down_proj"),
    "shape": (edit(lambda tensors: tensors.update({FIRST: tensors[FIRST][:, :5].clone()})), "5]"),
    "config": (broken.write("adapter_config.json", "[]"), "expected a JSON object, got a list"),
    "config cut": (broken.cut("adapter_config.json"), "adapter_config.json: expected a JSON"),
}
MAKE = ("delta", "create", "adapter", "--base", "zen-pico")


@pytest.mark.slow
@pytest.mark.parametrize("words", [("chat", "--adapter_name_or_path", "adapter"), MAKE])
@pytest.mark.parametrize("case", ADAPTERS.values(), ids=ADAPTERS)
def test_a_bad_adapter_is_told(
    refused: Refused,
    place: Path,
    trained: Path,
    case: tuple[broken.Break, str],
    words: tuple[str, ...],
) -> None:
    case[0](Path(shutil.copytree(trained, place / "adapter")))
    assert case[1] in refused(*words, code=2)
