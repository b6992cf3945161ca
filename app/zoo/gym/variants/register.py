"""Makes the variant of a finished run: its adapter becomes a delta, is measured, and stored."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.files import read_json_object
from zoo.gym.jobs.run import VARIANT_KEY, Run
from zoo.gym.variants.store import NAME, Stored, put, require_free, stored_of

if TYPE_CHECKING:
    from zoo.gym.config import TrainConfig
    from zoo.gym.delta import DeltaReport

DELTA_FILE = "variant.safetensors"
"""The delta in the run folder until it is stored."""


class VariantSpec(BaseModel):
    """What a run becomes; `env.json` has it, so that a run that is resumed becomes that, too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str = Field(pattern=f"^{NAME.pattern}$")
    coding: DeltaConfig = DeltaConfig()
    safety_threshold: float | None = None
    replace: bool = False

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Returns what a run was made to become."""
        return cls.model_validate((read_json_object(run.env_file) or {})[VARIANT_KEY])


@dataclass(frozen=True)
class Registered:
    """A variant that was stored, and what was measured of it."""

    stored: Stored
    report: "DeltaReport"


def check_settings(config: "TrainConfig") -> None:
    """Refuses settings whose result no variant can be, before anything is trained.

    Raises:
        InputError: the result would be more than two factors for each layer.
    """
    wrong = {
        "finetuning_type": config.finetuning_type != "lora",
        "use_dora": config.dora,
        "loftq_init": config.loftq_init,
        "additional_target": config.additional_target is not None,
        "stage": config.stage == "rm",
    }
    for key, is_wrong in wrong.items():
        if is_wrong:
            raise InputError(
                f"{key}: expected a plain LoRA adapter, whose factors a variant is, got "
                f"{getattr(config, key)}",
                code="variants.not_low_rank",
            )


def add_run(run: Run, spec: VariantSpec) -> Registered:
    """Compresses the adapter of a run, measures that on the rows that it held out, and stores it.

    Raises:
        InputError: the run has no adapter, or lost more refusals than the threshold allows, or the
            name is taken.
        NotAvailableError: the base is not on this machine.
        StorageError: a file cannot be written.

    Warns:
        GymWarning: notes on the rows and on the delta, see `create_delta`.
    """
    from zoo.gym.delta import QualityInput, create_delta
    from zoo.gym.delta.quality import sampled_rows
    from zoo.gym.train.measuring import rows_of_run
    from zoo.gym.train.run_folder.base import refuse_other_base
    from zoo.gym.tuned.record import origin_of
    from zoo.gym.tuned.source import source_of_run
    from zoo.models import resolve
    from zoo.models.folder import count_parameters

    source = source_of_run(run)
    config = source.config
    if source.artifact != "adapter" or config is None:
        raise InputError(
            f"run '{run.id}': expected an adapter, whose factors a variant is, got a "
            f"{source.artifact}",
            code="variants.not_low_rank",
        )
    base = resolve(config.model_name_or_path, offline=True)
    refuse_other_base(run.env_file, base.folder)
    require_free(stored_of(base.folder, spec.user), replace=spec.replace)
    rows = rows_of_run(run.folder, config, base.folder)
    for note in rows.notes:
        warnings.warn(note, GymWarning, stacklevel=2)
    examples = sampled_rows(rows.examples, count_parameters(base.folder))
    report = create_delta(
        source.path,
        base=base.folder,
        base_id=base.id,
        base_revision=base.revision,
        out=run.folder / DELTA_FILE,
        config=spec.coding,
        origin=origin_of(source),
        quality=QualityInput(examples, held_out=rows.held_out) if examples else None,
        safety_threshold=spec.safety_threshold,
        force=True,
    )
    try:
        stored = put(report.file, base, spec.user, replace=spec.replace)
    finally:
        report.file.unlink()
    return Registered(stored, report)


def add_trained(run: Run) -> Mapping[str, object]:
    """Makes the variant that a run in its worker was started for, and returns metrics of it.

    Raises:
        GymError: see `add_run`.
    """
    from zoo.gym.train.loading import warnings_as_events

    spec = VariantSpec.of_run(run)
    with warnings_as_events(run.events.emit):
        try:
            made = add_run(run, spec)
        except InputError as error:
            if error.code != "variants.taken":
                raise
            again = f"zoo-gym variants create --run {run.id} --user NAME, or --replace"
            raise InputError(error.message, hint=again, code=error.code) from None
    return {"variant": made.stored.id, "delta_bytes": made.report.file_bytes}
