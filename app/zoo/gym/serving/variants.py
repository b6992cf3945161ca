"""The models that a server has: a base, and fine-tunes of it, which are read when asked for."""

import asyncio
import difflib
import hashlib
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.backends.batching import Signs, adapter_bytes
from zoo.backends.sampling import Sampling
from zoo.gym.config.stages import METHODS
from zoo.gym.data import EncodeOptions, Tokenizer, chat_stops
from zoo.gym.data.own_tokenizer import own_tokenizer
from zoo.gym.delta.file.header import WHOLE_BASE_KEY
from zoo.gym.delta.origin.record import joint_of_result
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.delta.sanity import warn_of_no_effect
from zoo.gym.engine import engine_for
from zoo.gym.errors import GymWarning, InputError, NotAvailableError
from zoo.gym.humanize import today
from zoo.gym.jobs import Run, run_folders
from zoo.gym.serving.wire import RequestError
from zoo.gym.tuned.changes import read_changes
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.source import Source, source_at, source_of_run
from zoo.gym.variants.store import NAME, files_in
from zoo.models.adapters import WEIGHT
from zoo.models.folder import model_positions, vocabulary_size

if TYPE_CHECKING:
    from zoo.backends.batching import Adapter, Change
    from zoo.gym.serving.engine import Engine

RESIDENT_BYTES = 1 << 30
"""The most bytes of adapters that are kept; those that were used longest ago leave."""

LIBRARY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(@[0-9]{1,9})?")
"""A library of lessons, with its version or without."""

MOST_COMPARED = 10_000
"""The most names that a wrong one is compared with: who asked waits for it."""

UNLIMITED = 1 << 20
"""Tokens of a text for a model whose config states no limit."""


class NoSuchModelError(NotAvailableError):
    """A name that a server does not have, or not for who asks.

    Attributes:
        name: the name as it was sent.
        param: the field that has it: `model` or `user_id`.
    """

    def __init__(self, name: str, param: str = "model") -> None:
        expected = "one of this server" if param == "model" else "the user of a variant"
        super().__init__(
            f"{param}: expected {expected}, got {name!r:.100}", code="serving.no_such_model"
        )
        self.name, self.param = name, param


@dataclass(frozen=True)
class Asked:
    """How a base or a variant is asked.

    Attributes:
        adapter: the name of its adapter in the engine; None for the base.
        tokenizer: its tokenizer, with its own chat template.
        options: how prompts are encoded.
        stop_ids: the tokens that end an answer.
        system: the system prompt that it was trained with; empty for none.
        lessons: returns what it reads behind the system prompt, for the words of the user.
    """

    adapter: str | None
    tokenizer: Tokenizer
    options: EncodeOptions
    stop_ids: tuple[int, ...]
    system: str = ""
    lessons: Callable[[str], str] = lambda _: ""


