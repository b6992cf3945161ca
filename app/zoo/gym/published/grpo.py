"""GRPO with objects: `GRPOTrainer(model, config=GRPOConfig(), reward_model=f).train(rows)`.

    def reward(query: str, response: str) -> float: ...

    trainer = GRPOTrainer("zen-pico", config=GRPOConfig(group_size=5), reward_model=reward)
    trainer.train([{"prompt": "Solve: 2x + 3 = 11"}, ...])

The defaults are the published ones; those of `stage=grpo` elsewhere differ. The trainer runs in
this process, writes the same run folder as `zoo-gym train`, and does not change a model in memory.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.gym.arguments import instance_of, number_of
from zoo.gym.config import Ignored, load_values
from zoo.gym.config.load import ours
from zoo.gym.config.values import are_rows, listed
from zoo.gym.errors import InputError
from zoo.gym.published.hparams import Arguments
from zoo.gym.published.live_model import is_same_model, model_name
from zoo.gym.published.trainer import Trained

if TYPE_CHECKING:
    from zoo.gym.config.values import Data
    from zoo.gym.jobs.run import RunResult

DEFAULTS: Mapping[str, object] = {
    "group_size": 5,
    "max_epochs": 3,
    "beta": 0.1,
    "clip_range": 0.2,
    "normalize_advantages": True,
    "temperature_train": 0.7,
    "temperature_eval": 0.3,
}
"""The published names and defaults."""

_NOT_HERE = frozenset({"model_name_or_path", "dataset", "stage", "reward"})
"""Settings that a trainer is given in another way."""


class GRPOConfig(Arguments):
    """The settings of a `GRPOTrainer`, with the published defaults; immutable.

    Every other setting of stage grpo is accepted too, such as `max_steps` or `output_dir`.

    Args:
        settings: by name. `group_size` (5) answers to each prompt; `max_epochs` (3); `beta` (0.1),
            the weight of the divergence from the base model; `clip_range` (0.2), also `epsilon`;
            `normalize_advantages` (True) divides by the standard deviation of the group;
            `temperature_train` (0.7). `temperature_eval` (0.3) has no effect on a `GRPOTrainer`,
            whose evaluations take the most likely token. A prefix `grpo_` is accepted.

    Raises:
        InputError: unknown settings or invalid values, one line for each.
    """

    how_to_make = "GRPOConfig(**({{**config.model_dump(), {}}}))"

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - each setting has its own type
        named = _named(settings)
        if "max_steps" not in named:
            named.setdefault("num_train_epochs", DEFAULTS["max_epochs"])
        for name in ("group_size", "beta", "clip_range", "temperature_train"):
            named.setdefault(ours(name), DEFAULTS[name])
        normalised = named.pop("normalize_advantages", None)
        spread = named.pop("temperature_eval", DEFAULTS["temperature_eval"])
        self._set("temperature_eval", number_of("temperature_eval", spread))
        if normalised is not None:
            named["scale_rewards"] = "group" if normalised else "none"
        self._set("_given", named)
        loaded = load_values(
            {"model_name_or_path": "model", "dataset": "rows", "stage": "grpo", **named}
        )
        config = loaded.config
        keys = type(config).model_fields.keys() - _NOT_HERE
        super().__init__({key: getattr(config, key) for key in keys}, loaded.ignored)

    def _set(self, name: str, value: object) -> None:
        vars(self)[name] = value

    @property
    def normalize_advantages(self) -> bool:
        """Whether advantages are divided by the standard deviation of their group."""
        return bool(self.scale_rewards == "group")

    @property
    def given(self) -> dict[str, object]:
        """The settings under our names, without those at the defaults of stage grpo."""
        return dict(vars(self)["_given"])

    def model_dump(self) -> dict[str, object]:
        """Returns the published settings by their published names, and others that were given."""
        published = {name: getattr(self, name) for name in DEFAULTS}
        if self.max_steps is not None and self.max_epochs is None:
            del published["max_epochs"]
        names = {ours(name) for name in DEFAULTS} | {"scale_rewards"}
        rest = {key: value for key, value in self.given.items() if key not in names}
        if self.scale_rewards == "batch":
            del published["normalize_advantages"]
            rest["scale_rewards"] = "batch"
        return published | rest


def _named(settings: Mapping[str, object]) -> dict[str, object]:
    """Returns settings under our names; refuses those given twice or given elsewhere."""
    named: dict[str, object] = {}
    first: dict[str, str] = {}
    for name, value in settings.items():
        key = ours(name.removeprefix("grpo_"))
        if key in _NOT_HERE:
            raise InputError(
                f"{name}: expected settings of GRPO alone",
                hint="GRPOTrainer(model, config=..., reward_model=...).train(rows)",
                code="published.bad_argument",
            )
        if key in first:
            raise InputError(
                f"{name}: already given as '{first[key]}'", code="published.given_twice"
            )
        named[key], first[key] = value, name
    if "normalize_advantages" in named and "scale_rewards" in named:
        raise InputError(
            "normalize_advantages: already given as 'scale_rewards'", code="published.given_twice"
        )
    instance_of("normalize_advantages", named.get("normalize_advantages", True), bool)
    return named


class GRPOTrainer(Trained):
    """Trains a model on the rewards of its own answers.

    Args:
        model: a name, a folder, or a model of transformers, which is not changed.
        ref_model: the reference of the divergence: the base model itself, which is also the one
            without it.
        config: the settings; by default `GRPOConfig()`.
        reward_model: what scores an answer: a function of `(query, response)` or `(query, response,
            answer)`, the name of a reward, a list of them; None chooses one from the rows.
        tokenizer: one of transformers; None for the model's own.

    Raises:
        InputError: an argument has the wrong type, or `ref_model` is another model.
        NotAvailableError: a named model is not on this machine.
    """

    def __init__(
        self,
        model: object,
        ref_model: object = None,
        config: GRPOConfig | None = None,
        reward_model: object = None,
        tokenizer: object = None,
    ) -> None:
        super().__init__()
        chosen = GRPOConfig() if config is None else config
        hint = "GRPOTrainer(model, ref_model, GRPOConfig(...)), or config=GRPOConfig(...)"
        self.config = instance_of("config", chosen, GRPOConfig, hint=hint)
        self.model = model_name(model, tokenizer)
        self.reward = "auto" if reward_model is None else reward_model
        self._ignored = list(self.config.without_effect)
        why = "evaluations take the most likely token"
        self._ignored.append(Ignored("temperature_eval", "Python", why))
        if ref_model is not None:
            if ref_model is not model and not is_same_model(self.model, ref_model):
                raise InputError(
                    "ref_model: another reference than the base is not supported yet",
                    code="published.not_supported",
                )
            why = "it is the base model, which is the reference anyway"
            self._ignored.append(Ignored("ref_model", "Python", why))

    def train(
        self, train_dataset: "Data | None" = None, eval_dataset: "Data | None" = None
    ) -> "RunResult":
        """Trains in this process and returns when the run is done.

        Args:
            train_dataset: rows with a prompt, or files of them, as in `TrainConfig`.
            eval_dataset: rows to evaluate on; by default a share of the others (`val_size`).

        Raises:
            InputError: there is no data, or it cannot be used.
            GymError: see `run_training`.
        """
        from zoo.gym.published.api import train_here

        if train_dataset is None:
            hint = 'train([{"prompt": ..., "answer": ...}])'
            raise InputError(
                "train_dataset: not given: expected rows or a file",
                hint=hint,
                code="published.no_dataset",
            )
        dataset, held_out = listed(train_dataset), 0
        values: dict[str, object] = dict(self.config.given)
        if eval_dataset is not None:
            if "val_size" in values:
                raise InputError(
                    "val_size: has no effect with an eval_dataset", code="published.no_effect"
                )
            if "max_samples" in values:
                hint = "give fewer rows"
                raise InputError(
                    "max_samples: not possible with an eval_dataset",
                    hint=hint,
                    code="published.no_effect",
                )
            learned, evaluated = (
                _rows("train_dataset", dataset),
                _rows("eval_dataset", eval_dataset),
            )
            dataset, held_out = [*learned, *evaluated], len(evaluated)
            values["val_size"] = held_out
        values |= {"model_name_or_path": self.model, "stage": "grpo"}
        loaded = load_values({**values, "dataset": dataset, "reward": self.reward})
        self._delta = None
        self._result = train_here(loaded.config, self._ignored, held_out)
        return self._result


def _rows(name: str, dataset: object) -> Sequence[Mapping[str, object]]:
    rows = listed(dataset)
    if not are_rows(rows):
        raise InputError(
            f"{name}: expected rows, because an eval_dataset is given",
            hint="read the file into a list of dicts, or leave eval_dataset out",
            code="published.bad_rows",
        )
    return rows
