"""Private rounds: sealed contributions that one machine clips and adds up, with noise."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.rounds.kind import Choices, Fields, FineTune, Prints, Request, Shown
from zoo.gym.rounds.kinds.weights import OfWeights, WeightsRound, show_delta
from zoo.gym.rounds.protocol.privacy import check_private_round, privacy_of

if TYPE_CHECKING:
    from zoo.gym.rounds.compute.private import PrivateResult
    from zoo.gym.rounds.compute.verify import Check
    from zoo.gym.rounds.privacy.contribution import Written
    from zoo.gym.rounds.privacy.ledger import Spending
    from zoo.gym.rounds.protocol.manifest import Manifest
    from zoo.gym.rounds.session.contributing import Prepared
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.signing import OwnKey, PublicKey, Signed


class PrivateRound(OfWeights["PrivateResult"]):
    """A round that promises each contributor differential privacy."""

    sends = "weights, sealed to the round's maker,"
    is_open = False
    coded = "values"  # sealing differs each time
    fixes_training = True
    void_note = "the key that opened its contributions is deleted from this machine"
    without_effect: ClassVar[Mapping[str, Mapping[str, str]]] = {
        **WeightsRound.without_effect,
        "aggregate": {"ray": "a private round: one machine opens and adds up"},
        "verify": {"measure": "a private round, which no gate measures"},
    }

    def check(self, manifest: "Manifest") -> None:
        """Refuses terms that break the promise."""
        super().check(manifest)
        check_private_round(manifest, privacy_of(manifest))

    def code(self, manifest: "Manifest", source: FineTune, out: Path) -> "Written | None":
        """Writes whole numbers, which stay on this machine."""
        from zoo.gym.rounds.privacy.contribution import write_values

        return write_values(source.source, source.base, manifest, privacy_of(manifest), out)

    def seal(self, manifest: "Manifest", round_: str, key: "PublicKey", folder: Path) -> None:
        """Seals the numbers to the round's key."""
        from zoo.gym.rounds.privacy.contribution import seal_file
        from zoo.gym.rounds.privacy.sealing import info_for

        info = info_for(round_, str(key))
        seal_file(folder / self.coded, privacy_of(manifest).key, info, folder / self.file)

    def check_file(self, path: Path, manifest: "Manifest") -> None:
        """Refuses a file of another size: nobody but the maker can say more."""
        from zoo.gym.rounds.privacy.contribution import check_sealed

        check_sealed(path, manifest)

    def spending(self, manifest: "Manifest") -> "Spending | None":
        """Returns epsilon, delta and noise of the round."""
        from zoo.gym.rounds.privacy.ledger import Spending

        privacy = privacy_of(manifest)
        return Spending(privacy.epsilon, privacy.delta, privacy.noise)

    def contribute(
        self, opened: "Opened", request: Request, key: "OwnKey", out: Prints
    ) -> "tuple[Prepared, Signed, Fields]":
        """Seals a fine-tune, and says what is left of it and what that spends."""
        from zoo.gym.rounds.privacy.ledger import all_spent

        prepared, entry, _ = super().contribute(opened, request, key, out)
        assert prepared.written, "a private round keeps what became of it"
        assert prepared.spends, "and what it spends"
        left, spends = prepared.written, prepared.spends
        out.answer(
            f"kept in the round's factors: {left.kept:.1%} of the squared norm; norm "
            f"{left.norm:.3g}, clipped to {left.clipped:.1%} of it"
        )
        history = "nothing before"
        for earlier in all_spent(str(key.public), but=opened.state.id):
            rounds = counted(earlier.rounds, "round")
            history = (
                f"before, in {rounds}, epsilon {earlier.epsilon:.3g} at delta {earlier.delta:g}"
            )
        spent = f"epsilon {spends.epsilon:g} at delta {spends.delta:g}"
        out.answer(f"this round spends {spent}; {history}")
        private = {**vars(left), "epsilon": spends.epsilon, "delta": spends.delta}
        return prepared, entry, {"private": private}

    def publish(self, opened: "Opened", key: "OwnKey", choices: Choices) -> "PrivateResult":
        """Draws the noise and publishes the noisy mean, once."""
        from zoo.gym.rounds.compute.private import publish_private

        force, void, threads = choices.force, choices.void, choices.threads
        return publish_private(opened.storage, key, force=force, void=void, threads=threads)

    def show(self, result: "PrivateResult", opened: "Opened", out: Prints) -> Shown:
        """Prints the result and what it promises."""
        from zoo.gym.rounds.compute.result import stored_file
        from zoo.gym.rounds.privacy.promise import in_words

        count = len(result.report["contributions"])
        promised = _promised(opened.manifest, count)
        useless = promised["noise_to_signal"] > 1
        fields = show_delta(
            out,
            result.delta.path,
            stored_file(result.report),
            rule={**result.report["rule"], "f": 0},
            count=count,
            lines=in_words(promised),
            refused=result.refused,
            warnings=["more noise than signal: of no use"] if useless else [],
        )
        return {**fields, "privacy": promised}, None

    def checks(self, opened: "Opened", folder: Path, threads: int | None) -> "Iterator[Check]":
        """Yields what can be checked without the round's key."""
        from zoo.gym.rounds.compute.private import private_checks

        del threads
        return private_checks(opened, folder)

    def rewards(self, opened: "Opened", folder: Path) -> tuple[str, Mapping[str, int]]:
        """Returns equal parts."""
        from zoo.gym.rounds.compute.private import checked_points
        from zoo.gym.rounds.compute.result import BY_WEIGHT
        from zoo.gym.rounds.compute.verify import published_report

        del folder
        return BY_WEIGHT, checked_points(opened.state, published_report(opened))

    def _say_verified(self, summary: str, opened: "Opened", out: Prints) -> None:
        """Prints what nobody can verify of a result, and how much noise it has."""
        out.answer(f"verified but for its numbers; {summary}")
        out.answer(
            "its contributions are sealed and its noise is secret: nobody can compute its numbers "
            "again"
        )
        ratio = self.promise(opened)["noise_to_signal"]
        noise = f"the noise is {ratio:.3g} times the norm of what all contributors can agree on"
        if ratio > 1:
            out.say(f"warning: of no use: {noise}")
        else:
            out.answer(noise)

    def forget(self, manifest: "Manifest") -> None:
        """Deletes the key that opens the contributions."""
        from zoo.gym.rounds.privacy.sealing import forget_round_key

        forget_round_key(privacy_of(manifest).key)

    def promise(self, opened: "Opened") -> dict[str, Any]:
        """Returns the promise with those who count, or as many as the round needs."""
        count = max(opened.manifest.quorum, len(opened.state.accepted))
        return _promised(opened.manifest, count)

    def training(self, manifest: "Manifest") -> dict[str, object]:
        """Returns the settings of a run that trains B alone, on the A of the round."""
        from zoo.models.adapters import WEIGHT

        names = [tensor.name for tensor in manifest.tensors]
        strange = next((name for name in names if not name.endswith(WEIGHT)), None)
        if strange is not None:
            raise InputError(
                f"round: expected weights of layers, got {strange!r}", code="rounds.other_tensors"
            )
        return {
            "model_name_or_path": manifest.base.model,
            "finetuning_type": "lora",
            "lora_rank": manifest.caps.rank,
            "lora_target": ",".join(name.removesuffix(WEIGHT) for name in names),
            "lora_fixed_a": privacy_of(manifest).seed,
            "base_identity": manifest.base.identity,
        }

    def refuse_as_earlier(self, manifest: "Manifest") -> None:
        """Refuses a private round."""
        raise InputError(
            "--after: expected a round with standings, got a private one",
            code="rounds.no_standings",
        )


def _promised(manifest: "Manifest", contributors: int) -> dict[str, Any]:
    from zoo.gym.rounds.privacy.contribution import values_of
    from zoo.gym.rounds.privacy.promise import described

    return described(privacy_of(manifest), values_of(manifest), contributors)
