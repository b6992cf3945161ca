"""The privacy record of a delta: what the noise in a sum of contributions promises.

It is written by the program that drew the noise. A reader cannot repeat that, so it refuses only
what cannot be; `docs/reference/rounds.md` says what is promised, and to whom.
"""

import math
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from zoo.gym.delta.file.terms import Model

Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]

SAME_RATIO = 1e-6


class Privacy(Model):
    """A discrete Gaussian on the sum of clipped contributions (arXiv:2004.00010)."""

    mechanism: Literal["discrete-gaussian"] = Field(description="the noise")
    unit: Literal["contribution"] = Field(
        description="what is protected: one whole contribution, against none in its place"
    )
    epsilon: Annotated[Positive, Field(ge=0.1, le=10)] = Field(description="of this delta alone")
    delta: Annotated[Positive, Field(lt=1)] = Field(description="of this delta alone")
    sigma: Positive = Field(description="standard deviation of the noise over `clip`")
    clip: Positive = Field(description="largest Euclidean norm of a contribution's factors B")
    contributors: PositiveInt = Field(description="contributions in the sum")
    values: PositiveInt = Field(description="numbers that noise was added to")
    noise_to_signal: Positive = Field(description="sigma sqrt(values) / contributors")

    @model_validator(mode="after")
    def _figures_agree(self) -> Self:
        ratio = self.sigma * math.sqrt(self.values) / self.contributors
        if not math.isclose(ratio, self.noise_to_signal, rel_tol=SAME_RATIO):
            raise ValueError(
                f"noise_to_signal: expected {ratio:g} by sigma, values and contributors, got "
                f"{self.noise_to_signal:g}"
            )
        return self
