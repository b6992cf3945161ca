"""Distillation: the model learns to predict what a teacher predicts, on the answers of the data.

Each learned token teaches the teacher's probabilities of the whole vocabulary, not only which token
follows. The teacher is a second model in memory, which is not trained; both must read the same
tokens. An evaluation is the same divergence on the held-out rows. Left out: answers that the model
samples itself, a temperature, and teachers with another tokenizer.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number, folder_text
from zoo.gym.data.tokenizer import check_same_tokens
from zoo.gym.engine import open_engine
from zoo.gym.errors import InputError
from zoo.gym.objectives.distillation import DistillationLoss
from zoo.gym.train.method import Method
from zoo.gym.train.run_folder.env import stored_device
from zoo.models.folder import model_positions, vocabulary_size

if TYPE_CHECKING:
    from zoo.backends.base import Objective


class DistillConfig(TrainConfig, frozen=True):
    """The settings of distillation."""

    model_keys: ClassVar[tuple[str, ...]] = ("teacher_model",)

    stage: Literal["distill"] = Field(
        default="distill", description="distill learns what a teacher predicts"
    )
    teacher_model: Annotated[str, BeforeValidator(folder_text)] = Field(
        min_length=1,
        description="the teacher, a name or a folder as of the base; it has the same tokenizer",
    )
    distill_loss: Literal["forward_kl", "reverse_kl"] = Field(
        default="forward_kl",
        description="the divergence: forward_kl covers all that the teacher finds likely,"
        " reverse_kl avoids what it finds unlikely",
    )
    distill_alpha: Number = Field(
        default=0.0,
        ge=0,
        description="the weight of the likelihood of the answers in the data",
    )


class Distillation(Method):
    """Learns the probabilities of a teacher."""

    config: ClassVar[type[TrainConfig]] = DistillConfig
    loss_unit = "nats per token"
    watch: ClassVar[tuple[str, ...]] = ("kl", "nll")

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns True: a divergence is a sum over the vocabulary."""
        del config
        return True

    @classmethod
    def check_models(cls, config: TrainConfig, folder: Path) -> None:
        """Checks that the teacher is another model, and reads the same tokens.

        Raises:
            InputError: it is the base, and no answers are learned; or it has other tokens, or reads
                fewer at once.
            NotAvailableError: it is not on this machine.
        """
        from zoo.models import resolve

        settings = cast("DistillConfig", config)
        teacher = resolve(settings.teacher_model, offline=True).folder
        if teacher.resolve() == folder.resolve() and settings.distill_alpha == 0:
            raise InputError(
                "teacher_model: expected another model than the base, which would learn nothing, "
                f"got {teacher.name}",
                code="train.bad_teacher",
            )
        check_same_tokens("teacher_model", teacher, folder)
        sizes = vocabulary_size(folder), vocabulary_size(teacher)
        if None not in sizes and sizes[0] != sizes[1]:
            raise InputError(
                f"teacher_model: expected probabilities of {sizes[0]:,} tokens, as the base has, "
                f"got {sizes[1]:,}",
                code="train.bad_teacher",
            )
        _check_length(config, model_positions(folder), model_positions(teacher))

    def prepare(self) -> None:
        """Loads the teacher next to the policy."""
        from zoo.models import resolve

        folder = resolve(self._settings.teacher_model, offline=True).folder
        self.teacher = open_engine(stored_device(self.folder / "env.json")).load(folder)

    @property
    def _settings(self) -> DistillConfig:
        return cast("DistillConfig", self.plan.config)

    @property
    def objective(self) -> "Objective":
        """The divergence of `distill_loss`."""
        config = self._settings
        return DistillationLoss(config.distill_loss, config.distill_alpha)


def _check_length(config: TrainConfig, student: int | None, teacher: int | None) -> None:
    """Refuses rows that are longer than the teacher can read."""
    read = config.cutoff_len if config.rope_scaling or student is None else student
    longest = min(config.cutoff_len, read)
    if teacher is not None and longest > teacher:
        raise InputError(
            f"cutoff_len: expected at most {teacher:,} tokens, which the teacher reads, "
            f"got {longest:,}",
            hint=f"cutoff_len={teacher}",
            code="train.bad_teacher",
        )
