"""What the processor multiplies well is measured once, and again where something changed."""

from pathlib import Path

import pytest

from zoo.backends.torch import products
from zoo.backends.torch.products import ProductSpeeds
from zoo.gym.products import product_speeds


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ProductSpeeds]:
    """Counts measurements; each finds another speed."""
    found: list[ProductSpeeds] = []

    def measure() -> ProductSpeeds:
        found.append(ProductSpeeds(1.0 + len(found), 2.0, 3.0))
        return found[-1]

    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    monkeypatch.setattr(products, "measure_products", measure)
    return found


def test_a_second_look_reads_the_first(measured: list[ProductSpeeds]) -> None:
    assert product_speeds() == product_speeds() == ProductSpeeds(1.0, 2.0, 3.0)
    assert len(measured) == 1


@pytest.mark.parametrize("variable", products.LIMITS)
def test_another_environment_is_measured_again(
    measured: list[ProductSpeeds], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    product_speeds()
    monkeypatch.setenv(variable, "AVX2-of-the-test")
    assert product_speeds() == measured[1]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"f32_s": 1}', "[" * 100_000])
def test_a_damaged_file_is_measured_again(
    measured: list[ProductSpeeds], tmp_path: Path, text: str
) -> None:
    product_speeds()
    (tmp_path / "cache" / "products.json").write_text(text)
    assert product_speeds() == measured[1]


@pytest.mark.parametrize("time", ["0.0", "NaN", "-1.0", "null", '"1"'])
def test_a_time_that_cannot_be_is_measured_again(
    measured: list[ProductSpeeds], tmp_path: Path, time: str
) -> None:
    product_speeds()
    file = tmp_path / "cache" / "products.json"
    file.write_text(file.read_text().replace("2.0", time))
    assert product_speeds() == measured[1]
