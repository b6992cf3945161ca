"""`DeltaSoup`: the fine-tunes of named users become one delta, in this process.

    soup = DeltaSoup(DeltaSoupConfig())
    soup.contribute("alice", "runs/alice/result")
    soup.contribute("bob", model)
    soup.aggregate().apply_to(out="together")

There are no keys, no log and no held-out examples here: whoever runs the program decides who has
contributed. For contributors who do not trust each other there is `zoo-gym round`.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from zoo.core import digest
from zoo.gym.arguments import StrPath, instance_of, number_of, text_of, whole_of
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.published.soup.coding import coding_for, private_coding
from zoo.gym.published.soup.combining import combined
from zoo.gym.published.soup.config import DeltaSoupConfig
from zoo.gym.published.soup.contributors import Contribution, ContributorProfile, published_points
from zoo.gym.published.soup.private import drawn
from zoo.gym.published.soup.result import AggregateResult, Scratch
from zoo.gym.published.soup.sources import base_folder, source_of
from zoo.gym.rounds.contribution.write import write_contribution
from zoo.gym.rounds.privacy.contribution import write_values
from zoo.gym.rounds.privacy.promise import Wish
from zoo.gym.rounds.privacy.sealing import new_key
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.rounds.protocol.privacy import Privacy

if TYPE_CHECKING:
    from zoo.gym.delta.file.reader import Delta

MOST_EXAMPLES = 1 << 40
"""As in rounds: a larger number weighs as if nobody else had contributed."""


class DeltaSoup:
    """Combines the fine-tunes of several users.

    Args:
        config: the settings; by default `DeltaSoupConfig()`.
        base_model: the name or folder of the base; by default what the fine-tunes record.

    Raises:
        InputError: an argument has another type.
    """

    def __init__(
        self, config: DeltaSoupConfig | None = None, base_model: StrPath | None = None
    ) -> None:
        chosen = DeltaSoupConfig() if config is None else config
        hint = "DeltaSoupConfig(method='byzantine_robust')"
        self.config = instance_of("config", chosen, DeltaSoupConfig, hint=hint)
        self.profiles: dict[str, ContributorProfile] = {}
        self._base = None if base_model is None else base_folder(str(base_model), "base_model")
        self._scratch = Scratch()
        self._coding: Coding | None = None
        self._privacy: Privacy | None = None
        self._contributions: dict[str, Contribution] = {}
        self._result: AggregateResult | None = None

    def contribute(
        self,
        user_id: str,
        model: object,
        base_model: StrPath | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> str:
        """Adds the fine-tune of a user and returns a receipt, the digest of its coded change.

        Args:
            user_id: the user's name; each contributes once.
            model: a delta file, the folder of an adapter or of full weights, the result of a
                training, or a model of transformers or peft, which is not changed.
            base_model: the name or folder of its base; by default what it records.
            metadata: what is known of it, shown in the report; `examples`, a whole number, is the
                weight of `federated_average`.

        Raises:
            InputError: the user has contributed already, the model changes nothing or another base,
                or a value is not finite.
            NotAvailableError: model or base are not on this machine.
            StorageError: the coded change cannot be written.
        """
        user = self._new_user(user_id)
        stated = dict(instance_of("metadata", metadata or {}, dict))
        examples = (
            whole_of("metadata.examples", stated["examples"]) if "examples" in stated else None
        )
        if examples is not None and not 1 <= examples <= MOST_EXAMPLES:
            raise InputError(
                f"metadata.examples: expected 1 to 2^40, got {examples}",
                code="published.bad_argument",
            )
        folder = self._scratch.folder
        source, recorded = source_of(model, folder)
        file = folder / f"{len(self._contributions)}.safetensors"
        digest, more = self._coded(source, recorded, base_model, file)
        # In a private soup nothing that one user gave decides what another one reads here.
        earlier = () if self._privacy else self._contributions.values()
        if any(contribution.digest == digest for contribution in earlier):
            raise InputError(
                f"{user}: expected a fine-tune of its own, got that of another user",
                code="published.copy",
            )
        quality = self._quality(user, file)
        position = len(self._contributions)
        self._contributions[user] = Contribution(
            user, file, digest, position, examples, quality, {**stated, **more}
        )
        self._result = None
        return digest

    def contribute_bitdelta(self, user_id: str, delta: "Delta | StrPath") -> str:
        """Adds a delta file of a user, as `contribute` does."""
        path = getattr(delta, "path", delta)
        return self.contribute(user_id, path)

    def aggregate(self, min_contributors: int | None = None) -> AggregateResult:
        """Combines the contributions; more can follow, and be combined again.

        Args:
            min_contributors: fewer that are no copies raise an error; by default that of the
                settings.

        Raises:
            InputError: too few contributions, or the rule cannot use them.
            StorageError: the result, or the ledger of privacy, cannot be written.

        Warns:
            GymWarning: nothing malicious is withstood, a contribution does not count, or noise
                drowns a private soup.
        """
        least = self.config.min_contributors
        if min_contributors is not None:
            least = whole_of("min_contributors", min_contributors)
        count = len(self._contributions)
        if count < max(1, least):
            raise InputError(
                f"aggregate: expected at least {max(1, least)} contributors, got {count} of "
                f"{max(1, least)}",
                code="published.too_few",
            )
        if self._privacy is not None and self._result is not None:
            return self._result  # noise is drawn once
        coding, base, out = self._coding, self._base, self._scratch.new_result()
        assert coding is not None
        assert base is not None
        every = sorted(self._contributions.values(), key=lambda contribution: contribution.digest)
        if self._privacy is not None:
            delta, report = drawn(every, coding, self._privacy, out)
        else:
            delta, report = combined(every, coding, self.config, self.profiles, out, least)
        self._result = AggregateResult(delta, report, base, self._scratch)
        for sentence in self._result.report["warnings"]:
            warnings.warn(sentence, GymWarning, stacklevel=2)
        return self._result

    def calculate_rewards(self) -> dict[str, int]:
        """Returns the points of each contributor; they add up to the pool.

        By weight in the result, of which a quality below the threshold gets its part alone; with
        `reward_rule="published"` by quality and participation. Refused contributions get nothing.

        Raises:
            InputError: rewards are disabled, `aggregate` was not called since the last
                contribution, or the published rule has no qualities.
        """
        from zoo.gym.rounds.payouts.points import share_out

        config = self.config
        if not config.enable_rewards:
            raise InputError(
                "rewards: expected enable_rewards=True, got False", code="published.no_rewards"
            )
        if self._result is None:
            raise InputError(
                "rewards: expected a call of aggregate() before", code="published.no_rewards"
            )
        counted = {entry["user"]: entry["share"] for entry in self._result.report["contributions"]}
        everyone = dict.fromkeys(self._contributions, 0)
        if config.reward_rule == "published":
            qualities = {user: self._needed_quality(user) for user in counted}
            return everyone | published_points(
                qualities,
                config.reward_pool,
                quality_weight=config.quality_weight,
                participation_weight=config.participation_weight,
            )
        values = {user: share * self._discount(user) for user, share in counted.items()}
        return everyone | share_out(values, config.reward_pool)

    def save_aggregated_model(self, path: StrPath) -> Path:
        """Writes the base plus the aggregate as a model folder, combining first if need be.

        Raises:
            InputError: as `aggregate`; or the folder is not empty.
        """
        return (self._result or self.aggregate()).apply_to(out=path)

    def _new_user(self, user_id: str) -> str:
        user = text_of("user_id", user_id)
        if self._privacy is not None and self._result is not None:
            raise InputError(
                "contribute: expected a private soup without a result, got one that was drawn",
                hint="another one for more users: DeltaSoup(config)",
                code="published.drawn",
            )
        if not user:
            raise InputError(
                "user_id: expected a name, got an empty text", code="published.bad_argument"
            )
        if user in self._contributions:
            raise InputError(
                f"{user}: expected one contribution of each user, got another one",
                code="published.given_twice",
            )
        most = self.config.max_contributors
        if len(self._contributions) >= most:
            raise InputError(
                f"contributors: expected at most {most}, got one more", code="published.too_many"
            )
        return user

    def _coded(
        self, source: Path, recorded: str, base_model: StrPath | None, out: Path
    ) -> tuple[str, Mapping[str, JsonValue]]:
        """Writes a coded change; returns its digest, and what is to be said of it."""
        config, base = self.config, self._base_of(source, recorded, base_model)
        name = str(base_model or recorded or base)
        more: dict[str, JsonValue] = {}
        if config.differential_privacy:
            # Nobody seals to the key: the numbers stay in this process.
            wish = Wish(config.privacy_epsilon, config.privacy_delta)
            privacy = self._privacy or wish.terms(new_key())
            coding = self._coding or private_coding(base, name)
            written = write_values(source, base, coding, privacy, out)
            self._privacy, receipt = privacy, digest(out.read_bytes())
            more = {"kept": written.kept, "clipped": written.clipped}
        else:
            signs = config.use_bitdelta if "use_bitdelta" in config.model_fields_set else None
            coding = self._coding or coding_for(source, base, name, signs)
            receipt = write_contribution(source, base, coding, out).digest
        if self._coding is None:
            self._coding, self._base = coding, base
        return receipt, more

    def _base_of(self, source: Path, recorded: str, base_model: StrPath | None) -> Path:
        """Returns the folder of a fine-tune's base, which is that of the soup.

        Raises:
            InputError: nobody says which it is, or it is another one.
        """
        current = self._base
        if base_model is not None:
            folder = base_folder(str(base_model), "base_model")
        elif current is not None:
            return current
        elif recorded:
            folder = base_folder(recorded, "base_model")
        else:
            raise InputError(
                f"{source}: expected a fine-tune that records its base, got one without",
                hint="contribute(user_id, model, base_model=...)",
                code="published.no_base",
            )
        if current is not None and folder.resolve() != current.resolve():
            raise InputError(
                f"base_model: expected {current}, that of the soup, got {folder}",
                code="published.wrong_base",
            )
        return folder

    def _quality(self, user: str, file: Path) -> float | None:
        profile = self.profiles.setdefault(user, ContributorProfile(user))
        if self.config.quality_validator is None:
            return None
        quality = number_of("quality_validator", self.config.quality_validator(file))
        if not 0 <= quality <= 1:
            raise InputError(
                f"quality_validator: expected 0 to 1 for {user}, got {quality}",
                code="published.bad_quality",
            )
        profile.update_reputation(quality)
        return quality

    def _needed_quality(self, user: str) -> float:
        quality = self._contributions[user].quality
        if quality is None:
            raise InputError(
                "reward_rule: expected qualities for the published rule, got none",
                hint="DeltaSoupConfig(quality_validator=function, reward_rule='published')",
                code="published.no_rewards",
            )
        return quality

    def _discount(self, user: str) -> float:
        quality = self._contributions[user].quality
        return 1.0 if quality is None else min(1.0, quality / self.config.quality_threshold)
