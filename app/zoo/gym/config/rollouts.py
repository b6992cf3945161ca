"""The settings of methods that learn from answers that the model samples itself."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, cast

from pydantic import Field, PrivateAttr

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.reward_spec import parse_spec, with_places
from zoo.gym.config.values import Number, Whole, chosen
from zoo.gym.errors import InputError

LossType = Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"]

RATIO = ("epsilon", "epsilon_high", "delta", "off_policy_mask_threshold", "cliprange_value")
"""Settings that act on steps after the first one on the same answers, when the policy differs from
the one that sampled them."""

LOSS_TYPES = (
    "how the tokens of answers are weighted and averaged; bnpo equals dapo, as tokens are averaged"
    " over a step and not over each batch; with num_iterations 1 cispo and vespo equal dapo, and"
    " sapo equals grpo"
)
LEVELS = (
    "whether the importance ratio is that of a token or of a whole answer; with num_iterations 1"
    " both are equal, except for a divergence multiplied by the ratio and for top_entropy_quantile"
)

UNCLIPPED = {
    "cispo": ("epsilon", "delta"),
    "sapo": ("epsilon", "epsilon_high", "delta"),
    "vespo": ("epsilon", "epsilon_high", "delta"),
}
"""The settings of the clipped ratio that a loss does not read."""

LIVE_REWARD = "(a function given in Python)"
"""The value of `reward` if Python code passed functions; only that process can call them."""


def has_function(spec: object) -> bool:
    """Returns whether a value of `reward` is or contains a function."""
    if isinstance(spec, list | tuple):
        return any(has_function(part) for part in cast("Sequence[object]", spec))
    return callable(spec)


class RolloutConfig(RetainingConfig, frozen=True):
    """How answers are sampled and scored; each method adds how they are learned."""

    answers_per_step: ClassVar[int] = 128
    samplings: ClassVar[int] = 100
    """How many answers are sampled at once by default, and how often."""

    _functions: object = PrivateAttr(default=None)

    reward: str | list[Any] | dict[str, Any] = Field(
        default="auto",
        description="what scores the answers: a name, several, or a mapping with weights; auto:"
        " chosen from the data",
    )
    group_size: Whole = Field(
        default=16,
        ge=2,
        le=4096,
        description="answers sampled to each prompt, which are compared with each other",
    )
    max_completion_length: Whole | None = chosen(
        ge=1,
        le=1_048_576,
        description="the maximum length of a sampled answer in tokens",
    )
    temperature: Number = Field(
        default=1.0,
        ge=1e-2,
        le=100,
        description="the divisor of the logits when training answers are sampled and learned;"
        " evaluations always take the most likely token",
    )
    mask_truncated_completions: bool = Field(
        default=False,
        description="do not learn answers that reached max_completion_length",
    )
    num_iterations: Whole = Field(
        default=1,
        ge=1,
        le=1000,
        description="steps taken on the same answers; with 1 the importance ratio is always 1",
    )

    @property
    def steps_on_answers(self) -> int:
        """The number of steps that learn from the same answers."""
        return self.num_iterations

    def idle_settings(self) -> Sequence[tuple[str, str]]:
        """Returns (key, reason) for settings of later steps on the same answers without any."""
        idle = super().idle_settings()
        if self.steps_on_answers > 1:
            return idle
        why = (
            "with num_iterations 1 nothing has changed since the answers were sampled, so it never "
            "applies"
        )
        return [*idle, *((key, why) for key in RATIO if key in self.changed)]

    @property
    def other_models(self) -> dict[str, str]:
        """The models besides the base, by setting: reward models and judges, too."""
        models = super().other_models
        if self.reward == LIVE_REWARD:
            return models
        return models | {
            f"reward {settings.label}": str(getattr(settings, key))
            for settings in parse_spec(self.reward)
            for key in settings.models
        }

    @property
    def other_files(self) -> dict[str, str]:
        """The files besides data and models, by setting: those of rewards, too."""
        files = super().other_files
        if self.reward == LIVE_REWARD:
            return files
        return files | {
            f"reward {settings.label}": file
            for settings in parse_spec(self.reward)
            if (file := settings.file)
        }

    def places_changed(self, change: Callable[[str, str], str]) -> dict[str, object]:
        """Returns `reward` with the places in it changed."""
        changed = super().places_changed(change)
        if self.reward != LIVE_REWARD:
            changed["reward"] = with_places(self.reward, change)
        return changed

    @property
    def live_reward(self) -> object:
        """The value of `reward` with the functions that Python code passed; None without any."""
        return self._functions

    @classmethod
    def _apart(cls, values: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Moves functions out of `reward`, which a file can contain no other way than by name."""
        public, private = super()._apart(values)
        if has_function(values.get("reward")):
            parse_spec(values["reward"])
            private["_functions"], public = values["reward"], public | {"reward": LIVE_REWARD}
        return public, private

    def hint(self) -> str | None:
        """Returns the hint of what is wrong with `reward`."""
        try:
            if self.reward != LIVE_REWARD:
                parse_spec(self.reward)
        except InputError as error:
            return error.hint
        return super().hint()

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that is wrong or conflicts with others."""
        faults = list(super().conflicts())
        try:
            if self.reward != LIVE_REWARD:
                parse_spec(self.reward)
        except InputError as error:
            faults.append(("reward", error.message.removeprefix("reward: ")))
        longest = self.max_completion_length
        if longest is not None and longest >= self.cutoff_len:
            text = f"expected less than cutoff_len {self.cutoff_len}, got {longest}"
            faults.append(("max_completion_length", text))
        if self.neftune_noise_alpha:
            text = "has no place where answers are sampled: a step would compare log-probabilities"
            faults.append(("neftune_noise_alpha", f"{text} with noise and without"))
        return faults


class ClippedConfig(RolloutConfig, frozen=True):
    """The settings of methods that compare the answers to a prompt, and clip the ratio.

    The defaults are tuned on additions that zen-pico answers right half of the time: many answers
    to a prompt and half of the rate find rewards that are seldom earned (docs/log.md).
    """

    answers_per_step, samplings = 256, 400
    rate_share = 0.5

    early_stopping_steps: Whole | None = chosen(
        ge=0,
        le=1_000_000,
        description="end the run after this many evaluations in a row without a better one; 0: at"
        " the last step",
    )
    dynamic_sampling: bool = Field(
        default=False,
        description="prompts whose answers have equal rewards are replaced by others, up to three"
        " for each that is learned",
    )

    epsilon: Number = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="the importance ratio is clipped below 1 - epsilon; with num_iterations 1 it is"
        " always 1",
    )
    epsilon_high: Number | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="the importance ratio is clipped above 1 + epsilon_high; with num_iterations 1"
        " it is always 1; none: as epsilon",
    )

    @property
    def upper_epsilon(self) -> float:
        """What `epsilon_high` is, or else `epsilon`."""
        return self.epsilon if self.epsilon_high is None else self.epsilon_high


class GroupConfig(ClippedConfig, frozen=True):
    """The settings of group-relative policy optimisation."""

    beta: Number = Field(
        default=0.0,
        ge=0,
        le=1e6,
        description="the weight of the divergence from the base model; 0 needs no reference",
    )
    use_bias_correction_kl: bool = Field(
        default=True,
        description="multiply the divergence by the importance ratio, for an unbiased gradient",
    )
    delta: Number | None = Field(
        default=None,
        gt=1,
        le=1e6,
        description="a cap on the ratio of bad answers, above 1 + epsilon_high; with num_iterations"
        " 1 the ratio is always 1; none: no cap",
    )
    loss_type: LossType = Field(
        default="dapo",
        description=LOSS_TYPES,
    )
    importance_sampling_level: Literal["token", "sequence"] = Field(
        default="token",
        description=LEVELS,
    )
    scale_rewards: Literal["group", "batch", "none"] = Field(
        default="group",
        description="whose standard deviation the advantages are divided by",
    )
    top_entropy_quantile: Number = Field(
        default=1.0,
        gt=0,
        le=1,
        description="learn only this share of the tokens, those with the highest entropy",
    )
    entropy_coef: Number = Field(
        default=0.0,
        ge=-1e6,
        le=1e6,
        description="the weight of the mean entropy, which is raised",
    )
    off_policy_mask_threshold: Number | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="do not learn bad answers that the model has moved away from by more than this"
        " many nats per token, which needs num_iterations above 1; none: no limit",
    )

    @property
    def level_counts(self) -> bool:
        """Whether token and sequence differ in a single step on the same answers.

        The ratio is 1 then, and the gradient of an answer the same. They differ if tokens have
        weights of their own: a divergence that is multiplied by the ratio, or a choice of tokens.
        """
        constant = self.loss_type in {"cispo", "vespo"}  # its ratio has no gradient
        chosen_tokens = self.top_entropy_quantile < 1 and not constant
        return chosen_tokens or (self.beta != 0 and self.use_bias_correction_kl)

    def idle_settings(self) -> Sequence[tuple[str, str]]:
        """Returns (key, reason), also for variants that are others in a single step."""
        return [*super().idle_settings(), *_same_as_others(self)]

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also those of another loss."""
        unread = super().unread()
        if self.beta == 0:
            unread["use_bias_correction_kl"] = "has no effect with beta 0: there is no divergence"
        unclipped = UNCLIPPED.get(self.loss_type, ())
        return unread | dict.fromkeys(unclipped, f"has no effect with loss_type {self.loss_type}")

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that contradicts others."""
        return [*super().conflicts(), *_contradicting(self)]


def _same_as_others(config: GroupConfig) -> Iterator[tuple[str, str]]:
    """Yields (key, reason) for a variant whose gradient is that of another one."""
    if config.loss_type == "bnpo":
        yield "loss_type", "bnpo equals dapo: tokens are averaged over the step, not each batch"
    if config.steps_on_answers > 1:
        return
    why = "with num_iterations 1 the importance ratio is 1: expected num_iterations 2 or more"
    same = {"cispo": "dapo", "vespo": "dapo", "sapo": "grpo"}.get(config.loss_type)
    is_whole = config.importance_sampling_level == "sequence"
    differs = config.loss_type == "cispo" and is_whole and config.top_entropy_quantile < 1
    if same and not differs:
        yield "loss_type", f"{config.loss_type} equals {same}: {why}"
    if config.level_counts:
        return
    if "importance_sampling_level" in config.changed:
        yield "importance_sampling_level", f"token and sequence are equal: {why}"
    elif is_whole:
        yield "stage", f"gspo equals grpo with loss_type {config.loss_type}: {why}"


def _contradicting(config: GroupConfig) -> Iterator[tuple[str, str]]:
    """Yields (key, message) for values that cannot be together."""
    if config.loss_type == "vespo" and config.importance_sampling_level == "sequence":
        yield "importance_sampling_level", "has no effect with loss_type vespo"
    high = 1 + config.upper_epsilon
    if config.delta is not None and config.delta <= high:
        yield "delta", f"expected more than 1 + epsilon_high, {high:g}, got {config.delta:g}"
