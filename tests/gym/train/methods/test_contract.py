"""What a class of the table must be, and what a method's numbers may be."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.methods import toy
from tests.gym.train.methods.toy import Toy
from zoo.backends.base import LoadSpec, LossAndMetrics, OptimizerSpec, ParameterGroup, Stat
from zoo.backends.ranks import ALONE
from zoo.backends.torch.policy import TorchPolicy
from zoo.gym.config import stages
from zoo.gym.config.train import TrainConfig
from zoo.gym.data.batches import collate
from zoo.gym.data.units import Example, Unit, alone
from zoo.gym.errors import GuardError
from zoo.gym.objectives.constants import WINDOW_TOKENS, WINDOW_UNITS
from zoo.gym.train.accumulate import accumulate_window, require_additive, score_window
from zoo.gym.train.guards import check_needs
from zoo.gym.train.loading import load_policy
from zoo.gym.train.loop import named
from zoo.gym.train.method import Evaluation, Method, make_window
from zoo.gym.train.plan import Plan


class NoMethod:
    """Nothing that trains."""


class NoObjective(Method):
    config = toy.ToyConfig


class OtherSettings(Toy):
    config = TrainConfig  # type: ignore[assignment] # the fault


class OtherWord(Toy):
    better = "more"  # type: ignore[assignment] # the fault


class BareWatch(Toy):
    watch = "accuracy"  # type: ignore[assignment] # the fault


class OddName(Toy):
    decides = "a\nb"


class OtherKind(Toy):
    reads: ClassVar[Any] = frozenset({"pairs"})


class OtherWindow(Toy):
    def window(self) -> Any:  # type: ignore[override] # the fault
        return None


FAULTS = {
    "NoMethod": "expected a subclass of Method",
    "NoObjective": "got none for objective",
    "OtherSettings": "config: expected the settings of this stage, got TrainConfig",
    "OtherWord": "better: expected lower or higher, got 'more'",
    "BareWatch": "watch: expected a tuple of names of metrics, got 'accuracy'",
    "OddName": r"decides: expected the name of a metric, got 'a\\nb'",
    "OtherKind": "reads: expected kinds of rows among chat, ",
    "OtherWindow": "window: expected the parameters",
    "Absent": "cannot be loaded",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_class_that_is_no_complete_method_is_refused_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stages.METHODS, "toy", f"{__name__}:{name}")
    with raises("config.stage_not_loaded", f"stage toy: .*{name}.*{FAULTS[name]}"):
        stages.load_method("toy")


@pytest.mark.parametrize("stage", stages.METHODS)
def test_every_method_of_the_table_is_complete(stage: str) -> None:
    assert issubclass(stages.load_method(stage), Method)


def method(better: str = "higher") -> Any:
    config = toy.ToyConfig(model_name_or_path="m", dataset=("d.jsonl",))
    made: Any = Toy(None, Plan(config, 1, 1, 0, ()), (), (), Path())  # type: ignore[arg-type]
    made.better = better
    return made


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_the_best(better: str, odd: float) -> None:
    assert not method(better).improves(odd, None)
    assert not method(better).improves(odd, 0.0)
    assert method(better).improves(0.0, odd)


def test_an_evaluation_without_the_metric_that_decides_is_refused_by_name() -> None:
    with raises("train.missing_metric", r"stage toy: .* the metric 'margin', .* got accuracy"):
        method().score(Evaluation(0.5, 3, {"accuracy": 0.5}))


def test_a_metric_whose_name_cannot_be_printed_is_refused() -> None:
    with pytest.raises(ValueError, match="printable names"):
        named({"a\x1b[2J": 1.0})


def test_numbers_of_events_are_plain_floats() -> None:
    one: Any = np.float32(1)
    metrics: Any = named({"margin": one})["metrics"]
    assert type(metrics["margin"]) is float
    assert type(method().score(Evaluation(0.5, 3, {"margin": one}))) is float


def test_what_has_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="unit: expected at least one row"):
        Unit(())
    with pytest.raises(ValueError, match="window: expected at least one unit"):
        make_window(())
    with pytest.raises(ValueError, match="batch: expected at least one unit"):
        collate(())


class Silent:
    """A policy that must not be asked: the window is refused first."""


@pytest.mark.parametrize("coupled", [False, True])
def test_extras_that_only_some_micro_batches_have_are_refused(coupled: bool) -> None:
    ids, mask = np.arange(2), np.array([False, True])
    rows = [Example(ids, mask, "r", False, extras) for extras in ({}, {"a": np.ones(2)})]
    batches = [collate(alone([row])) for row in rows]
    objective: Any = SimpleNamespace(coupled=coupled, needs=frozenset())
    with pytest.raises(ValueError, match="every micro-batch, got 'a' in some only"):
        accumulate_window(Silent(), objective, batches, [0, 1])  # type: ignore[arg-type]


class Additive:
    """The mean negative log-likelihood of the window."""

    needs, coupled = frozenset({Stat.LOGPROBS}), False

    def __call__(self, xp: Any, stats: Any, batch: Any) -> LossAndMetrics:
        total = -xp.sum(stats[Stat.LOGPROBS] * batch["mask"])
        return total / batch[WINDOW_TOKENS], {"nats": total / batch[WINDOW_UNITS]}


class OfTheBatch(Additive):
    """The same over the tokens of a batch: its value depends on how the window is split."""

    def __call__(self, xp: Any, stats: Any, batch: Any) -> LossAndMetrics:
        return -xp.sum(stats[Stat.LOGPROBS]) / xp.sum(batch["mask"]), {}


class MeanMetric(Additive):
    """A loss that adds up, with a metric that does not."""

    def __call__(self, xp: Any, stats: Any, batch: Any) -> LossAndMetrics:
        loss, _ = super().__call__(xp, stats, batch)
        return loss, {"share": xp.sum(batch["mask"]) / xp.sum(batch["mask"])}


class Differentiating:
    """The part of a policy that differentiates; it has no model."""

    differentiate = TorchPolicy.differentiate


def split_window() -> Any:
    rows = [Example(np.arange(n), np.arange(n) > 0, "r", False) for n in (4, 7, 3)]
    return make_window(alone(rows), max_units=1).batches


def test_an_objective_that_adds_up_passes() -> None:
    require_additive(Differentiating(), Additive(), split_window())  # type: ignore[arg-type]


class Centred(Additive):
    """As much is raised as lowered: what remains of the loss is rounding."""

    def __call__(self, xp: Any, stats: Any, batch: Any) -> LossAndMetrics:
        sign = xp.where(stats[Stat.LOGPROBS] < -1.5, batch["mask"], -batch["mask"])
        of_rows = xp.sum(sign * xp.exp(stats[Stat.LOGPROBS]), axis=-1)
        rest = of_rows - xp.stop_gradient(of_rows)
        return 1e3 * xp.sum(rest) / batch[WINDOW_TOKENS], {}


def test_an_objective_whose_terms_cancel_passes() -> None:
    require_additive(Differentiating(), Centred(), split_window())  # type: ignore[arg-type]


@pytest.mark.parametrize(("objective", "what"), [(OfTheBatch(), "loss"), (MeanMetric(), "share")])
def test_an_objective_that_depends_on_the_split_is_refused(objective: Any, what: str) -> None:
    with raises("train.not_additive", f"depends on how a window is split: {what}: expected"):
        require_additive(Differentiating(), objective, split_window())  # type: ignore[arg-type]
    objective.coupled = True
    require_additive(Differentiating(), objective, split_window())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stat", "lacks"), [(Stat.FORWARD_KL, "a teacher"), (Stat.VALUES, "a value head")]
)
def test_an_objective_that_needs_more_than_the_model_gives_is_refused(
    stat: Stat, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy.Preference, "needs", frozenset({stat}))
    with pytest.raises(GuardError, match=f"stage toy: {stat}: expected {lacks}"):
        check_needs(method())
    has_both: Any = method()
    has_both.teacher = object()
    has_both.load_spec = lambda _: LoadSpec(value_head=True)
    check_needs(has_both)


class WithGroup(Toy):
    value_head = True

    @classmethod
    def load_spec(cls, config: TrainConfig) -> LoadSpec:
        groups = (ParameterGroup("lora_B.weight", lr_scale=4.0),)
        return replace(super().load_spec(config), optimizer=OptimizerSpec(groups=groups))


def test_a_method_chooses_how_its_policy_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stages.METHODS, "toy", f"{__name__}:WithGroup")
    config = toy.ToyConfig(model_name_or_path="m", dataset=("d.jsonl",), seed=7)
    given: list[LoadSpec] = []
    engine: Any = SimpleNamespace(load=lambda _, spec: given.append(spec))
    load_policy(config, Path(), engine, threads=1)
    assert [(spec.value_head, spec.seed) for spec in given] == [(True, 7)]
    assert given[0].optimizer.groups[0].lr_scale == 4.0


def test_the_teacher_of_a_method_is_given_to_every_pass() -> None:
    seen: list[object] = []

    class Policy:
        ranks = ALONE

        def accumulate(self, *_: object, teacher: object, **__: object) -> dict[str, float]:
            seen.append(teacher)
            return {"loss": 1.0}

        def score(self, batch: Any, *_: object, teacher: object, **__: object) -> Any:
            seen.append(teacher)
            return {Stat.LOGPROBS: np.zeros(batch.ids_BT.shape, np.float32)}

        differentiate = TorchPolicy.differentiate

    policy: Any = Policy()
    coupled: Any = Additive()
    coupled.coupled = True
    accumulate_window(policy, Additive(), split_window(), [1, 2, 3], "other")  # type: ignore[arg-type]
    accumulate_window(policy, coupled, split_window(), [1, 2, 3], "other")  # type: ignore[arg-type]
    score_window(policy, Additive(), split_window(), "other")  # type: ignore[arg-type]
    assert seen == ["other"] * 12