@dataclass
class Models:
    """A base and its variants.

    Attributes:
        base: the base's folder.
        name: what requests call it.
        engine: computes the answers.
        sources: variants that were named at the start.
        folder: has variants by their names, which may come and go: NAME.safetensors is a delta,
            a folder NAME an adapter.
        sampling: how answers are drawn if a request does not say.
        template: the chat template of all, in place of their own.
        can_train: whether fine-tuning jobs can train the base.
    """

    base: Path
    name: str
    engine: "Engine"
    sources: Mapping[str, Source]
    sampling: Sampling
    folder: Path | None = None
    template: str | None = None
    can_train: bool = field(default=True, init=False)
    positions: int = field(init=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _resident: OrderedDict[str, tuple[Asked, int]] = field(default_factory=OrderedDict, init=False)
    _runs: dict[tuple[str, str], bool] = field(
        default_factory=dict[tuple[str, str], bool], init=False
    )
    _verified: set[Hashable] = field(default_factory=set[Hashable], init=False)
    _names: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Reads the tokenizer of the base."""
        self.positions = model_positions(self.base) or UNLIMITED
        self._base = self._asked(None, None)

    @property
    def resident(self) -> tuple[int, int]:
        """How many variants are in memory, and how many bytes they have."""
        return len(self._resident), sum(size for _, size in self._resident.values())

    def ids(self) -> list[str]:
        """Returns the ids of all models: the base, variants named at the start, runs."""
        runs = [run.name or run.id for run in run_folders() if self._is_run_of_base(run)]
        names = dict.fromkeys([*self.sources, *files_in(self.folder), *runs])
        return [self.name, *(f"{self.name}:{name}" for name in names)]

    def hint(self, error: NoSuchModelError) -> str:
        """Returns the model that was probably meant, or where the list of them is.

        It has names of others: for the owner of a server alone.
        """
        ids = self.ids()[:MOST_COMPARED]
        prefix = f"{self.name}:"
        # compared without the base: two long names are not near because they begin with it
        known = {each.removeprefix(prefix).lower(): each for each in reversed(ids)}
        name = error.name[:300].partition("+")[0].lower().removeprefix(prefix.lower())
        close = difflib.get_close_matches(name, known, n=1)
        if not close:
            return f"GET /v1/models lists them; {self.name} is the base"
        meant = known[close[0]]
        return f"did you mean {meant.removeprefix(prefix) if error.param == 'user_id' else meant}?"

    async def ask(self, model: str, user: str | None = None) -> Asked:
        """Returns how a model is asked; a variant is read if it is not here.

        Args:
            model: `BASE`, `BASE:VARIANT` or `VARIANT`, a run by its id or name; behind it
                `+LIBRARY` for lessons, as they are now.
            user: the variant of the base that is asked.

        Raises:
            NotAvailableError: there is no such model or library.
            InputError: it cannot answer on this base.
            RequestError: `model` is another variant than `user`.
        """
        sent = model
        model, plus, library = model.partition("+")
        if user is not None:
            if model.removeprefix(f"{self.name}:") not in {self.name, user}:
                raise RequestError(
                    f"user_id: expected the base as model, or the variant of that user, got "
                    f"{user!r:.100} and model {model!r:.100}",
                    param="user_id",
                )
            model = f"{self.name}:{user}"
        try:
            asked = await self._ask(model)
        except NoSuchModelError:
            raise NoSuchModelError(*(sent,) if user is None else (user, "user_id")) from None
        if not plus:
            return asked
        lessons = await asyncio.to_thread(self._lessons, library)
        return replace(asked, lessons=lessons)

    def _lessons(self, library: str) -> Callable[[str], str]:
        from zoo.gym.experience.use import lessons_of

        if not LIBRARY.fullmatch(library):  # never a path
            raise NotAvailableError(
                f"model: expected the name of a library behind '+', got {library!r:.100}",
                hint="zoo-gym experience list has the names",
                code="serving.no_such_library",
            )
        text = lessons_of(library, self.name).text
        return text if callable(text) else lambda _: text

    async def _ask(self, model: str) -> Asked:
        if model == self.name:
            return self._base
        name = model.removeprefix(f"{self.name}:")
        source = await asyncio.to_thread(self._source, name)
        key = f"{name} ({await asyncio.to_thread(_version, source.path)})"
        async with self._reading:  # one that many ask for at once is read once
            if key not in self._resident:
                adapter, asked = await asyncio.to_thread(self._read, source, key)
                size = adapter_bytes(adapter)
                await self._make_room(size)
                await self.engine.add_adapter(key, adapter)
                await self._drop_replaced(name)
                self._resident[key] = (asked, size)
            self._resident.move_to_end(key)
            return self._resident[key][0]

    def _read(self, source: Source, key: str) -> "tuple[Adapter, Asked]":
        fresh = Source(source.artifact, source.path, source.run)  # its file may have been replaced
        return self._adapter(fresh), self._asked(fresh, key)

    async def _drop_replaced(self, name: str) -> None:
        """Frees what was read of a variant before its file was replaced."""
        for key in [key for key in self._resident if key.rpartition(" (")[0] == name]:
            del self._resident[key]
            await self.engine.remove_adapter(key)

    async def _make_room(self, size: int) -> None:
        while self._resident and size + self.resident[1] > RESIDENT_BYTES:
            key, _ = self._resident.popitem(last=False)
            await self.engine.remove_adapter(key)

    def _asked(self, source: Source | None, key: str | None) -> Asked:
        tuned = None if source is None else open_tuned(source, self.base)
        stored = None
        if source is not None and tuned is not None and source.artifact == "delta":
            stored = tuned.record.tokenizer
        if source is not None and source.artifact == "delta" and not (stored or self.template):
            tokenizer = self._base.tokenizer  # reading one takes longer than reading a delta
        else:
            path = None if source is None else source.path
            as_trained = own_tokenizer(self.base, path, self.template, stored)
            tokenizer = as_trained.tokenizer
            for note in as_trained.notes:
                warnings.warn(note, GymWarning, stacklevel=2)
        options = EncodeOptions(
            cutoff_len=self.positions,
            date=today(),
            vocabulary=vocabulary_size(self.base),
            joint=joint_of_result(self.base) if tuned is None else tuned.record.joint,
        )
        if tuned is not None and source is not None:
            tuned.warn_of_base()
            if source.artifact == "adapter":
                warn_of_no_effect(source.path)
            if tuned.record.system is None:
                warnings.warn(
                    f"{source.path}: it was trained with a system prompt that is not on this "
                    "machine: requests have to state it",
                    GymWarning,
                    stacklevel=2,
                )
        system = "" if tuned is None else tuned.record.system or ""
        return Asked(key, tokenizer, options, chat_stops(self.base, tokenizer, options), system)

    def _adapter(self, source: Source) -> "Adapter":
        """Returns what a variant changes, by the layers and parameters of the loaded model.

        Raises:
            InputError: a change is of a kind that rows of a batch cannot have of their own.
        """
        weights, belongs = open_weights(self.base), _base_of(source)
        changes = read_changes(source, weights, verifies=belongs not in self._verified)
        self._verified.add(belongs)
        self._names = self._names or engine_for(self.base).parameter_names(self.base)
        adapter: dict[str, Change] = {}
        for name in changes.names:
            change = changes.row_change(name)
            if change is None or name not in self._names:
                raise InputError(
                    f"{source.path}: expected low-rank changes of linear layers, or one bit a "
                    "weight with scales by row, column or matrix, got "
                    f"{changes.kind} with {name!r}",
                    hint="serve it alone: zoo-gym delta apply FILE --out MODEL, then "
                    "zoo-gym serve --model MODEL",
                    code="serving.not_low_rank",
                )
            parameter = self._names[name]
            # vectors are those of parameters: a layer has a bias beside its matrix
            is_matrix = isinstance(change, tuple | Signs)
            adapter[parameter.removesuffix(WEIGHT) if is_matrix else parameter] = change
        return adapter

    def is_variant(self, name: str) -> bool:
        """Returns whether a name is that of a variant, which a run of that name stands behind."""
        return name in self.sources or self._in_folder(name) is not None

    def _source(self, name: str) -> Source:
        return self.sources.get(name) or self._in_folder(name) or self._run(name)

    def _in_folder(self, name: str) -> Source | None:
        """Returns the delta NAME.safetensors, or the adapter NAME, of the folder of variants."""
        if self.folder is None or not NAME.fullmatch(name):
            return None
        path = self.folder / f"{name}.safetensors"
        if not path.is_file():
            path = self.folder / name
        return source_at(path) if path.exists() else None

    def _run(self, name: str) -> Source:
        missing = NoSuchModelError(name)
        if not name or any(char in name for char in "/\\") or name.startswith("."):
            raise missing
        named = (run for run in run_folders() if name in (run.id, run.name))
        run = next(filter(self._is_run_of_base, named), None) or self._newest(name)
        if run is None:
            raise missing
        return source_of_run(run)

    def _newest(self, name: str) -> Run | None:
        """Returns the newest run of the method in `<alias>-<method>`."""
        from zoo.gym.train.run_folder.settings import read_settings

        alias, _, method = name.rpartition("-")
        if method not in METHODS or not self._is_base(alias):
            return None
        of_base = filter(self._is_run_of_base, run_folders())
        return next(
            (run for run in of_base if read_settings(run.config_file).stage == method), None
        )

    def _is_base(self, name: str) -> bool:
        from zoo.models import resolve

        try:
            return name == self.name or resolve(name, offline=True).folder == self.base
        except (InputError, NotAvailableError):
            return False

    def _is_run_of_base(self, run: Run) -> bool:
        """Returns whether a run has a result that is an adapter of this base."""
        if not run.result.is_dir():  # it may have one later
            return False
        mark = (run.id, _version(run.result))  # the id of a removed run is given again
        if mark not in self._runs:
            self._runs[mark] = self._trained_on_base(run)
        return self._runs[mark]

    def _trained_on_base(self, run: Run) -> bool:
        try:
            source = source_of_run(run)
        except (InputError, NotAvailableError):
            return False
        is_adapter = source.artifact == "adapter"
        return is_adapter and source.base is not None and self._is_base(source.base)


def _base_of(source: Source) -> Hashable:
    """Returns what a source says of its base; equal for sources that belong to it alike."""
    if source.artifact != "delta":
        return source.path
    header = source.delta.header
    shapes = tuple((tensor.name, tensor.shape) for tensor in header.tensors)
    return header.base.identity, str(header.recipe.get(WHOLE_BASE_KEY)), shapes


def sampling_for(asked: Asked, drawn: Sampling) -> Sampling:
    """Returns settings with the stops and the tokenizer of a model."""
    return replace(drawn, stop_ids=asked.stop_ids, decode=asked.tokenizer.decode)


def vocabulary_of(asked: Asked) -> int:
    """Returns the number of tokens that a model has logits for."""
    return asked.options.vocabulary or asked.tokenizer.backend_tokenizer.get_vocab_size()


def _version(path: Path) -> str:
    """Returns what changes when a fine-tune is replaced, without its path: errors have it."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    marks = ((name, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_size) for name, s in stats)
    state = repr((str(path), list(marks)))
    return hashlib.sha256(state.encode()).hexdigest()[:12]
