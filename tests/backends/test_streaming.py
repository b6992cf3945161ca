"""A base that stays in its files computes the same, and gives its memory back."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends import reference
from tests.backends.objectives_for_tests import GRPO, SFT, TestObjective
from tests.backends.policies import step
from tests.breadth import families
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Sampling
from zoo.backends.torch.streaming import mapped

pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")

LORA = LoadSpec(
    train=LoraSpec(rank=4, alpha=8.0), dtype="bf16-widened", gradient_checkpointing=True
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16-widened", "bf16"])
@pytest.mark.parametrize("objective", [SFT, GRPO], ids=lambda o: o.name)
def test_losses_gradients_and_answers_are_those_of_a_base_in_memory(
    stored_bf16: Path, dtype: str, objective: TestObjective
) -> None:
    found: list[Any] = []
    for streams in (True, False):
        spec = replace(LORA, dtype=dtype, stream_layers=streams)
        policy = load_backend("cpu").load(stored_bf16, spec)
        step(policy, reference.example_batch(), key=1)
        loss = policy.accumulate(objective, reference.example_batch(), key=2)["loss"]
        answers = policy.generate([[1, 2, 3]], Sampling(4, temperature=1.0), keys=[5])
        found.append((loss, dict(policy.gradients()), answers[0].ids))
    (loss, slopes, answer), (plain_loss, plain_slopes, plain_answer) = found
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert reference.relative_error(slopes, plain_slopes) < 1e-5
    assert answer == plain_answer


READERS: dict[str, dict[str, Any]] = {"dora": {"dora": True}, "pissa": {"init": "pissa"}}
"""Adapters that read the base's weights when they are made."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_adapters_that_read_weights_are_those_of_a_base_in_memory(
    stored_bf16: Path, kind: str
) -> None:
    found: list[Any] = []
    for streams in (True, False):
        train = LoraSpec(rank=4, alpha=8.0, **READERS[kind])
        policy = load_backend("cpu").load(
            stored_bf16, replace(LORA, train=train, stream_layers=streams, seed=1)
        )
        step(policy, reference.example_batch(), key=1)
        found.append(dict(policy.trained()))
    assert reference.relative_error(*found) < 1e-5


class Watch:
    """Notes which bytes of the files are in memory, by what is used, prefetched and released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident: set[tuple[int, int]] = set()
        self.most = self.releases = 0
        monkeypatch.setattr(mapped.Range, "prefetch", self._prefetched(mapped.Range.prefetch))
        monkeypatch.setattr(mapped.Range, "release", self._released(mapped.Range.release))

    def _prefetched(self, real: Any) -> Any:
        def prefetch(part: mapped.Range) -> None:
            self.resident.add((part.start, part.stop))
            self.most = max(self.most, sum(stop - start for start, stop in self.resident))
            real(part)

        return prefetch

    def _released(self, real: Any) -> Any:
        def release(part: mapped.Range) -> None:
            self.resident.discard((part.start, part.stop))
            self.releases += 1
            real(part)

        return release


@pytest.mark.slow
def test_at_most_two_layers_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_deep(tmp_path, layers=6)
    watch = Watch(monkeypatch)
    policy = load_backend("cpu").load(folder, replace(LORA, stream_layers=True))
    watch.releases = 0
    step(policy, reference.example_batch(), key=1)
    a_layer = sum(
        parameter.nbytes
        for name, parameter in policy.module.named_parameters()  # type: ignore[attr-defined]
        if ".layers.0." in name and "lora_" not in name and parameter.dtype is torch.bfloat16
    )
    assert 0.8 * a_layer < watch.most < 2.1 * a_layer
    # each layer forward and backward, and the weights outside
    assert watch.releases >= 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_weights_that_an_adapter_read_at_its_start_are_released(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, found = write_deep(tmp_path, layers=2), list[int]()
    watch = Watch(monkeypatch)
    plain: dict[str, Any] = {}
    for settings in (plain, READERS[kind]):
        watch.releases = 0
        train = LoraSpec(rank=4, alpha=8.0, targets=("down_proj",), **settings)
        load_backend("cpu").load(folder, replace(LORA, train=train, stream_layers=True))
        found.append(watch.releases)
    assert found[1] == found[0] + 2  # one weight in each layer


def write_deep(folder: Path, layers: int) -> Path:
    """Writes a Qwen3 in bf16 with layers of more than a page each."""
    from tests.backends.conftest import write_tiny
    from zoo.backends.torch.files.load import load_model

    plain = write_tiny(folder / "f32", tied=True, num_hidden_layers=layers)
    model: Any = load_model(plain, dtype="bf16")
    model.save_pretrained(folder / "bf16")
    return folder / "bf16"


def test_the_memory_of_the_files_cannot_be_written_to(stored_bf16: Path) -> None:
    """A release would lose the change. A write ends the process, so only the mode is looked at."""
    files = mapped.MappedFiles(stored_bf16.glob("*.safetensors"))
    [part, *_] = files.ranges(files.tensors.values())
    with pytest.raises(TypeError, match=r"read-?only"):
        part.file[0] = 1


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["bf16", "f16", "f32"])
def test_the_type_of_a_small_base_is_that_of_its_files(
    stored_bf16: Path, tmp_path: Path, stored: str
) -> None:
    """In memory a small base is widened to float32, which would not be in its files."""
    from safetensors.torch import load_file, save_file

    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    folder = Path(shutil.copytree(stored_bf16, tmp_path / "m"))
    tensors = load_file(folder / "model.safetensors")
    as_stored = {name: tensor.to(types[stored]) for name, tensor in tensors.items()}
    save_file(as_stored, folder / "model.safetensors", metadata={"format": "pt"})
    policy = load_backend("cpu").load(folder, replace(LORA, dtype="auto", stream_layers=True))
    assert policy.logits([1, 2, 3]).shape[0] == 3


@pytest.mark.parametrize(
    ("family", "spec", "share"),
    [("llama", replace(LORA, dtype="bf16"), "0%"), ("qwen3_moe", replace(LORA, dtype="f32"), "")],
)
def test_weights_that_are_not_used_as_they_are_stored_are_refused(
    family: str, spec: LoadSpec, share: str, tmp_path: Path
) -> None:
    families.build(family, tmp_path)
    with raises("torch.weights_converted", f"stream_layers: .* as they are stored, got {share}"):
        load_backend("cpu").load(tmp_path, replace(spec, stream_layers=True))


def test_a_system_that_cannot_release_memory_is_refused(
    stored_bf16: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "RELEASE", None)
    with raises("torch.no_streaming"):
        load_backend("cpu").load(stored_bf16, replace(LORA, stream_layers=True))


def test_a_tensor_that_is_not_finite_is_found(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = write_deep(tmp_path, layers=2)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = np.inf
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with raises("backends.not_finite", r"layers\.1\.mlp\.up_proj\.weight: value .* is inf"):
        load_backend("cpu").load(folder, replace(LORA, stream_layers=True))
