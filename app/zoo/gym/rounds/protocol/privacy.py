"""The terms of a private round: the promise, the noise that keeps it, and how noise adds up.

A contribution is the whole numbers `B * scale`, cut towards zero and clipped to `clip * scale` in
Euclidean norm over all tensors. Noise of `sigma` steps is added to their sum once. Sigma is
computed when the round is made and checked by every reader: no machine rounds it anew.

Source: Balle and Wang, arXiv:1805.06530, theorem 8, for a sensitivity of 1:

    delta(sigma, eps) = Phi(1 / (2 sigma) - eps sigma) - exp(eps) Phi(-1 / (2 sigma) - eps sigma)

Releases of the same data add up to one with 1 / sigma^2 = sum of 1 / sigma_i^2. No advantage of
sampling is claimed: who takes part is neither random nor secret.
"""

from collections.abc import Iterable, Mapping
from math import ceil, erfc, exp, floor, inf, isfinite, sqrt
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import Field, model_validator

from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.objects import Hex, Terms

if TYPE_CHECKING:
    from zoo.gym.rounds.protocol.manifest import Manifest

LEAST_EPSILON, MOST_EPSILON = 0.1, 10.0
"""Promises outside this range are refused: they are useless, or none."""

_STEPS = 200


def delta_of(sigma: float, epsilon: float) -> float:
    """Returns the delta that a noise of `sigma` sensitivities gives at an epsilon."""
    half, moved = 1 / (2 * sigma), epsilon * sigma
    return max(0.0, _phi(half - moved) - exp(epsilon) * _phi(-half - moved))


def sigma_for(epsilon: float, delta: float) -> float:
    """Returns the smallest noise, in sensitivities, that keeps a promise.

    Raises:
        InputError: an epsilon outside .1 to 10, or a delta that is not between 0 and 1.
    """
    check_promise(epsilon, delta)
    low, high = 1e-3, 1e6  # delta falls as sigma grows
    for _ in range(_STEPS):
        middle = sqrt(low * high)
        low, high = (middle, high) if delta_of(middle, epsilon) > delta else (low, middle)
    return high


def epsilon_for(sigma: float, delta: float) -> float:
    """Returns the smallest epsilon that a noise of `sigma` sensitivities gives at a delta.

    Raises:
        InputError: a delta that is not between 0 and 1, or a sigma that is not positive.
    """
    _check_delta(delta)
    if not sigma > 0:
        raise InputError(
            f"sigma: expected a number above 0, got {sigma}", code="rounds.sigma_range"
        )
    low, high = 0.0, 1.0
    while delta_of(sigma, high) > delta:
        low, high = high, 2 * high
        if high > 500:
            return inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(sigma, middle) > delta else (low, middle)
    return high


def together(sigmas: Iterable[float]) -> float:
    """Returns the noise of one release that tells as much as all of these; infinite for none."""
    precision = sum(1 / (sigma * sigma) for sigma in sigmas)
    return 1 / sqrt(precision) if precision else inf


def check_promise(epsilon: float, delta: float) -> None:
    """Refuses a promise that is useless or none.

    Raises:
        InputError: see `sigma_for`.
    """
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise InputError(
            f"epsilon: expected {LEAST_EPSILON} to {MOST_EPSILON:g}, got {epsilon}",
            hint="more than 10 promises next to nothing; below .1 only noise is left",
            code="rounds.epsilon_range",
        )
    _check_delta(delta)


def _check_delta(delta: float) -> None:
    if not (isfinite(delta) and 0 < delta < 1):
        raise InputError(
            f"delta: expected a number between 0 and 1, got {delta}", code="rounds.delta_range"
        )


def _phi(x: float) -> float:
    """Returns the normal distribution function; exact in both tails."""
    return erfc(-x / sqrt(2)) / 2


OVERHEAD = 32 + 16
"""Bytes that sealing adds to a message: the one-time key and the tag."""

MOST_SIGMA = 1 << 20
"""The largest sigma, in steps, that the core draws."""

LEAST_SIGMA, LEAST_CLIP = 64, 1 << 13
"""With fewer steps the account of real numbers would not be that of whole ones to 1e-7."""

MOST_VALUES = (1 << 29) - 64
"""As many numbers of four bytes as one sealed message has."""

_ROUNDING = 1 + 1e-9

REFUSED = dict.fromkeys(
    ("noise_scale", "noise_multiplier"), "sigma is computed from epsilon, delta and clip"
) | dict.fromkeys(
    ("amplification", "sampling", "sampling_rate", "subsampling", "shuffling"),
    "who takes part is neither random nor secret, so no amplification can be claimed",
)
"""Settings of other programs that no round has, with the reason."""

PAYLOAD_LINE = b"zoo-gym private values 1\n"
"""The first line of a contribution before it is sealed."""

_ONLY_ROBUST = ("evaluation", "refit", "newcomers", "previous")
"""Terms under which what one contributor sends decides what becomes of others."""


