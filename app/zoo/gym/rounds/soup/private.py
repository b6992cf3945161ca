"""A private soup: each fine-tune is clipped and added up, and noise once (no rule selects).

As in a private round, but in one process: whoever runs it sees every contribution, and what is
promised, epsilon and delta for each user, holds for the result alone. It is drawn once, and booked
in the ledger of this machine before.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.rounds.life.terms import tensor_names
from zoo.gym.rounds.privacy import ledger
from zoo.gym.rounds.privacy.contribution import read_values, values_of, write_values
from zoo.gym.rounds.privacy.promise import CLIP, described
from zoo.gym.rounds.privacy.sealing import key_text, new_key, public_of
from zoo.gym.rounds.privacy.terms import Privacy, privacy_for
from zoo.gym.rounds.protocol.manifest import Base, Caps, Tensor
from zoo.gym.rounds.soup.coding import SoupCoding
from zoo.gym.rounds.soup.result import AggregateResult
from zoo.gym.rounds.soup.scratch import Scratch

if TYPE_CHECKING:
    from zoo.gym.rounds.soup.config import DeltaSoupConfig
    from zoo.gym.rounds.soup.contribution import Contribution

RANK = 8
"""Of the factors: the noise grows with the root of their number."""


@dataclass(frozen=True)
class PrivateSoup:
    """What fixes the numbers of all contributions.

    Attributes:
        coding: base, tensors and rank.
        privacy: what is promised, with a seed of its own.
    """

    coding: SoupCoding
    privacy: Privacy

    def write(self, source: Path, out: Path) -> tuple[str, Mapping[str, JsonValue]]:
        """Writes what a fine-tune contributes; returns its digest and what is left of it.

        Raises:
            InputError: the source changes another base, nothing, or nothing that is left.
            StorageError: the file cannot be written.
        """
        from zoo.core import digest

        written = write_values(source, self.coding.folder, self.coding, self.privacy, out)
        said: dict[str, JsonValue] = {"kept": written.kept, "clipped": written.clipped}
        return digest(out.read_bytes()), said

    def drawn(self, every: "Sequence[Contribution]", scratch: Scratch) -> AggregateResult:
        """Books, adds up and draws the noise of a result: once, since nothing gives it back.

        Raises:
            StorageError: the ledger or the result cannot be written.
        """
        import numpy as np

        from zoo.gym.rounds.privacy.mechanism import add_noise, write_private_result

        privacy, count = self.privacy, values_of(self.coding)
        total = np.zeros(count, np.int64)
        for one in every:
            total += read_values(one.file, self.coding, privacy)
        spending = ledger.Spending(privacy.epsilon, privacy.delta, privacy.noise)
        ledger.spend(f"soup {privacy.seed}", [f"user {one.user}" for one in every], spending)
        add_noise(total, privacy)
        rule: dict[str, JsonValue] = {"method": "private_mean", "f": 0}
        recipe: dict[str, JsonValue] = {"rule": rule, "contributors": len(every)}
        out = scratch.new_result()
        delta = write_private_result(total, len(every), self.coding, privacy, recipe, out)
        report = self._report(every, rule)
        return AggregateResult(delta, report, self.coding.folder, scratch)

    def _report(
        self, every: "Sequence[Contribution]", rule: Mapping[str, JsonValue]
    ) -> dict[str, Any]:
        said = described(self.privacy, values_of(self.coding), len(every))
        ratio = said["noise_to_signal"]
        unusable = (
            f"of no use: the noise is {ratio:.3g} times any signal of {len(every)} contributors"
        )
        return {
            "rule": rule,
            "form": "lowrank",
            "base": self.coding.base.model,
            "contributions": [
                {
                    "user": one.user,
                    "digest": one.digest,
                    "share": 1 / len(every),
                    "metadata": dict(one.metadata),
                }
                for one in every
            ],
            "refused": [],
            "refit": None,
            "privacy": said,
            "usable": ratio <= 1,
            "warnings": [unusable] if ratio > 1 else [],
        }


def private_soup(base: Path, name: str, config: "DeltaSoupConfig") -> PrivateSoup:
    """Returns what fixes a private soup: the matrices inside the layers of a base.

    Args:
        base: its folder.
        name: for people.
        config: the settings.

    Raises:
        InputError: the base has no such matrices.
    """
    weights = open_weights(base)
    names = tensor_names(weights)
    shapes = {one: weights.shape(one) for one in names}
    rank = min(RANK, *(min(shape) for shape in shapes.values()))
    key = key_text(public_of(new_key()))  # nobody seals: the numbers stay in this process
    privacy = privacy_for(
        config.privacy_epsilon, config.privacy_delta, CLIP, secrets.token_hex(32), key
    )
    coding = SoupCoding(
        Base(identity=identity(weights, names), model=name),
        tuple(Tensor(name=one, shape=shapes[one]) for one in names),
        "lowrank",
        Caps(file_bytes=1 << 40, rank=rank, value=CLIP),
        base,
    )
    return PrivateSoup(coding, privacy)
