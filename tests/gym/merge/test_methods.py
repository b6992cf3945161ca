import pytest

from tests.codes import raises
from zoo.gym.merge.methods import METHODS, settings_of


@pytest.mark.parametrize("name", METHODS)
def test_each_method_counts_every_source_once_by_default(name: str) -> None:
    assert settings_of(name, 2).weights == (1.0, 1.0)


@pytest.mark.parametrize("name", ["linear", "slerp", "task_arithmetic"])
def test_a_density_that_a_method_does_not_use_is_refused(name: str) -> None:
    with raises("merge.no_effect", "--density: has no effect with --method"):
        settings_of(name, 2, density=0.5)


@pytest.mark.parametrize("name", ["linear", "slerp", "task_arithmetic", "ties"])
def test_a_seed_that_a_method_does_not_use_is_refused(name: str) -> None:
    with raises("merge.no_effect", "--seed: has no effect with --method"):
        settings_of(name, 2, seed=1)


def test_methods_that_drop_weights_drop_half_by_default() -> None:
    assert [settings_of(name, 2).density for name in ("ties", "dare_ties", "linear")] == [
        0.5,
        0.5,
        1,
    ]


@pytest.mark.parametrize("density", [0.0, 1.5, float("nan")])
def test_a_density_out_of_range_is_refused(density: float) -> None:
    with raises("merge.bad_density"):
        settings_of("ties", 2, density=density)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, float("nan")], [1.0, -1.0]])
def test_weights_without_a_meaning_are_refused(weights: list[float]) -> None:
    with raises("merge.bad_weights", "--weights: expected"):
        settings_of("linear", 2, weights)


def test_a_change_can_be_subtracted() -> None:
    assert settings_of("task_arithmetic", 2, [1, -1]).weights == (1.0, -1.0)


def test_an_arc_joins_two_models() -> None:
    with raises("merge.bad_count", "expected 2 sources, got 3"):
        settings_of("slerp", 3)


def test_one_source_is_no_merge() -> None:
    with raises("merge.bad_count", "expected 2 or more sources, got 1"):
        settings_of("linear", 1)
