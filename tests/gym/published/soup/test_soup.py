"""DeltaSoup: fine-tunes of named users become one delta."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.published.soup.conftest import soup_of
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from zoo.gym import AggregationMethod, DeltaSoup, DeltaSoupConfig, GymWarning
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.published.soup.contributors import published_points
from zoo.gym.published.soup.sources import source_of
from zoo.gym.rounds.rules.aggregate import TOO_SHORT


def rated(qualities: Iterator[float]) -> Callable[[Path], float]:
    """Returns a validator that gives one quality after the other."""

    def rate(_: Path) -> float:
        return next(qualities)

    return rate


def change_in(folder: Path, base: Path, name: str) -> "np.ndarray[Any, Any]":
    found = read_float32(open_weights(folder), name) - read_float32(open_weights(base), name)
    return np.asarray(found)


@pytest.mark.slow
def test_the_mean_of_plain_differences_is_that_of_the_models(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, _ = soup_of(base, tuned, 3, method="mean", use_bitdelta=False)
    folder = soup.aggregate().apply_to(out=tmp_path / "out")
    for name in LAYERS:
        mean = np.mean([change_in(tuned(seed), base, name) for seed in (1, 2, 3)], axis=0)
        got = change_in(folder, base, name)
        assert np.abs(got - mean).max() < 0.02 * np.abs(mean).max()  # eight bits


def test_federated_average_weighs_by_examples(base: Path, tuned: Callable[[int], Path]) -> None:
    soup, names = soup_of(base, tuned, 2, method="federated_average")
    report = soup.aggregate().report
    shares = {one["user"]: one["share"] for one in report["contributions"]}
    assert shares == pytest.approx({names[0]: 1 / 3, names[1]: 2 / 3})


def test_more_examples_than_a_round_takes_are_refused(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup = DeltaSoup(DeltaSoupConfig(method=AggregationMethod.FEDERATED_AVERAGE), base)
    soup.contribute("ann", tuned(1), metadata={"examples": 1 << 40})
    for number in (0, (1 << 40) + 1, 10**39):
        with raises("published.bad_argument", r"metadata.examples: expected 1 to 2\^40, got"):
            soup.contribute("ben", tuned(2), metadata={"examples": number})


@pytest.mark.slow
def test_one_outlier_of_five_does_not_count(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, _ = soup_of(base, tuned, 4, use_bitdelta=False)
    soup.contribute("mallory", fine_tune(tmp_path / "mallory", 9, size=0.5))
    report = soup.aggregate().report
    shares = {one["user"]: one["share"] for one in report["contributions"]}
    assert report["rule"] == {"method": "byzantine_robust", "f": 1}
    assert shares.get("mallory", 0) == 0


def test_with_two_contributors_the_robust_rule_is_a_mean_and_says_so(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup, _ = soup_of(base, tuned, 2)
    with pytest.warns(GymWarning, match="nothing malicious is withstood with 2 contributors"):
        assert soup.aggregate().report["rule"] == {"method": "mean", "f": 0}


@pytest.mark.slow
def test_a_share_that_so_few_cannot_withstand_is_warned_of(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup, _ = soup_of(base, tuned, 5, method="multi_krum", byzantine_threshold=0.49)
    with pytest.warns(GymWarning, match="withstands 1 of 5 .*=0.49 asks for 2"):
        assert soup.aggregate().report["rule"]["f"] == 1  # (5 - 3) / 2


@pytest.mark.slow
def test_a_share_that_is_withstood_is_not_warned_of(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup, _ = soup_of(base, tuned, 5, method="multi_krum", byzantine_threshold=0.3)
    assert soup.aggregate().report["warnings"] == []


def test_a_validator_acts_without_rewards_where_reputations_weigh() -> None:
    given: dict[str, Any] = {"method": "weighted_mean", "quality_validator": len}
    assert DeltaSoupConfig(enable_rewards=False, **given).quality_validator is not None


@pytest.mark.slow
def test_too_few_contributors_are_an_error(base: Path, tuned: Callable[[int], Path]) -> None:
    soup, _ = soup_of(base, tuned, 2)
    with raises("published.too_few", "2 of 3"):
        soup.aggregate(min_contributors=3)


def test_a_folder_of_an_adapter_names_its_base(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": "zen-pico", "target_modules": ["q"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    assert source_of(folder, tmp_path) == (folder, "zen-pico")


@pytest.mark.slow
def test_a_result_stays_what_it_was_when_more_is_combined(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, _ = soup_of(base, tuned, 2, method="mean", use_bitdelta=False)
    first = soup.aggregate()
    soup.contribute("carol", tuned(3))
    second = soup.aggregate()
    assert load_delta(first.save(tmp_path / "one.safetensors")).digest == first.digest
    folders = [one.apply_to(out=tmp_path / one.digest) for one in (first, second)]
    one, two = (change_in(folder, base, LAYERS[0]) for folder in folders)
    assert not np.array_equal(one, two)


@pytest.mark.slow
def test_a_result_whose_file_was_changed_is_not_used(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, _ = soup_of(base, tuned, 2, method="mean", use_bitdelta=False)
    first = soup.aggregate()
    soup.contribute("carol", tuned(3))
    shutil.copyfile(soup.aggregate().delta.path, first.delta.path)
    said = f"expected the result {first.digest[:12]}, got"
    with raises("published.other_result", said):
        first.save(tmp_path / "out")
    with raises("published.other_result", said):
        first.apply_to(out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_user_contributes_once(base: Path, tuned: Callable[[int], Path]) -> None:
    soup, names = soup_of(base, tuned, 1)
    with raises("published.given_twice", "one contribution of each user"):
        soup.contribute(names[0], tuned(2))


@pytest.mark.slow
def test_a_copy_is_refused(base: Path, tuned: Callable[[int], Path]) -> None:
    soup, _ = soup_of(base, tuned, 2)
    with raises("published.copy"):
        soup.contribute("copycat", tuned(2))


@pytest.mark.slow
def test_copies_are_none_of_the_contributors_that_are_needed(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, _ = soup_of(base, tuned, 2, method="mean", use_bitdelta=False, min_contributors=3)
    soup.contribute("copycat", fine_tune(tmp_path / "copycat", 2, size=0.02))
    said = "expected at least 3 contributors, got 2 of 3 .*copycat: a copy of the contribution of"
    with raises("published.too_few", said):
        soup.aggregate()
    with pytest.warns(GymWarning, match="copycat"):
        assert len(soup.aggregate(min_contributors=2).report["contributions"]) == 2


@pytest.mark.slow
def test_a_scaled_copy_does_not_count(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, names = soup_of(base, tuned, 3, method="mean", use_bitdelta=False)
    soup.contribute("copycat", fine_tune(tmp_path / "copycat", 2, size=0.02))
    with pytest.warns(GymWarning, match="copycat: a copy of the contribution of user 2"):
        report = soup.aggregate().report
    assert [one["user"] for one in report["refused"]] == ["copycat"]
    assert soup.calculate_rewards()["copycat"] == 0
    assert {one["user"] for one in report["contributions"]} == set(names)


def test_a_fine_tune_that_changes_nothing_is_refused(base: Path) -> None:
    with raises("published.no_change"):
        DeltaSoup(base_model=base).contribute("alice", base)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:use_bitdelta")
@pytest.mark.parametrize("signs", [False, None])
@pytest.mark.parametrize("method", ["mean", "median"])
def test_an_adapter_that_was_not_trained_gets_no_share(
    method: str, signs: bool | None, base: Path, tmp_path: Path
) -> None:
    arrays = disk.lora_arrays(SHAPES, 3, 2)
    zeros = {name: value * ("lora_A" in name) for name, value in arrays.items()}
    trained = disk.write_adapter(tmp_path / "trained", arrays, 3)
    new = disk.write_adapter(tmp_path / "new", zeros, 3)
    given = {} if signs is None else {"use_bitdelta": signs}
    soup = DeltaSoup(DeltaSoupConfig.model_validate({"method": method, **given}), base)
    for before in ((), ("ann",)):  # as the first, and after another one
        for user in before:
            soup.contribute(user, trained)
        with raises("rounds.no_change"):
            soup.contribute("ben", new)


@pytest.mark.slow
def test_a_fine_tune_without_a_record_of_its_base_needs_one(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    with raises("published.no_base"):
        DeltaSoup().contribute("alice", tuned(1))
    assert DeltaSoup().contribute("alice", tuned(1), base_model=base)


@pytest.mark.slow
def test_another_base_is_refused(base: Path, tuned: Callable[[int], Path], tmp_path: Path) -> None:
    soup, _ = soup_of(base, tuned, 1)
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 5))
    with raises("published.wrong_base", "that of the soup"):
        soup.contribute("bob", tuned(2), base_model=other)


@pytest.mark.slow
def test_rewards_add_up_to_the_pool(base: Path, tuned: Callable[[int], Path]) -> None:
    soup, names = soup_of(base, tuned, 3, method="mean", reward_pool=1000.0)
    soup.aggregate()
    rewards = soup.calculate_rewards()
    assert sorted(rewards.values()) == [333, 333, 334]
    assert rewards.keys() == set(names)


@pytest.mark.slow
def test_rewards_need_an_aggregate_of_all_contributions(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup, _ = soup_of(base, tuned, 2, method="mean")
    soup.aggregate()
    soup.contribute("late", tuned(7))
    with raises("published.no_rewards", "call of aggregate"):
        soup.calculate_rewards()


@pytest.mark.slow
def test_a_quality_below_the_threshold_earns_its_part(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    qualities = iter([0.4, 0.8])
    soup, names = soup_of(
        base, tuned, 2, method="mean", quality_validator=rated(qualities), reward_pool=300
    )
    soup.aggregate()
    assert soup.calculate_rewards() == {names[0]: 100, names[1]: 200}


@pytest.mark.slow
def test_the_published_rule_shares_by_quality_and_participation(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    qualities = iter([0.90, 0.79, 0.43])
    soup, names = soup_of(
        base,
        tuned,
        3,
        method="mean",
        reward_rule="published",
        quality_validator=rated(qualities),
    )
    soup.aggregate()
    assert [soup.calculate_rewards()[name] for name in names] == [397, 361, 242]
    assert published_points({}, 1000) == {}


@pytest.mark.slow
def test_the_weighted_mean_takes_reputations(base: Path, tuned: Callable[[int], Path]) -> None:
    qualities = iter([0.9, 0.3])
    soup, names = soup_of(
        base, tuned, 2, method="weighted_mean", quality_validator=rated(qualities)
    )
    shares = {one["user"]: one["share"] for one in soup.aggregate().report["contributions"]}
    assert shares == pytest.approx({names[0]: 0.75, names[1]: 0.25})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_scale": 1}, "noise_scale: computed from privacy_epsilon"),
        ({"privacy_epsilon": 2}, "privacy_epsilon: has no effect without"),
        ({"differential_privacy": True, "privacy_epsilon": 0}, "privacy_epsilon: expected"),
        ({"validate_contributions": False}, "every contribution is validated"),
        ({"trim_percent": 0.1}, "trim_percent: has no effect on byzantine_robust"),
        ({"method": "mean", "byzantine_threshold": 0.1}, "byzantine_threshold: has no effect"),
        ({"method": "bulyan", "byzantine_threshold": 0.3}, "less than 0.25 for bulyan"),
        ({"quality_threshold": 0.5}, "quality_threshold: has no effect without a quality_val"),
        ({"quality_weight": 0.5}, "quality_weight: has no effect without reward_rule"),
        ({"enable_rewards": False, "reward_pool": 5}, "reward_pool: has no effect"),
        (
            {"enable_rewards": False, "quality_validator": len},
            "quality_validator: has no effect with enable_rewards=False",
        ),
        (
            {
                "enable_rewards": False,
                "method": "weighted_mean",
                "quality_validator": len,
                "quality_threshold": 0.5,
            },
            "quality_threshold: has no effect with enable_rewards=False",
        ),
        (
            {"min_contributors": 10, "max_contributors": 3},
            "min_contributors: expected at most max_contributors, 3, got 10",
        ),
        ({"contribution_window": 1}, "contribution_window: has no effect in a DeltaSoup"),
        ({"diversity_bonus": 0.1}, "diversity_bonus: has no effect in a DeltaSoup"),
        (
            {"differential_privacy": True, "reward_rule": "published"},
            "reward_rule: expected weight with differential_privacy",
        ),
        ({"method": "men"}, "one of byzantine_robust, mean, .* got \"men\". Did you mean 'mean'"),
        ({"method": 3}, "norm_clip, got 3$"),
        ({"methd": "mean"}, "methd"),
    ],
)
def test_a_setting_without_effect_is_refused(settings: dict[str, Any], message: str) -> None:
    with raises("config.invalid", message):
        DeltaSoupConfig(**settings)


def test_an_explicit_use_of_signs_is_refused_where_they_cannot_carry_a_change(
    base: Path, tmp_path: Path
) -> None:
    norm = next(name for name in SHAPES if len(SHAPES[name]) == 1)
    change = disk.random_arrays({norm: SHAPES[norm]}, 1, 0.1)
    folder = disk.write_model(tmp_path / "t", disk.plus(disk.random_arrays(SHAPES, 0), change))
    with raises("published.not_signs"):
        DeltaSoup(DeltaSoupConfig(use_bitdelta=True), base).contribute("alice", folder)
    with pytest.warns(GymWarning, match="plain differences"):
        DeltaSoup(base_model=base).contribute("alice", folder)


def test_the_objects_are_the_same_under_both_names() -> None:
    from zoo.gym import AggregationMethod, quantization

    assert quantization.DeltaSoup is DeltaSoup
    assert quantization.AggregationMethod is AggregationMethod
    given = DeltaSoupConfig.model_validate({"method": "byzantine_robust"})
    assert given.method is AggregationMethod.BYZANTINE_ROBUST


@pytest.mark.slow
def test_nearly_nothing_is_refused_and_earns_nothing(
    base: Path, tuned: Callable[[int], Path], tmp_path: Path
) -> None:
    soup, names = soup_of(base, tuned, 3, method="mean", use_bitdelta=False)
    soup.contribute("zoe", fine_tune(tmp_path / "zoe", 9, size=2e-6))
    with pytest.warns(GymWarning, match="zoe"):
        report = soup.aggregate().report
    assert report["refused"] == [{"user": "zoe", "reason": TOO_SHORT}]
    points = soup.calculate_rewards()
    assert all(points[name] > 0 for name in names)
    assert points.get("zoe", 0) == 0
