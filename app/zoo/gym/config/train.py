"""The settings of a training run: the keys of `zoo-gym train`, as one frozen model.

Names are those of LLaMA-Factory where the meaning is the same; the room `keys` describes each. A
field with default None is chosen when the run starts, from the data, the model and the method, and
printed with its reason. `load.py` reads the settings from files and flags.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pydantic import (
    ConfigDict,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from zoo.gym.config.conflicts import PAIRS, disagreements, hint_of_optimizer
from zoo.gym.config.keys.adapter import AdapterKeys
from zoo.gym.config.keys.data import DataKeys
from zoo.gym.config.keys.low_memory import LowMemoryKeys
from zoo.gym.config.keys.optimization import OptimizationKeys
from zoo.gym.config.keys.optimizer import OptimizerKeys
from zoo.gym.config.keys.quantization import QuantizationKeys
from zoo.gym.config.keys.running import RunningKeys
from zoo.gym.config.keys.unread import ROWS_IN_MEMORY, unread_settings
from zoo.gym.config.stages import config_class
from zoo.gym.config.values import Data, Rows, are_rows, listed, public_place
from zoo.gym.paths import given_path

PLACES = frozenset(
    {"model_name_or_path", "adapter_name_or_path", "teacher_model"}
    | {"dataset", "eval_dataset", "dataset_dir", "output_dir"}
)
"""The settings with paths on this machine: no result or delta contains them."""

PRIVATE = PLACES | {"me"}
"""The same with a person's name."""


class TrainConfig(
    RunningKeys,
    LowMemoryKeys,
    OptimizerKeys,
    OptimizationKeys,
    QuantizationKeys,
    AdapterKeys,
    DataKeys,
    frozen=True,
):
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
        settings = cast("Mapping[str, object]", values) if isinstance(values, Mapping) else {}
        stage = settings.get("stage", getattr(values, "stage", None))
        return cast("type[Self]", config_class(stage))

    @property
    def first_adapter(self) -> Path | None:
        """The folder of the adapter that the run continues, or None."""
        folder = self.adapter_name_or_path
        return None if folder is None else given_path(folder)

    @property
    def data_files(self) -> list[Path]:
        """The files of a run's rows: those to learn from, then those that are held out."""
        return [Path(name) for name in (*self.dataset, *self.eval_dataset)]

    @property
    def other_models(self) -> dict[str, str]:
        """The models besides the base, by setting."""
        return {key: str(getattr(self, key)) for key in self.model_keys}

    @property
    def other_files(self) -> dict[str, str]:
        """The files besides data and models, by setting: a template, an adapter trained further.

        Methods with rewards have their files of functions, and the adapters of judges.
        """
        places = {"adapter_name_or_path": self.adapter_name_or_path, "template": self.template_file}
        return {key: path for key, path in places.items() if path is not None}

    @property
    def template_file(self) -> str | None:
        """The file of a template that is given as one."""
        from zoo.gym.data.templates import TEMPLATES

        return None if self.template in TEMPLATES else self.template

    def places_changed(self, change: Callable[[str, str], str]) -> dict[str, object]:
        """Returns the settings of a method with the models and files in them changed, by key.

        Args:
            change: returns the new place for a setting and its place.
        """
        changed: dict[str, object] = {
            key: change(key, str(getattr(self, key))) for key in self.model_keys
        }
        if self.adapter_name_or_path is not None:
            changed["adapter_name_or_path"] = change("adapter", self.adapter_name_or_path)
        if self.template_file is not None:
            changed["template"] = change("template", self.template_file)
        return changed

    def public_settings(self) -> dict[str, Any]:
        """Returns the settings as JSON without paths on this machine and names of people."""
        settings = self.model_dump(mode="json", exclude=set(PRIVATE))
        public = self.places_changed(lambda _, path: public_place(path))
        return settings | {key: path for key, path in public.items() if key not in PRIVATE}

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
        dataset = listed(values["dataset"])
        if not are_rows(dataset):
            return values | {"dataset": dataset}, {"_rows": ()}
        rows = tuple(copy.deepcopy(dataset))  # what changes in them later is not trained on
        return values | {"dataset": (ROWS_IN_MEMORY,)}, {"_rows": rows}

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The numbers of `interleave_probs`; None if there is none, or they are not numbers."""
        try:
            return tuple(map(float, (self.interleave_probs or "").split(","))) or None
        except ValueError:
            return None

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key; refused if it is given."""
        return unread_settings(self)

    def idle_settings(self) -> Sequence[tuple[str, str]]:
        """Returns (key, reason) for each given setting that others leave without effect."""
        idle = [
            (loser, f"overridden by {winner}")
            for winner, loser in PAIRS
            if {winner, loser} <= self.changed
        ]
        if self.overwrite_output_dir and self.output_dir is None:
            reason = "no output_dir is given, and every run has its own folder"
            idle.append(("overwrite_output_dir", reason))
        return idle

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each conflict among the settings that a method adds."""
        return ()

    def hint(self) -> str | None:
        """Returns how to mend what conflicts, or None."""
        return hint_of_optimizer(self)

    @property
    def changed(self) -> frozenset[str]:
        """The settings that were given a value other than the default."""
        fields = type(self).model_fields
        return frozenset(
            key for key in self.model_fields_set if getattr(self, key) != fields[key].default
        )

    @property
    def given(self) -> frozenset[str]:
        """The settings that were given, but for those that are off by default and stay so."""
        return self.changed.union(key for key in self.model_fields_set if getattr(self, key))

    @model_serializer(mode="wrap")
    def _without_unread_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out defaults that nothing reads: read back, they would count as given."""
        fields, values = type(self).model_fields, dict[str, Any](dump(self))
        for key in self.unread():
            if key in values and getattr(self, key) == fields[key].default:
                del values[key]
        return values

    @model_validator(mode="after")
    def _settings_agree(self) -> "TrainConfig":
        """Refuses settings that would have no effect or contradict each other."""
        if faults := dict((*disagreements(self), *self.conflicts())):
            text = "\n".join(f"{key}: {sentence}" for key, sentence in faults.items())
            context = {"text": text, "faults": faults, "hint": self.hint()}
            raise PydanticCustomError("disagree", "{text}", context)
        return self
