"""Many people's variants of one base, with objects, as in published examples.

    trainer = PersonalizedTrainer("zen-pico", BitDeltaConfig(bits=1))
    trainer.create_variant("user_123", rows)
    print(trainer.serve_variant("user_123", "Say 2."))

A variant is a low-rank delta, the factors of an adapter in few bits, in the store of `zoo-gym
variants`. All are answered on one copy of the base, in this process, without HTTP.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.arguments import StrPath, instance_of, path_of, text_of, whole_of
from zoo.gym.config import load_values
from zoo.gym.config.bitdelta import BitDeltaConfig
from zoo.gym.config.values import listed
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.humanize import counted, today
from zoo.gym.published.live_model import model_name

if TYPE_CHECKING:
    from zoo.gym.config.delta import DeltaConfig
    from zoo.gym.config.values import Data
    from zoo.gym.serving.variants import Models
    from zoo.models import Resolved


@dataclass(frozen=True)
class Variant:
    """A variant that was stored.

    Attributes:
        user_id: the name of its user.
        base: what its base is called in the store.
        file: the delta.
        bytes: its size.
        run: the run that trained it.
        recovered: the share of the fine-tune's gain that the delta keeps on rows that were held
            out; None if that was not measured, or there was no gain.
    """

    user_id: str
    base: str
    file: Path
    bytes: int
    run: str
    recovered: float | None


class PersonalizedServer:
    """Answers with variants of a base: `await server.infer("user_123", "Say 2.")`.

    It has the variants of the store of `zoo-gym variants`, and those that are loaded.

    Args:
        base_model: a model's name or folder on this machine.
        config: without effect: each delta records how it is coded.
        device: `cpu`, `cuda` or `mps`; by default the best one here.

    Raises:
        NotAvailableError: the base or the device is not here.
        InputError: an argument is wrong.

    Warns:
        GymWarning: a config is given.
    """

    def __init__(
        self, base_model: StrPath, config: BitDeltaConfig | None = None, device: str | None = None
    ) -> None:
        from zoo.gym.serving.run import MOST_QUEUED, ServeConfig, load_models
        from zoo.gym.variants.store import folder_of
        from zoo.models import resolve

        if config is not None:
            instance_of("config", config, BitDeltaConfig)
            warnings.warn(
                "config: without effect: each delta records how it is coded",
                GymWarning,
                stacklevel=2,
            )
        base = resolve(base_model, offline=True)
        device = None if device is None else text_of("device", device)
        self._models: Models = load_models(
            base.folder,
            base.id,
            {},
            folder_of(base.folder),
            ServeConfig(queue=MOST_QUEUED),
            device,
        )

    def load_variants(self, paths: Mapping[str, StrPath] | Iterable[StrPath]) -> None:
        """Adds deltas and adapters, which are read when they are first asked.

        Args:
            paths: files or peft folders, by the names of their users; without names, a file or
                folder is that of the user that it is named after.

        Raises:
            InputError: a name cannot be one, or a path is no low-rank fine-tune.
            NotAvailableError: a path is missing.
        """
        from zoo.gym.tuned.source import resolve_tuned
        from zoo.gym.variants.store import ENDING, check_name

        if isinstance(paths, str):
            raise InputError(
                f"paths: expected several, or names with paths, got the text {paths!r:.100}",
                code="published.bad_argument",
            )
        if not isinstance(paths, Mapping):
            several = [path_of("paths", path) for path in paths]
            paths = {path.name.removesuffix(ENDING): path for path in several}
            if len(paths) < len(several):
                raise InputError(
                    "paths: expected another file or folder name for each user, got one twice",
                    code="published.bad_argument",
                )
        sources = dict(self._models.sources)
        for user, path in paths.items():
            check_name(name := text_of("paths", user))
            sources[name] = resolve_tuned(str(path_of("paths", path)))
        self._models.sources = sources

    async def infer(
        self,
        user_id: str,
        prompt: str,
        max_new_tokens: int = 256,
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> str:
        """Answers a prompt with the variant of a user; many at once are answered together.

        Args:
            user_id: the name of the user.
            prompt: the user's turn.
            max_new_tokens: the maximum number of tokens in the answer.
            temperature: 0 takes the most likely token each time.
            seed: the sampling seed.

        Raises:
            NotAvailableError: there is no such variant.
            InputError: an argument is wrong, the prompt is too long, or the variant cannot be used.
        """
        from zoo.gym.chat.greedy import check_sampling
        from zoo.gym.chat.parts import LINE_END
        from zoo.gym.data import Message, encode_prompt
        from zoo.gym.serving.answers import Answer
        from zoo.gym.serving.variants import sampling_for

        sampling = check_sampling(max_new_tokens, temperature, whole_of("seed", seed))
        models = self._models
        reload = partial(models.ask, models.name, text_of("user_id", user_id))
        asked = await reload()
        if not text_of("prompt", prompt).strip():
            raise InputError("prompt: expected some text, got none", code="published.empty_prompt")
        system = [Message("system", asked.system)] if asked.system.strip() else []
        turns, options = [*system, Message("user", prompt)], replace(asked.options, date=today())
        ids = await asyncio.to_thread(encode_prompt, turns, asked.tokenizer, options)
        room = models.positions - len(ids)
        if room < 1:
            raise InputError(
                f"prompt: expected fewer than {models.positions} tokens, got {len(ids)}",
                code="published.prompt_too_long",
            )
        drawn = replace(sampling, max_new_tokens=min(sampling.max_new_tokens, room))
        answer = Answer(asked, reload, ids, sampling_for(asked, drawn), seed)
        async for _ in answer.pieces(models.engine):
            pass
        return answer.content.strip(LINE_END)  # as `generate` returns it

    def close(self) -> None:
        """Frees the model; answers that have not ended fail."""
        self._models.engine.close()


@dataclass(frozen=True)
class ServedVariant:
    """A variant that answers: `served.generate("Say 2.")`.

    Attributes:
        user_id: the name of the user.
        answer: answers a prompt, with settings of sampling.
    """

    user_id: str
    answer: Callable[[str, Mapping[str, Any]], str]

    def generate(self, prompt: str, **sampling: Any) -> str:  # noqa: ANN401 - as `infer` has them
        """Answers a prompt; see `PersonalizedServer.infer`."""
        return self.answer(prompt, sampling)


class PersonalizedTrainer:
    """Trains a variant of a base for each user, in this process, and answers with it.

    Args:
        base_model: a model's name or folder on this machine, or a model of transformers.
        config: how the factors of the adapters are coded; by default in one bit, which they are
            then trained in. Its `safety_threshold` is required of each variant.

    Raises:
        InputError: the settings are not for the factors of adapters.
        NotAvailableError: the base is not here.
    """

    def __init__(self, base_model: object, config: BitDeltaConfig | None = None) -> None:
        from zoo.gym.delta.codecs.options import choose_coding
        from zoo.models import resolve

        config = BitDeltaConfig() if config is None else config
        self.config = instance_of("config", config, BitDeltaConfig, hint="BitDeltaConfig(bits=1)")
        self._coding = self.config.as_delta(from_adapter=True)
        choose_coding(self._coding, from_adapter=True)  # refuses what is for full weights
        self._name = model_name(base_model)
        self._base: Resolved = resolve(self._name, offline=True)
        self._server: PersonalizedServer | None = None

    def create_variant(
        self,
        user_id: str,
        dataset: "Data | None" = None,
        *,
        preferences: "Data | None" = None,
        num_epochs: float | None = None,
        replace: bool = False,
    ) -> Variant:
        """Trains an adapter on the rows of a user, and stores its delta; both sizes are printed.

        Args:
            user_id: the name of the user: 1 to 64 of a-z, 0-9, '.', '_', '-'.
            dataset: rows of prompts and answers, or files of them; sft learns from them.
            preferences: rows or files of pairs, a better and a worse answer, in place of `dataset`;
                dpo learns from them.
            num_epochs: how often each row is learned; by default as `TrainConfig` says.
            replace: replace the variant of that name.

        Raises:
            InputError: there is not one kind of data, the name is taken, or the delta refuses less
                than `safety_threshold` allows.
            GymError: see `run_training`.

        Warns:
            GymWarning: notes on the rows and on the delta.
        """
        from zoo.gym.jobs.run import Run
        from zoo.gym.published.api import train_here
        from zoo.gym.variants.register import VariantSpec, add_run
        from zoo.gym.variants.store import require_free, stored_of

        if (dataset is None) == (preferences is None):
            raise InputError(
                "dataset: expected it or preferences, got "
                f"{'neither' if dataset is None else 'both'}",
                code="published.no_dataset",
            )
        stored = stored_of(self._base.folder, text_of("user_id", user_id))
        require_free(stored, replace=instance_of("replace", replace, bool))
        settings: dict[str, object] = {
            "model_name_or_path": self._name,
            "stage": "sft" if preferences is None else "dpo",
            "dataset": listed(dataset if preferences is None else preferences),
        }
        settings |= {} if num_epochs is None else {"num_train_epochs": num_epochs}
        settings |= {"delta_bits": 1} if self.config.bits == 1 else {}
        loaded = load_values(settings)
        print(_planned(self._base, stored.id, self._coding, loaded.config.lora_rank))
        self._close()  # the base is not in memory twice
        result = train_here(loaded.config, loaded.ignored)
        threshold = self.config.safety_threshold
        spec = VariantSpec(
            user=user_id, coding=self._coding, safety_threshold=threshold, replace=replace
        )
        made = add_run(Run(result.folder), spec)
        quality, size = made.report.quality, made.report.file_bytes
        print(f"{stored.id}: {size:,} bytes in {made.stored.file}")
        recovered = None if quality is None else quality.recovered
        return Variant(user_id, stored.base, made.stored.file, size, result.run, recovered)

    def serve_variant(
        self,
        user_id: str,
        prompt: str | None = None,
        **sampling: Any,  # noqa: ANN401 - as `infer` has them
    ) -> "str | ServedVariant":
        """Answers a prompt with the variant of a user, on a base that stays loaded.

        Args:
            user_id: the name of the user.
            prompt: the user's turn; None returns an object that answers prompts.
            sampling: see `PersonalizedServer.infer`.

        Raises:
            NotAvailableError: there is no such variant.
            InputError: see `PersonalizedServer.infer`.
        """
        if prompt is not None:
            return self._answer(user_id, prompt, sampling)
        from zoo.gym.variants.store import find, label_of

        if sampling:
            raise InputError(
                f"{next(iter(sampling))}: expected it beside a prompt",
                hint="serve_variant(user_id).generate(prompt, ...)",
                code="published.bad_argument",
            )
        find(f"{label_of(self._base.folder)}:{text_of('user_id', user_id)}")
        return ServedVariant(user_id, partial(self._answer, user_id))

    def _answer(self, user_id: str, prompt: str, sampling: Mapping[str, Any]) -> str:
        if self._server is None:
            self._server = PersonalizedServer(self._base.folder)
        answer = self._server.infer(user_id, prompt, **sampling)
        # in a thread of its own, as a notebook has a loop that runs
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, answer).result()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _planned(base: "Resolved", name: str, coding: "DeltaConfig", rank: int) -> str:
    """Returns the size of a variant's delta, and what that means."""
    from zoo.gym.delta.codecs.options import choose_coding
    from zoo.gym.delta.file.terms import TensorTerms
    from zoo.gym.delta.planning.base import plan_base
    from zoo.gym.delta.planning.plan import term_of
    from zoo.gym.delta.planning.sizes import payload_bytes

    plan = plan_base(str(base.folder))
    term = term_of(choose_coding(coding, from_adapter=True), rank)
    shapes = plan.linear.items()
    size = payload_bytes(TensorTerms(name=key, shape=shape, terms=(term,)) for key, shape in shapes)
    return (
        f"{name}: a low-rank delta of about {size:,} bytes: the factors of an adapter of rank "
        f"{rank}, {counted(coding.bits or 2, 'bit')} a value; one bit for each weight of the base, "
        f"a dense delta, would be {payload_bytes(plan.whole):,} bytes"
    )
