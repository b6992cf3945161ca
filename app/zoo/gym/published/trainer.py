"""Training with objects: `Trainer(TrainingConfig(...)).train(dataset)`, as in published examples.

    config = TrainingConfig(model="zen-pico", algorithm="sft")
    trainer = Trainer(config)
    result = trainer.train(dataset="my.jsonl")
    trainer.save_model("my-model")

Settings are those of `TrainConfig` in any published spelling. A trainer runs in this process and
writes the same run folder as `zoo-gym train`.
"""

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.arguments import StrPath, instance_of, path_of
from zoo.gym.config import Loaded, load_values
from zoo.gym.config.bitdelta import BitDeltaConfig
from zoo.gym.config.deltaquant import DeltaQuantConfig
from zoo.gym.config.load import ours
from zoo.gym.config.values import listed
from zoo.gym.errors import GymError, GymWarning, InputError
from zoo.gym.published.hparams import Arguments

if TYPE_CHECKING:
    from zoo.gym.config.delta import DeltaConfig
    from zoo.gym.config.values import Data
    from zoo.gym.delta.file.reader import Delta
    from zoo.gym.export.job import Report as ExportReport
    from zoo.gym.jobs.run import RunResult
    from zoo.gym.rounds.compute.applying import Applied

DELTA_FILE = "model.delta.safetensors"
"""The delta in a run folder, and in a folder that `save_model` writes."""


class TrainingConfig(Arguments):
    """The settings of a `Trainer`, checked and immutable; the data may be given to `train`.

    `TrainingConfig(model=..., algorithm=..., ...)` takes every setting of a settings file, also
    under LLaMA-Factory's names. Each is an attribute: `config.algorithm`, `config.learning_rate`.

    Args:
        model: the base model: a name or a folder.
        settings: the other settings.

    Raises:
        InputError: unknown settings or invalid values, one line for each.
    """

    how_to_make = "TrainingConfig(**({{**config.given, {}}}))"

    def __init__(self, model: StrPath | None = None, /, **settings: Any) -> None:  # noqa: ANN401
        twice = next((key for key in settings if ours(key) == "model_name_or_path"), None)
        if model is not None and twice is not None:
            raise InputError(
                f"{twice}: the model is already given as the first argument",
                code="published.given_twice",
            )
        named = {**({} if model is None else {"model": model}), **settings}
        named |= {key: listed(named[key]) for key in named if ours(key) == "dataset"}
        loaded = _load(named, None)
        values = {key: getattr(loaded.config, key) for key in type(loaded.config).model_fields}
        super().__init__(values, loaded.ignored)
        vars(self)["_given"] = named

    @property
    def given(self) -> dict[str, object]:
        """The settings as they were given."""
        return dict(vars(self)["_given"])


def _load(settings: Mapping[str, object], dataset: object) -> Loaded:
    """Checks settings; `dataset` replaces theirs, and without any the name of a file stands in."""
    values = dict(settings)
    if dataset is not None:
        values = {key: value for key, value in values.items() if ours(key) != "dataset"}
        values["dataset"] = dataset
    elif not any(ours(key) == "dataset" for key in values):
        values["dataset"] = "dataset"
    return load_values(values)


class Trained:
    """What trainers do with a finished run."""

    def __init__(self) -> None:
        self._result: RunResult | None = None
        self._delta: Path | None = None

    @property
    def result(self) -> "RunResult":
        """The newest finished run.

        Raises:
            GymError: `train` has not finished yet.
        """
        if self._result is None:
            raise GymError(
                "no trained model: expected a call of train() before", code="published.not_trained"
            )
        return self._result

    def compress_deltas(self, config: BitDeltaConfig | DeltaQuantConfig | None = None) -> "Delta":
        """Compresses the trained model to a delta file in the run folder, and measures it.

        A delta of one bit is trained to predict what the model predicts, for sixty steps, unless
        the model was trained in one bit.

        Args:
            config: the coding; by default one bit per value, or the bits of the training. The
                `calibration_samples` of a `DeltaQuantConfig` are the most held-out rows that the
                delta is measured on.

        Raises:
            GymError: `train` has not finished yet.
            InputError: `config` has another type, or does not fit the trained model, or the delta
                loses more of the base's refusals than `safety_threshold` allows: it is not written.

        Warns:
            GymWarning: the delta is worse than its base, or `safety_threshold` is low or cannot be
                measured.
        """
        from zoo.gym.delta import create_delta, load_delta
        from zoo.gym.delta.reading.adapter import is_adapter
        from zoo.gym.jobs.run import open_run
        from zoo.gym.published.distilled import distill_delta
        from zoo.gym.train.run_folder.settings import read_settings

        if config is not None and not isinstance(config, DeltaQuantConfig):
            hint = "BitDeltaConfig(bits=1) or DeltaQuantConfig(method='int4')"
            instance_of("config", config, BitDeltaConfig, hint=hint)
        result = self.result
        run = open_run(result.run)
        bits = read_settings(run.config_file).delta_bits
        chosen = BitDeltaConfig(bits=bits or 1) if config is None else config
        source, file = result.folder / "result", result.folder / DELTA_FILE
        adapted = is_adapter(source)
        base, quality = measured_on(result)
        layers: dict[str, DeltaConfig] = {}
        threshold = None if isinstance(chosen, DeltaQuantConfig) else chosen.safety_threshold
        if isinstance(chosen, DeltaQuantConfig):
            layers = chosen.layers(from_adapter=adapted)
            if quality is not None:
                rows = quality.examples[: chosen.calibration_samples]
                quality = replace(quality, examples=rows)
        loses = chosen.bits != bits
        distill = partial(distill_delta, base=base, tuned=source, run=run)
        create_delta(
            source,
            base=base,
            out=file,
            config=chosen.as_delta(from_adapter=adapted),
            layers=layers,
            quality=quality,
            distill=distill if chosen.bits == 1 and loses else None,
            safety_threshold=threshold,
            force=True,
        )
        self._delta = file
        return load_delta(file)

    def save_model(self, path: StrPath) -> Path:
        """Copies the trained model to a new folder, or, after `compress_deltas`, its delta.

        Args:
            path: the folder; it must not exist, or be empty.

        Returns:
            The folder. `open_chat(..., adapter=folder)` loads an adapter, `delta=folder /
            "model.delta.safetensors"` a delta.

        Raises:
            GymError: `train` has not finished yet.
            InputError: the folder contains files.
        """
        from zoo.gym.files import new_folder, storage_errors

        folder = path_of("path", path)
        source = self.result.folder / "result"
        files = [self._delta] if self._delta else sorted(source.iterdir())
        with new_folder(folder) as beside, storage_errors(folder):
            for file in files:
                shutil.copyfile(file, beside / file.name)
        return folder

    def export(
        self,
        path: StrPath,
        quantization: str | None = None,
        format: str | None = None,  # noqa: A002
    ) -> "ExportReport":
        """Writes the trained model for other programs, and compares what they compute from it.

        Args:
            path: the file or folder; an existing one is replaced.
            quantization: the type of the weights of a GGUF file, `q8_0` by default; or `bitdelta`
                or `deltaquant`: base plus that delta in float16, and the delta file beside it.
            format: one of `zoo-gym export --format`; by default that of the path's ending.

        Raises:
            GymError: `train` has not finished yet.
            InputError: the format cannot hold this model, or another program computes something
                else from it; then nothing is left at `path`.
        """
        from zoo.gym.published.exporting import export_result

        def compress(codec: str) -> "Delta":
            return self.compress_deltas(
                BitDeltaConfig() if codec == "bitdelta" else DeltaQuantConfig()
            )

        return export_result(self.result.folder / "result", path, quantization, format, compress)


