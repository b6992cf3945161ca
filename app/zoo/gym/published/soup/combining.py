"""Combines the contributions of a soup, with the rules and the arithmetic of rounds."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.errors import InputError
from zoo.gym.published.soup.config import DeltaSoupConfig, why_no_share
from zoo.gym.published.soup.contributors import Contribution, ContributorProfile
from zoo.gym.rounds.compute.collect import without_copies
from zoo.gym.rounds.compute.result import write_result
from zoo.gym.rounds.contribution.check import views_of
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import Rule, takes_f

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def combined(
    every: Sequence[Contribution],
    coding: Coding,
    config: DeltaSoupConfig,
    profiles: Mapping[str, ContributorProfile],
    out: Path,
    least: int = 1,
) -> tuple[Delta, dict[str, Any]]:
    """Returns the aggregate of contributions and its report.

    Args:
        every: all of them, in the order of their digests.
        coding: theirs.
        config: the settings.
        profiles: of the users, whose reputations a weighted mean takes.
        out: the file of the aggregate.
        least: how many must count that are no copies.

    Raises:
        InputError: too few count, or the rule cannot use them.
        StorageError: the result cannot be written.
    """
    products = views_of([load_delta(contribution.file) for contribution in every], coding).gram()
    positions, users = (
        [contribution.place for contribution in every],
        [contribution.user for contribution in every],
    )
    reasons, gram = without_copies(products, positions, coding.form, users)
    refused = {users[row]: reason for row, reason in reasons.items()}
    chosen = [contribution for contribution in every if contribution.user not in refused]
    if len(chosen) < least:
        raise InputError(
            f"aggregate: expected at least {least} contributors, got {len(chosen)} of {least} "
            f"({_not_counted(refused)})",
            code="published.too_few",
        )
    rule = config.rule(len(chosen))
    contributions = views_of([load_delta(contribution.file) for contribution in chosen], coding)
    selection = select(rule, contributions, _given(chosen, config, profiles), gram=gram)
    refused |= {chosen[row].user: reason for row, reason in selection.refused.items()}
    used: dict[str, JsonValue] = {
        "method": selection.rule.method.value,
        "f": selection.rule.f,
    }
    warnings = _warnings(rule, len(chosen), config, refused)
    shares = selection.shares
    counted = [(chosen[row], shares[row]) for row in selection.kept]
    report = report_of(used, coding, counted, refused, warnings=warnings)
    recipe: dict[str, JsonValue] = {"rule": used, "contributors": len(counted)}
    return write_result(combine(selection, contributions), coding, recipe, out), report


def report_of(
    rule: Mapping[str, JsonValue],
    coding: Coding,
    counted: Iterable[tuple[Contribution, float]],
    refused: Mapping[str, str],
    **more: object,
) -> dict[str, Any]:
    """Returns the report of an aggregate.

    Args:
        rule: its name and parameters.
        coding: of the contributions.
        counted: the contributions that count, with the part of each in the aggregate.
        refused: why those of other users do not count.
        more: its other fields.
    """
    return {
        "rule": rule,
        "form": coding.form,
        "base": coding.base.model,
        "contributions": [
            {
                "user": contribution.user,
                "digest": contribution.digest,
                "share": share,
                "metadata": dict(contribution.metadata),
            }
            for contribution, share in counted
        ],
        "refused": [{"user": user, "reason": refused[user]} for user in sorted(refused)],
        "refit": None,
        **more,
    }


def _given(
    chosen: Sequence[Contribution],
    config: DeltaSoupConfig,
    profiles: Mapping[str, ContributorProfile],
) -> "NDArray[np.float32] | None":
    """Returns what the rule weighs contributions by beside themselves."""
    import numpy as np

    if not config.needs:
        return None
    if config.needs == "reputations":
        weights = [profiles[contribution.user].get_weight() for contribution in chosen]
        if not any(weights):
            raise InputError(
                "weighted_mean: expected reputations above 0, got none",
                hint="a quality_validator gives them",
                code="published.no_weights",
            )
        return np.array(weights, np.float32)
    silent = next(
        (contribution.user for contribution in chosen if contribution.examples is None), None
    )
    if silent is not None:
        raise InputError(
            f"federated_average: expected a number of examples of {silent}, got none",
            hint='contribute(user_id, model, metadata={"examples": 1000})',
            code="published.no_weights",
        )
    return np.array([contribution.examples for contribution in chosen], np.float32)


def _warnings(rule: Rule, n: int, config: DeltaSoupConfig, refused: Mapping[str, str]) -> list[str]:
    warned: list[str] = []
    asked = 0 if why_no_share(config.method) else config.asked_f(n)
    if 0 < rule.f < asked:
        warned.append(
            f"{config.method.value}: withstands {rule.f} of {n} contributors, where "
            f"byzantine_threshold={config.byzantine_threshold:g} asks for {asked}"
        )
    if takes_f(config.method) and rule.f == 0:
        warned.append(
            f"{config.method.value}: nothing malicious is withstood with {n} contributors: the "
            f"result is made by {rule.method.value} with f = 0"
        )
    if refused:
        warned.append(_not_counted(refused))
    return warned


def _not_counted(refused: Mapping[str, str]) -> str:
    return "not counted: " + "; ".join(f"{user}: {refused[user]}" for user in refused)
