"""What the engine measures of this machine is measured once, and again where something changed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from zoo.backends.machine.detect import Detection
from zoo.backends.torch import backend
from zoo.backends.torch.numbers import products
from zoo.backends.torch.numbers.products import ProductSpeeds
from zoo.gym.engine import engine_for, open_engine, recall
from zoo.models.resolve import pico_folder

KEY = {"processor": "one"}


class Measurement:
    """Counts how often it is made; each finds other figures."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Mapping[str, float]:
        self.made += 1
        return {"f32_s": float(self.made), "bf16_s": 2.5}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("home")
def test_a_second_look_reads_the_first() -> None:
    measure = Measurement()
    assert recall("products", KEY, measure) == recall("products", KEY, measure)
    assert measure.made == 1


@pytest.mark.usefixtures("home")
def test_another_key_is_measured_again() -> None:
    measure = Measurement()
    recall("products", KEY, measure)
    assert recall("products", {"processor": "two"}, measure) == {"f32_s": 2.0, "bf16_s": 2.5}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"key": {"processor": "one"}}', "[" * 100_000])
def test_a_damaged_file_is_measured_again(home: Path, text: str) -> None:
    measure = Measurement()
    recall("products", KEY, measure)
    (home / "cache" / "products.json").write_text(text)
    assert recall("products", KEY, measure)["f32_s"] == 2.0


@pytest.mark.parametrize("time", ["0.0", "NaN", "-1.0", "null", '"1"'])
def test_a_time_that_cannot_be_is_measured_again(home: Path, time: str) -> None:
    measure = Measurement()
    recall("products", KEY, measure)
    file = home / "cache" / "products.json"
    file.write_text(file.read_text().replace("2.5", time))
    assert recall("products", KEY, measure)["f32_s"] == 2.0


@pytest.mark.usefixtures("home")
def test_the_speed_of_products_is_measured_again_in_another_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [ProductSpeeds(0.1, 0.2, 0.3), ProductSpeeds(0.3, 0.1, 0.2)]
    monkeypatch.setattr(backend, "measure_products", lambda: found[0])
    slow = open_engine("cpu").describe_precision()
    monkeypatch.setattr(backend, "measure_products", lambda: found[1])
    assert open_engine("cpu").describe_precision() == slow
    monkeypatch.setenv(products.LIMITS[0], "AVX2-of-the-test")
    assert "fast" in open_engine("cpu").describe_precision()


def test_torch_loads_what_mlx_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx_lm", reason="MLX is not installed")
    mac = Detection("mlx", "Apple GPU", ())
    monkeypatch.setattr("zoo.backends.machine.detect.detect", lambda: mac)
    monkeypatch.setattr(
        "zoo.backends.machine.detect.probe", lambda name: (name in {"mlx", "cpu"}, "")
    )
    other, loha = tmp_path / "other", tmp_path / "loha"
    for folder in (other, loha):
        folder.mkdir()
    (other / "config.json").write_text('{"model_type": "gpt2"}')
    (loha / "adapter_config.json").write_text('{"peft_type": "LOHA", "target_modules": ["q_proj"]}')
    assert engine_for(pico_folder()).name == "mlx"
    assert engine_for(other).name == "cpu"
    assert engine_for(pico_folder(), loha).name == "cpu"