def measured_on(result: "RunResult") -> tuple[Path, Any]:
    """Returns the base of a run, and the held-out examples to measure a delta on, if it has any."""
    from zoo.gym.published.api import quality_input
    from zoo.gym.train.run_folder.settings import read_settings
    from zoo.models import resolve

    config = read_settings(result.folder / "config.yaml")
    base = resolve(config.model_name_or_path, offline=True).folder
    if config.val_size == 0 and not config.eval_dataset:
        return base, None
    quality = quality_input(base=base, run=result.run)
    return base, quality if quality.examples else None


class Trainer(Trained):
    """Trains a model as a `TrainingConfig` says.

    Args:
        config: the settings.

    Raises:
        InputError: `config` is not a `TrainingConfig`.
    """

    def __init__(self, config: TrainingConfig) -> None:
        super().__init__()
        hint = "TrainingConfig(model=..., algorithm=...)"
        self.config = instance_of("config", config, TrainingConfig, hint=hint)
        self._applied: Applied | None = None

    def train(self, dataset: "Data | None" = None) -> "RunResult":
        """Trains in this process and returns when the run is done.

        Args:
            dataset: a file, several, or rows, as in `TrainConfig`; by default that of the settings.

        Raises:
            InputError: there is no data, or it cannot be used.
            GymError: see `run_training`.
        """
        from zoo.gym.published.api import train_here

        stated = self.config.given
        if dataset is None and not any(ours(key) == "dataset" for key in stated):
            raise InputError(
                "dataset: not given: expected a file or rows",
                hint='train(dataset="my.jsonl")',
                code="published.no_dataset",
            )
        loaded = _load(self._on_result(stated), dataset)
        self._delta = None
        self._result = train_here(loaded.config, loaded.ignored)
        return self._result

    def apply_deltasoup(self, source: StrPath | None = None) -> "Applied | None":
        """Makes the base plus the result of a community round the base of the next `train`.

        Args:
            source: a round's folder, name or id, whose result is verified first; by default the
                result that was applied last to this base, by this method or `zoo-gym round apply`.

        Returns:
            What was applied; None, with a warning, if there is no result for this base.

        Raises:
            InputError: the round is about another base, a check of it fails, or the model that was
                written for it was changed since.
            NotAvailableError: the round has no result yet.

        Warns:
            GymWarning: no result was applied to this base.
        """
        from zoo.gym.rounds.compute.applying import apply_result, newest_result, refuse_changed
        from zoo.gym.rounds.session.known_rounds import find_storage
        from zoo.gym.rounds.session.opening import open_round
        from zoo.models import resolve

        base = resolve(str(self.config.model_name_or_path), offline=True).folder
        if source is not None:
            storage, expected = find_storage(str(path_of("source", source)))
            self._applied = apply_result(open_round(storage, expected=expected), base)
            return self._applied
        self._applied = newest_result(base)
        if self._applied is None:
            warnings.warn(
                "apply_deltasoup: no result of a round was applied to "
                f"{self.config.model_name_or_path}: training goes on with it alone",
                GymWarning,
                stacklevel=2,
            )
        else:
            refuse_changed(self._applied)
        return self._applied

    def _on_result(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Returns the settings with an applied result in the place of the base."""
        if self._applied is None:
            return dict(settings)
        rest = {key: settings[key] for key in settings if ours(key) != "model_name_or_path"}
        return {"model_name_or_path": str(self._applied.file), **rest}
