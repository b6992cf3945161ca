"""The published settings of a BitDelta, a delta of few bits per value (arXiv:2402.10193)."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.config.settings import Settings


def _no_rounds(value: bool) -> bool:
    """Refuses contributions that a coding cannot make."""
    if value:
        text = "a delta is contributed by DeltaSoup or `zoo-gym round contribute`: expected false"
        raise PydanticCustomError("sentence", "{text}", {"text": text})
    return value


class BitDeltaConfig(Settings, frozen=True):
    """How a fine-tune is compressed, under the published names.

    An adapter becomes a low-rank delta of coded factors, full weights a dense delta of signs.
    """

    bits: Literal[1, 2, 4, 8] = Field(default=1, description="bits per coded value")
    group_size: Literal[128] = Field(
        default=128, description="coded values that share one scale, in a low-rank delta"
    )
    form: Literal["auto", "lowrank", "dense"] = Field(
        default="auto",
        description="lowrank for an adapter, dense for full weights; auto selects by the model",
    )
    safety_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="the share of the base's refusals that a variant must keep; not measured yet",
    )
    enable_deltasoup: Annotated[bool, AfterValidator(_no_rounds)] = Field(
        default=False, description="contribute the delta to a round; done by commands of its own"
    )

    def as_delta(self) -> DeltaConfig:
        """Returns the same settings as `create_delta` takes them."""
        return DeltaConfig(form=self.form, bits=self.bits)

    def without_effect(self) -> Iterator[str]:
        """Yields a sentence for each setting that is given and has no effect yet."""
        if self.safety_threshold is not None:
            yield (
                "safety_threshold: without effect: refusal rates are not measured yet, "
                "so the delta is not checked against it"
            )
