"""The settings of a training run: the keys of `zoo-gym train`, as one frozen model.

Names are those of LLaMA-Factory where the meaning is the same. A field with default None is chosen
when the run starts, from the data, the model and the method, and printed with its reason. `load.py`
reads the settings from files and flags.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from zoo.gym.config import values
from zoo.gym.config.conflicts import PAIRS, ROWS_IN_MEMORY, disagreements
from zoo.gym.config.settings import Settings
from zoo.gym.config.stages import DEFAULT, config_class
from zoo.gym.config.values import (
    Data,
    Listed,
    Rows,
    are_rows,
    folder_text,
    iso_date,
    listed,
    path_text,
    public_place,
    split_paths,
)


def chosen(**limits: Any) -> Any:  # noqa: ANN401 - as pydantic's own Field
    """Returns a field whose value is chosen when the run starts, unless it is given."""
    return Field(default=None, json_schema_extra={"chosen": True}, **limits)


def is_chosen(field: FieldInfo) -> bool:
    """Returns whether a setting that is not given is chosen when the run starts."""
    about = field.json_schema_extra
    return isinstance(about, dict) and bool(about.get("chosen"))


PLACES = frozenset({"model_name_or_path", "teacher_model", "dataset", "dataset_dir", "output_dir"})
"""The settings with paths on this machine: no result or delta contains them."""

MOST_SEED = 2**63 - 1
"""The largest seed that every random number generator accepts."""


Whole: TypeAlias = values.Whole
Number: TypeAlias = values.Number


class TrainConfig(Settings, frozen=True):
    """Every setting that all methods have, checked; `stage` chooses the method.

    `TrainConfig(stage=..., ...)` gives the settings of that method, a subclass with its own.
    """

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        protected_namespaces=(),
    )

    rate_share: ClassVar[float] = 1.0
    """The learning rate by default, as a share of that of supervised fine-tuning."""

    model_keys: ClassVar[tuple[str, ...]] = ()
    """The settings that name a model besides the base."""

    model_name_or_path: Annotated[str, BeforeValidator(folder_text)] = Field(
        min_length=1,
        description="the base model: zen-nano, org/name, org/name@revision, a folder",
    )
    dataset: Annotated[tuple[str, ...], BeforeValidator(split_paths)] = Field(
        min_length=1,
        description="the files of examples, read in this order; a folder: all files in it, by name;"
        " a name: its file in dataset_info.json",
    )
    dataset_dir: Annotated[str, BeforeValidator(path_text)] | None = Field(
        default=None,
        min_length=1,
        description="the folder for relative names in dataset; none: the working folder",
    )
    stage: str = Field(
        default=DEFAULT,
        description="the method",
    )
    finetuning_type: Literal["lora", "full"] = Field(
        default="lora",
        description="lora trains a small adapter, full trains all weights",
    )
    output_dir: Annotated[str, BeforeValidator(path_text)] | None = Field(
        default=None,
        min_length=1,
        description="a folder for a copy of the trained model; none: only the run folder",
    )
    overwrite_output_dir: bool = Field(
        default=False,
        description="replace files with the same names in output_dir; other files stay",
    )
    cutoff_len: Whole = Field(
        default=2048,
        ge=8,
        le=1_048_576,
        description="the maximum length of a row in tokens; the rest is cut off",
    )
    max_samples: Whole | None = Field(
        default=None,
        ge=1,
        description="use only the first rows of each file, up to this number; none: all",
    )
    mix_strategy: Literal["concat", "interleave_under", "interleave_over"] = Field(
        default="concat",
        description="how several files are joined: one after the other, or by shares until the"
        " first of them, or the last of them, is used up",
    )
    interleave_probs: Listed | None = Field(
        default=None,
        description="the share of each file, numbers separated by commas that add up to 1; none:"
        " rows are taken in turn",
    )
    val_size: Number = Field(
        default=0.1,
        ge=0,
        description="rows held out: a share below 1, or a number of rows; chats and pairs are drawn"
        " by the seed; texts are held out at their end, a share is counted in characters",
    )
    per_device_train_batch_size: Whole | None = chosen(
        ge=1,
        le=65_536,
        description="rows per batch",
    )
    gradient_accumulation_steps: Whole | None = chosen(
        ge=1,
        le=65_536,
        description="batches accumulated for each step",
    )
    learning_rate: Number | None = chosen(
        gt=0,
        le=1,
        description="the peak learning rate of the schedule",
    )
    num_train_epochs: Number | None = chosen(
        gt=0,
        le=100_000,
        description="how often each row is seen",
    )
    max_steps: Whole | None = chosen(
        ge=1,
        le=100_000_000,
        description="number of optimizer steps; overrides num_train_epochs",
    )
    lr_scheduler_type: Literal["cosine", "linear", "constant"] | None = chosen(
        description="how the learning rate falls after the warm-up",
    )
    warmup_steps: Whole | None = chosen(
        ge=0,
        description="steps over which the learning rate rises; overrides warmup_ratio",
    )
    warmup_ratio: Number | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="warm-up as a share of all steps, rounded up",
    )
    weight_decay: Number = Field(
        default=0.0,
        ge=0,
        le=1,
        description="weight decay of AdamW",
    )
    max_grad_norm: Number = Field(
        default=1.0,
        gt=0,
        description="the norm to which gradients are clipped",
    )
    moe_aux_loss_coef: Number = Field(
        default=0.0,
        ge=0,
        description="the weight of the router loss of a mixture of experts, per batch; 0: none",
    )
    lora_rank: Whole = Field(
        default=16,
        ge=1,
        le=4096,
        description="the rank of the adapter",
    )
    lora_alpha: Number | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="the adapter's scale is lora_alpha / lora_rank; none: 2 x lora_rank",
    )
    lora_dropout: Number = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of the adapter's input that is dropped in training",
    )
    lora_target: str = Field(
        default="all",
        min_length=1,
        description="layers with an adapter: all, or names separated by commas",
    )
    use_rslora: bool = Field(
        default=False,
        description="scale the adapter by lora_alpha / sqrt(lora_rank)",
    )
    seed: Whole = Field(
        default=42,
        ge=0,
        le=MOST_SEED,
        description="the random seed",
    )
    dtype: Literal["auto", "f32", "bf16", "bf16-widened"] = Field(
        default="auto",
        description="the number format of the weights; auto: the fastest on this machine",
    )
    gradient_checkpointing: bool | None = chosen(
        description="recompute activations to save memory",
    )
    think: Literal["template", "keep", "drop"] = Field(
        default="template",
        description="thinking in answers: as the chat template does, all kept, dropped",
    )
    split_special_tokens: bool = Field(
        default=True,
        description="special tokens in the data are plain text; false allows them",
    )
    eval_steps: Whole | None = chosen(
        ge=1,
        description="steps between two evaluations of the held-out rows",
    )
    save_steps: Whole | None = chosen(
        ge=1,
        description="steps between two checkpoints",
    )
    save_only_model: bool = Field(
        default=False,
        description="checkpoints contain only the model, without optimizer state: they are smaller,"
        " but a run cannot be resumed from them, only finished",
    )
    save_total_limit: Whole = Field(
        default=2,
        ge=1,
        le=10_000,
        description="the number of newest checkpoints that are kept; the weights of the best step"
        " are kept besides",
    )
    report_to: Literal["none"] = Field(
        default="none",
        description="experiment trackers",
    )
    offline: bool = Field(
        default=False,
        description="never use the network",
    )
    date: Annotated[str, BeforeValidator(iso_date)] | None = Field(
        default=None,
        description="the date that a chat template prints, YYYY-MM-DD; none: today",
    )

    _rows: Rows = PrivateAttr(default=())

    if TYPE_CHECKING:

        def __init__(  # pyright: ignore[reportInconsistentConstructor]
            self,
            /,
            *,
            model_name_or_path: str | os.PathLike[str],
            dataset: Data,
            **settings: Any,  # noqa: ANN401 - the keys of the method that `stage` names
        ) -> None:
            """Accepts more types than the fields have; all values are checked when it runs."""

    def __new__(cls, /, **values: object) -> Self:
        """Makes the settings of the method that `stage` names."""
        kind = config_class(values.get("stage")) if cls is TrainConfig else cls
        return super().__new__(cast("type[Self]", kind))

    @classmethod
    def _kind_of(cls, values: object) -> type[Self]:
        if cls is not TrainConfig:
            return cls
        given = cast("Mapping[str, object]", values) if isinstance(values, Mapping) else {}
        stage = given.get("stage", getattr(values, "stage", None))
        return cast("type[Self]", config_class(stage))

    @property
    def other_models(self) -> dict[str, str]:
        """The models besides the base, by setting."""
        return {key: str(getattr(self, key)) for key in self.model_keys}

    @property
    def reward_files(self) -> dict[str, str]:
        """The files that rewards name, by setting: of functions, and the adapters of judges."""
        return {}

    def places_changed(self, change: Callable[[str, str], str]) -> dict[str, object]:
        """Returns the settings of a method with the models and files in them changed, by key.

        Args:
            change: returns the new place for a setting and its place.
        """
        return {key: change(key, str(getattr(self, key))) for key in self.model_keys}

    def public_settings(self) -> dict[str, Any]:
        """Returns the settings as JSON without paths on this machine."""
        kept = self.model_dump(mode="json", exclude=set(PLACES))
        public = self.places_changed(lambda _, place: public_place(place))
        return kept | {key: place for key, place in public.items() if key not in PLACES}

    @property
    def rows(self) -> Rows:
        """The examples, if Python code passed them in `dataset` instead of files."""
        return self._rows

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> "TrainConfig":
        """Returns a copy with other values, which are not validated; rows may be among them."""
        public, private = self._apart(dict(update or {}))
        copied = super().model_copy(update=public, deep=deep)
        copied._set_private(private)
        return copied

    def with_values_of(self, other: "TrainConfig") -> Self:
        """Returns these settings with the rows and functions that Python code gave to others."""
        copied = super().model_copy()
        copied._set_private(dict(other.__pydantic_private__ or {}))
        return copied

    @classmethod
    def _apart(cls, values: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Moves rows out of `dataset`, which contains only files."""
        if "dataset" not in values:
            return values, {}
        given = listed(values["dataset"])
        if not are_rows(given):
            return values | {"dataset": given}, {"_rows": ()}
        rows = tuple(copy.deepcopy(given))  # what changes in them later is not trained on
        return values | {"dataset": (ROWS_IN_MEMORY,)}, {"_rows": rows}

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The numbers of `interleave_probs`; None if there is none, or they are not numbers."""
        try:
            return tuple(map(float, (self.interleave_probs or "").split(","))) or None
        except ValueError:
            return None

    def idle_settings(self) -> Sequence[tuple[str, str]]:
        """Returns (key, reason) for each given setting that others leave without effect."""
        found = [
            (loser, f"overridden by {winner}")
            for winner, loser in PAIRS
            if {winner, loser} <= self.changed
        ]
        if self.overwrite_output_dir and self.output_dir is None:
            reason = "no output_dir is given, and every run has its own folder"
            found.append(("overwrite_output_dir", reason))
        return found

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each conflict among the settings that a method adds."""
        return ()

    def hint(self) -> str | None:
        """Returns how to mend what `conflicts` found, or None."""
        return None

    @property
    def changed(self) -> frozenset[str]:
        """The settings that were given a value other than the default."""
        fields = type(self).model_fields
        return frozenset(
            key for key in self.model_fields_set if getattr(self, key) != fields[key].default
        )

    @model_validator(mode="after")
    def _settings_agree(self) -> "TrainConfig":
        """Refuses settings that would have no effect or contradict each other."""
        if faults := dict((*disagreements(self), *self.conflicts())):
            text = "\n".join(f"{key}: {sentence}" for key, sentence in faults.items())
            context = {"text": text, "faults": faults, "hint": self.hint()}
            raise PydanticCustomError("disagree", "{text}", context)
        return self
