"""Our client under the published method names: trains, answers, and takes part in rounds.

    client = Client(node_url="https://example.org/rounds/summer")
    client.contribute_improvement("alice", "zen-pico", improvement_data="my-adapter", send=True)

Nothing is sent without `send=True`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.gym.arguments import StrPath, instance_of, model_folder, path_of, text_of, whole_of
from zoo.gym.errors import InputError
from zoo.gym.published.local_chat import Chat

if TYPE_CHECKING:
    from zoo.gym.config.bitdelta import BitDeltaConfig
    from zoo.gym.config.values import Data
    from zoo.gym.jobs.run import RunResult
    from zoo.gym.published.grpo import GRPOConfig
    from zoo.gym.published.personalized import Variant
    from zoo.gym.published.soup.config import DeltaSoupConfig
    from zoo.gym.rounds.session.contributing import Prepared
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.rounds.storage.base import Storage
    from zoo.gym.signing import Signed

_READ = frozenset({"method", "min_contributors"})


@dataclass(frozen=True)
class Contributed:
    """What became of a contribution.

    Attributes:
        user_id: as it was given; a round knows contributors by their keys.
        round: the round's id.
        phase: what the round waited for.
        receipt: the name in the inbox; None if nothing was sent, now or before.
        digest: BLAKE3 of the file.
        bytes: its size.
        file: the coded contribution on this machine.
    """

    user_id: str
    round: str
    phase: str
    receipt: str | None
    digest: str
    bytes: int
    file: Path


@dataclass(frozen=True)
class CommunityResult:
    """The published result of a round.

    Attributes:
        round: the round's id.
        file: the result, a delta.
        digest: its BLAKE3.
        contributors: how many count.
        refused: reasons by key.
    """

    round: str
    file: Path
    digest: str
    contributors: int
    refused: Mapping[str, str]


class Client:
    """Trains models and variants, answers with them; takes part in a round, or runs one.

    Args:
        inference_mode: `local`: everything but the round runs on this machine.
        node_url: the round's address, folder, id or name; the only one seen here if None.

    Attributes:
        chat: answers as OpenAI's client does: `chat.completions.create(model=..., messages=[...])`.

    Raises:
        InputError: another mode.
    """

    def __init__(
        self, inference_mode: Literal["local"] = "local", node_url: str | None = None
    ) -> None:
        if inference_mode != "local":
            raise InputError(
                f"inference_mode: expected 'local', got {inference_mode!r}",
                code="published.bad_argument",
            )
        self.chat = Chat()
        self.node_url = None if node_url is None else text_of("node_url", node_url)

    def contribute_improvement(
        self,
        user_id: str,
        base_model: str,
        config: "DeltaSoupConfig | None" = None,
        improvement_data: StrPath | None = None,
        *,
        examples: int | None = None,
        send: bool = False,
    ) -> Contributed:
        """Commits to a fine-tune, and reveals it when called again in the next phase.

        After that phase nothing is sent: who revealed gets the receipt of it.

        Args:
            user_id: for you; it is not sent.
            base_model: the round's base, a name or a folder, which is on this machine.
            config: the rule that you expect; the round's terms have fixed it.
            improvement_data: a run's id, an adapter, a delta or a full model; by default the last
                run, and to reveal what you committed to: another one is refused then.
            examples: how many examples it was trained on; only `federated_average` takes them.
            send: send the commitment (a hash), or in the next phase the weights.

        Raises:
            InputError: the round is about another base or has another rule, or cannot take this.
            NotAvailableError: the round, the base or the fine-tune is missing, or it is too late.
            StorageError: something could not be sent.
        """
        from zoo.gym.rounds.protocol.state import Phase
        from zoo.gym.rounds.session.contributing import (
            check_examples,
            prepare,
            receipt_of,
            refuse_new,
            send_commitment,
            send_reveal,
        )
        from zoo.gym.rounds.session.contributing import reveal as prepared_reveal
        from zoo.gym.rounds.session.known_rounds import remember_round
        from zoo.gym.signing import own_key

        text_of("user_id", user_id)
        opened, key = self._opened(base_model, config), own_key()
        state, phase = opened.state, opened.state.phase
        refuse_new(opened, key.public)
        if phase is not Phase.COMMIT:
            contribution, entry = prepared_reveal(opened, key)
            if improvement_data is not None:  # another one is refused
                base = model_folder("base_model", base_model)
                prepare(
                    opened, _fine_tune(improvement_data), base, key, examples=contribution.examples
                )
            if examples not in {None, contribution.examples}:
                raise InputError(
                    f"examples: expected {contribution.examples}, as you committed, got {examples}",
                    code="published.other_examples",
                )
            act: Callable[[Prepared, Signed, Storage], str] = send_reveal
        else:
            base = model_folder("base_model", base_model)
            claimed = check_examples(opened.manifest, examples, "examples")
            source = _fine_tune(improvement_data)
            contribution, entry = prepare(opened, source, base, key, examples=claimed)
            act = send_commitment
        if send and phase in {Phase.COMMIT, Phase.REVEAL}:
            receipt: str | None = act(contribution, entry, opened.storage)
            remember_round(opened, used=True)
        else:
            receipt = receipt_of(opened, entry)
        return Contributed(
            user_id,
            state.id,
            phase.value,
            receipt,
            contribution.digest,
            contribution.bytes,
            contribution.file,
        )

    def train_grpo(
        self, base_model: str, dataset: "Data", config: "GRPOConfig | None" = None
    ) -> "RunResult":
        """Trains a model with GRPO; see `GRPOTrainer.train`.

        From pairs of a better and a worse answer a reward model learns first.
        """
        from zoo.gym.published.grpo import GRPOTrainer

        self.chat.completions.close()  # the base is not in memory twice
        return GRPOTrainer(base_model, config=config).train(dataset)

    def train_variant(
        self,
        user_id: str,
        base_model: str,
        dataset: "Data",
        config: "BitDeltaConfig | None" = None,
    ) -> "Variant":
        """Trains the variant of a user; see `PersonalizedTrainer.create_variant`."""
        from zoo.gym.published.personalized import PersonalizedTrainer

        self.chat.completions.close()
        return PersonalizedTrainer(base_model, config).create_variant(user_id, dataset)

    def aggregate_community_improvements(
        self, base_model: str, min_contributors: int | None = None, *, void: bool = False
    ) -> CommunityResult:
        """Computes and publishes the result of your round; a published one is computed again.

        Args:
            base_model: the round's base.
            min_contributors: fewer that count raise, and nothing is published; by default the
                round's quorum.
            void: make the round void, for good, if fewer contributions count than its quorum, or
                none has weight.

        Raises:
            GymError: the round is void now.
            InputError: too few, or the key is not that of the log.
            NotAvailableError: there is no round, or it is in another phase.
            StorageError: a file cannot be read or written.
        """
        from zoo.gym.rounds.compute.publish import publish
        from zoo.gym.signing import load_key

        opened = self._opened(base_model, None)
        least = 0 if min_contributors is None else whole_of("min_contributors", min_contributors)
        revealed = len(opened.state.reveals)
        if revealed < least:
            raise InputError(
                f"min_contributors: expected at least {least}, got {revealed} reveals in phase "
                f"{opened.state.phase}",
                hint="without min_contributors the round's quorum counts: "
                f"{opened.manifest.quorum}",
                code="published.too_few",
            )
        computed = publish(opened.storage, load_key(), void=void, least=least)
        report = computed.report
        refused = {str(digest): reason for digest, reason in report.refused.items()}
        return CommunityResult(
            opened.state.id,
            computed.delta.path,
            report.result.digest,
            len(report.counted),
            refused,
        )

    def _opened(self, base_model: str, config: "DeltaSoupConfig | None") -> "Opened":
        from zoo.gym.rounds.kind import kind_of
        from zoo.gym.rounds.session.known_rounds import find_storage, remember_round
        from zoo.gym.rounds.session.opening import open_round

        storage, expected = find_storage(self.node_url)
        opened = open_round(storage, expected=expected)
        remember_round(opened)
        hint = "zoo-gym round takes part in those of lessons"
        kind_of(opened.manifest).expect_weights(opened.manifest, "Client", hint)
        _check_base(opened, text_of("base_model", base_model))
        if config is not None:
            _check_config(opened, config)
        return opened


def _check_base(opened: "Opened", base: str) -> None:
    from zoo.gym.delta.reading.identity import identity
    from zoo.gym.delta.reading.weights import open_weights
    from zoo.models.resolve import is_path, is_same_model

    if is_path(base):
        names = [tensor.name for tensor in opened.manifest.tensors]
        digest = identity(open_weights(Path(base)), names)
        if digest != opened.manifest.base.identity:
            raise InputError(
                f"base_model: expected the base of the round, got another: {base}",
                code="published.wrong_base",
            )
        return
    named = opened.manifest.base.model
    if not is_same_model(named, base):
        raise InputError(
            f"base_model: expected {named}, the base of the round, got {base}",
            code="published.wrong_base",
        )


def _check_config(opened: "Opened", config: "DeltaSoupConfig") -> None:
    from zoo.gym.published.soup.config import DeltaSoupConfig

    soup = instance_of("config", config, DeltaSoupConfig)
    manifest = opened.manifest
    stated = {"method": manifest.method, "min_contributors": manifest.quorum}
    for name in sorted(soup.model_fields_set):
        if name not in _READ:
            raise InputError(
                f"config.{name}: expected none: the round's terms have fixed it",
                code="published.fixed_by_round",
            )
        if getattr(soup, name) != stated[name]:
            raise InputError(
                f"config.{name}: expected {stated[name]}, as the round's terms have it, got "
                f"{getattr(soup, name)}",
                code="published.fixed_by_round",
            )


def _fine_tune(fine_tune: StrPath | None) -> Path:
    from zoo.gym.tuned.source import resolve_tuned

    return resolve_tuned(
        "last" if fine_tune is None else str(path_of("improvement_data", fine_tune))
    ).path
