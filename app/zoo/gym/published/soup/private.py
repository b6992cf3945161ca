"""A private soup: each fine-tune is clipped and added up, and noise once (no rule selects).

As in a private round, but in one process: whoever runs it sees every contribution, and what is
promised, epsilon and delta for each user, holds for the result alone. It is drawn once, and booked
in the ledger of this machine before.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta
from zoo.gym.published.soup.combining import report_of
from zoo.gym.published.soup.contributors import Contribution
from zoo.gym.rounds.privacy import ledger
from zoo.gym.rounds.privacy.contribution import read_values, values_of
from zoo.gym.rounds.privacy.promise import described
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.rounds.protocol.privacy import Privacy


def drawn(
    every: Sequence[Contribution], coding: Coding, privacy: Privacy, out: Path
) -> tuple[Delta, dict[str, Any]]:
    """Books, adds up and draws the noise of a result: once, since nothing gives it back.

    Args:
        every: all contributions.
        coding: theirs.
        privacy: what is promised, with a seed of its own.
        out: the file of the result.

    Raises:
        StorageError: the ledger or the result cannot be written.
    """
    import numpy as np

    from zoo.gym.rounds.privacy.mechanism import add_noise, write_private_result

    values, contributors = values_of(coding), len(every)
    total = np.zeros(values, np.int64)
    for contribution in every:
        total += read_values(contribution.file, coding, privacy)
    spending = ledger.Spending(privacy.epsilon, privacy.delta, privacy.noise)
    ledger.spend(f"soup {privacy.seed}", [f"user {entry.user}" for entry in every], spending)
    add_noise(total, privacy)
    rule: dict[str, JsonValue] = {"method": "private_mean", "f": 0}
    recipe: dict[str, JsonValue] = {"rule": rule, "contributors": contributors}
    delta = write_private_result(total, contributors, coding, privacy, recipe, out)
    promise = described(privacy, values, contributors)
    ratio = promise["noise_to_signal"]
    unusable = (
        f"of no use: the noise is {ratio:.3g} times any signal of {contributors} contributors"
    )
    report = report_of(
        rule,
        coding,
        [(contribution, 1 / contributors) for contribution in every],
        {},
        privacy=promise,
        usable=ratio <= 1,
        warnings=[unusable] if ratio > 1 else [],
    )
    return delta, report
