"""A delta says nothing of the engine: its bytes and those of the model it makes are the same."""

import hashlib
from pathlib import Path

import pytest

from tests.backends.policies import LORA, moved
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.backends.machine.detect import Detection
from zoo.backends.spec import Train
from zoo.gym.delta import apply_delta, create_delta
from zoo.models import PICO, pico_folder

pytest.importorskip("mlx_lm", reason="MLX is not installed")

ENGINES = ("mlx", "cpu")


def use(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a device that of this machine, which deltas read parameters with."""
    found = Detection(engine, "", ())
    monkeypatch.setattr("zoo.backends.machine.detect.detect", lambda: found)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
@pytest.mark.parametrize("trainer", ENGINES)
def test_a_delta_made_on_one_engine_applies_on_the_other_to_the_same_bytes(
    trainer: str, train: Train, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home
    base, result = pico_folder(), tmp_path / "result"
    policy = load_backend(trainer).load(base, LoadSpec(train=train, dtype="f32"))
    if train == "full":
        policy.load_trained({name: value * 1.01 for name, value in policy.trained()})
    else:
        moved(policy)
    policy.save_result(result, base=PICO)
    for engine in ENGINES:
        use(engine, monkeypatch)
        create_delta(result, base=base, base_id=PICO, out=tmp_path / f"{engine}.safetensors")
    assert digest(tmp_path / "mlx.safetensors") == digest(tmp_path / "cpu.safetensors")
    made = tmp_path / f"{trainer}.safetensors"
    for engine in ENGINES:
        use(engine, monkeypatch)
        apply_delta(made, base=base, out=tmp_path / engine)
    files = [tmp_path / engine / "model.safetensors" for engine in ENGINES]
    assert digest(files[0]) == digest(files[1]) != digest(base / "model.safetensors")
