"""A private round as its maker asks for it, and as people read what it promises."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from zoo.gym.errors import InputError
from zoo.gym.rounds.privacy.contribution import values_of
from zoo.gym.rounds.privacy.sealing import key_text, public_of
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.privacy import (
    REFUSED,
    Privacy,
    check_promise,
    fewest_contributors,
    privacy_for,
    privacy_of,
)
from zoo.gym.rounds.rules.method import AggregationMethod

DELTA, CLIP = 1e-6, 1.0

Form = Literal["signs", "lowrank", "float"]


@dataclass(frozen=True)
class Wish:
    """What a maker asks for.

    Attributes:
        epsilon: .1 to 10.
        delta: between 0 and 1.
        clip: the largest norm of a contribution's factors B.
        force: start also where the noise is larger than any signal.
    """

    epsilon: float
    delta: float = DELTA
    clip: float = CLIP
    force: bool = False

    def terms(self, private: bytes) -> Privacy:
        """Returns the terms of a new round with a seed of its own.

        Args:
            private: the private half of the round's key.

        Raises:
            InputError: the clip is too small for whole numbers.
        """
        key, seed = key_text(public_of(private)), secrets.token_hex(32)
        try:
            return privacy_for(self.epsilon, self.delta, self.clip, seed, key)
        except ValidationError as error:
            raise InputError(
                f"--private: {error.errors()[0]['msg']}", code="rounds.bad_promise"
            ) from None

    def check(self, manifest: Manifest) -> None:
        """Refuses a round that would be noise with as many contributors as it needs.

        Raises:
            InputError: the noise's norm is above that of any mean, and `force` is not set.
        """
        values = values_of(manifest)
        check_signal(privacy_of(manifest), values, manifest.quorum, force=self.force)


def check_signal(
    privacy: Privacy, values: int, contributors: int, *, force: bool, hint: str | None = None
) -> None:
    """Refuses a result that is more noise than anything the contributors could say.

    Args:
        hint: what else can be done; by default other terms, of a round that has not begun.

    Raises:
        InputError: the noise's norm is above that of any mean, and `force` is not given.
    """
    ratio = privacy.noise_to_signal(values, contributors)
    if ratio > 1 and not force:
        raise InputError(
            f"noise to signal: expected at most 1, got {ratio:.3g}: {values} numbers, "
            f"{contributors} contributors, sigma {privacy.noise:.4g}",
            hint=hint
            or f"{fewest_contributors(privacy, values)} contributors, a smaller rank, fewer "
            "tensors or a larger epsilon; --force goes on",
            code="rounds.noise_too_large",
        )


def wish_of(text: str | None, *, force: bool = False) -> Wish | None:
    """Returns what `epsilon=1,delta=1e-6,clip=1` asks for; None for nothing.

    Raises:
        InputError: epsilon is missing, a name is unknown or may not be chosen, or a value is none.
    """
    if text is None:
        if force:
            raise InputError("--force: has no effect without --private", code="rounds.force_unused")
        return None
    chosen: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name in REFUSED:
            raise InputError(f"{name}: expected none: {REFUSED[name]}", code="rounds.not_chosen")
        if name not in {"epsilon", "delta", "clip"} or name in chosen:
            raise InputError(
                f"--private: expected epsilon, delta and clip once each, got {name!r}",
                code="rounds.bad_promise",
            )
        try:
            chosen[name] = float(value)
        except ValueError:
            raise InputError(
                f"--private {name}: expected a number, got {value!r}", code="rounds.bad_promise"
            ) from None
    if "epsilon" not in chosen:
        raise InputError(
            "--private: expected an epsilon, got none",
            hint="--private epsilon=1",
            code="rounds.bad_promise",
        )
    wish = Wish(**chosen, force=force)
    check_promise(wish.epsilon, wish.delta)
    if not 0 < wish.clip <= 1e4:
        raise InputError(
            f"--private clip: expected a number up to 10000, got {wish.clip}",
            code="rounds.bad_promise",
        )
    return wish


def form_and_method(
    form: Form | None, method: str | None, *, private: bool
) -> tuple[Form, AggregationMethod]:
    """Returns how contributions are coded and combined, with the defaults of both kinds of rounds.

    In a private round the robust default means clip and sum.

    Raises:
        InputError: a private round with another form or rule.
    """
    if not private:
        return form or "signs", AggregationMethod(method or "byzantine_robust")
    if form not in {None, "lowrank"}:
        raise InputError(
            f"--form: expected lowrank in a private round, got {form}: noise drowns signs and full "
            "changes",
            code="rounds.private_form",
        )
    if method not in {None, "mean", "byzantine_robust"}:
        raise InputError(
            f"--method: expected mean in a private round, got {method}: what a rule selects "
            "depends on each contribution without a bound",
            hint="each contribution is clipped instead: it moves the mean by clip / n at most",
            code="rounds.private_method",
        )
    return "lowrank", AggregationMethod.MEAN


def described(privacy: Privacy, values: int, contributors: int) -> dict[str, Any]:
    """Returns what a private round promises with a number of contributors, as JSON."""
    return {
        "class": "clipped sum with discrete Gaussian noise",
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "sigma": privacy.noise,
        "clip": privacy.clip,
        "contributors": contributors,
        "noise_to_signal": privacy.noise_to_signal(values, contributors),
    }


def in_words(facts: Mapping[str, Any]) -> list[str]:
    """Returns the lines for people of what `described` has returned."""
    share = facts["clip"] / facts["contributors"]
    return [
        f"private: epsilon {facts['epsilon']:g}, delta {facts['delta']:g} for each contribution, "
        f"against one of zeros; sigma {facts['sigma']:.4g} of the clip {facts['clip']:g}",
        f"each contribution is clipped and added up, and discrete Gaussian noise once: no rule "
        f"selects, so a malicious one of {facts['contributors']} moves the mean by {share:.3g} "
        "at most",
        f"noise to signal: {facts['noise_to_signal']:.3g} with {facts['contributors']} "
        "contributors" + (": of no use" if facts["noise_to_signal"] > 1 else ""),
        "the maker can open every contribution: the promise is about what is published",
    ]