class Privacy(Terms):
    """What a private round promises each contributor."""

    epsilon: float = Field(ge=0.1, le=10, allow_inf_nan=False, description="of this round")
    delta: float = Field(gt=0, lt=1, allow_inf_nan=False, description="of this round")
    clip: float = Field(gt=0, le=1e4, allow_inf_nan=False, description="largest norm of all B")
    scale: int = Field(ge=1, le=1 << 40, description="steps of whole numbers in 1; a power of two")
    sigma: int = Field(ge=LEAST_SIGMA, le=MOST_SIGMA, description="noise, in steps")
    seed: Hex = Field(description="of the factors A")
    key: Annotated[str, Field(pattern=r"^x25519:[0-9a-f]{64}$")] = Field(
        description="to which contributions are sealed"
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_by_name(cls, values: object) -> object:
        fields = cast("Mapping[str, Any]", values) if isinstance(values, Mapping) else {}
        for name, why in REFUSED.items():
            if name in fields:
                raise ValueError(f"{name}: expected none: {why}")
        return values

    @model_validator(mode="after")
    def _keeps_its_promise(self) -> Self:
        if self.scale & (self.scale - 1):
            raise ValueError(f"scale: expected a power of two, got {self.scale}")
        if self.clip_steps < LEAST_CLIP:
            raise ValueError(
                f"clip: expected at least {LEAST_CLIP} steps with clip * scale, got "
                f"{self.clip_steps}"
            )
        if delta_of(self.noise, self.epsilon) > self.delta * _ROUNDING:
            needed = ceil(sigma_for(self.epsilon, self.delta) * self.clip_steps)
            raise ValueError(
                f"sigma: expected at least {needed} steps for epsilon {self.epsilon:g} and delta "
                f"{self.delta:g}, got {self.sigma}"
            )
        return self

    @property
    def clip_steps(self) -> int:
        """The largest norm of a contribution, in steps."""
        return floor(self.clip * self.scale)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise over the largest norm of a contribution."""
        return self.sigma / self.clip_steps

    def noise_to_signal(self, values: int, contributors: int) -> float:
        """Returns the norm of the noise over the largest norm of the sum.

        Args:
            values: how many numbers are published.
            contributors: how many were added up.
        """
        return self.noise * sqrt(values) / contributors


def privacy_for(epsilon: float, delta: float, clip: float, seed: str, key: str) -> Privacy:
    """Returns the terms that keep a promise with the finest whole numbers.

    Args:
        epsilon: 0.1 to 10.
        delta: between 0 and 1.
        seed: of the factors A.

    Raises:
        InputError: the promise is useless or none.
        ValueError: the clip is too small.
    """
    noise = sigma_for(epsilon, delta)
    scale = 1 << 40
    while scale > 1 and ceil(noise * floor(clip * scale)) > MOST_SIGMA:
        scale >>= 1
    sigma = max(LEAST_SIGMA, ceil(noise * floor(clip * scale)))
    return Privacy(
        epsilon=epsilon, delta=delta, clip=clip, scale=scale, sigma=sigma, seed=seed, key=key
    )


def count_values(shapes: Mapping[str, tuple[int, ...]], rank: int) -> int:
    """Returns how many numbers the factors B of all tensors have."""
    return sum(rank * shape[0] for shape in shapes.values())


def sealed_bytes(values: int) -> int:
    """Returns the size of a sealed contribution of that many numbers."""
    return len(PAYLOAD_LINE) + 4 * values + OVERHEAD


def privacy_of(manifest: "Manifest") -> Privacy:
    """Returns the terms of privacy of a private round."""
    assert manifest.privacy, "only private rounds come here"
    return manifest.privacy


def check_private_round(manifest: "Manifest", privacy: Privacy) -> None:
    """Refuses terms that break the promise of a private round, or have no effect in one.

    Raises:
        ValueError: the term is named.
    """
    if manifest.form != "lowrank":
        raise ValueError(
            f"form: expected lowrank in a private round, got {manifest.form}: noise drowns signs "
            "and full changes"
        )
    if manifest.method != "mean" or manifest.f:
        raise ValueError(
            f"method: expected mean in a private round, got {manifest.method}: what a rule selects "
            "depends on each contribution without a bound"
        )
    for name in _ONLY_ROBUST:
        if getattr(manifest, name) is not None:
            raise ValueError(f"{name}: expected null in a private round, got a value")
    if privacy.delta * manifest.most >= 1:
        raise ValueError(
            f"privacy.delta: expected less than 1 / {manifest.most}, the most contributors, got "
            f"{privacy.delta:g}: a delta of 1 / n allows to publish one of n contributions"
        )
    rank = manifest.caps.rank
    for tensor in manifest.tensors:
        if rank > min(tensor.shape):
            raise ValueError(
                f"caps.rank: expected at most {min(tensor.shape)} for tensor {tensor.name}, got "
                f"{rank}"
            )
    values = count_values({tensor.name: tensor.shape for tensor in manifest.tensors}, rank)
    if values > MOST_VALUES:
        raise ValueError(f"tensors: expected at most {MOST_VALUES} numbers in B, got {values}")
    if manifest.caps.file_bytes != sealed_bytes(values):
        raise ValueError(
            f"caps.file_bytes: expected {sealed_bytes(values)}, the size of every sealed "
            f"contribution, got {manifest.caps.file_bytes}"
        )
    if manifest.caps.value != privacy.clip:
        raise ValueError(f"caps.value: expected the clip, {privacy.clip}")


def fewest_contributors(privacy: Privacy, values: int) -> int:
    """Returns with how many contributors the noise is no larger than the largest signal."""
    return ceil(privacy.noise * sqrt(values))
