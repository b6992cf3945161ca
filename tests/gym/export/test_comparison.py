"""How two programs are compared: figures by hand, and what must not pass."""

import math
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.export.conftest import MakeJob
from zoo.gym.export import comparison
from zoo.gym.export.comparison import difference
from zoo.gym.export.run import export

HALF, QUARTER = math.log(0.5), math.log(0.25)


def test_figures_are_those_of_two_distributions() -> None:
    measured = difference([{0: HALF, 1: HALF}], [{0: QUARTER, 1: math.log(0.75)}])
    # .5 ln(.5 / .25) + .5 ln(.5 / .75) = .5 ln(4 / 3)
    assert measured.kl == pytest.approx(0.5 * math.log(4 / 3))
    assert measured.max_logprob == pytest.approx(math.log(2))
    assert measured.prompts == 1


def test_the_rest_of_the_vocabulary_counts_as_one_token() -> None:
    measured = difference([{0: HALF}], [{0: QUARTER, 1: math.log(0.75)}])
    assert measured.kl == pytest.approx(0.5 * math.log(4 / 3))
    assert measured.top1 == 0


def test_a_token_that_the_other_lacks_is_no_likelier_than_its_last() -> None:
    measured = difference([{0: HALF, 1: HALF}], [{0: HALF, 2: math.log(0.01)}])
    assert measured.max_logprob == pytest.approx(math.log(50))


@pytest.mark.parametrize("rows", [([{0: math.nan}], [{0: 0.0}]), ([{0: 0.0}], [{0: math.nan}])])
def test_what_is_no_number_is_no_small_difference(
    rows: tuple[list[dict[int, float]], list[dict[int, float]]],
) -> None:
    with raises("export.nan"):
        difference(*rows)


@pytest.mark.parametrize(
    ("form", "quantization"), [("gguf", "bf16"), ("gguf", "q8_0"), ("hf", None)]
)
def test_a_source_too_large_for_float32_is_compared_as_it_is_stored(
    form: str, quantization: str | None, job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(comparison, "F32_SHARE", 0.0)
    made = job("zen-pico", quantization=quantization)
    assert comparison.comparison_dtype(made) == "auto"
    report = export(made, form, Path("out.gguf" if form == "gguf" else "out"))
    assert report.check is not None
    assert 0 < report.check["mean_kl"] < 1e-2
