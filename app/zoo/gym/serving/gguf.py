"""Serves a GGUF file with llama.cpp: variants are LoRA adapters in GGUF, named at the start."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from zoo.backends.sampling import Sampling
from zoo.gym.chat.gguf import load_gguf
from zoo.gym.serving.engine import Engine
from zoo.gym.serving.run import ModelServer, ServeConfig
from zoo.gym.serving.variants import Asked, Models, NoSuchModelError


@dataclass
class GgufModels(Models):
    """A GGUF file and adapters on it; `base` is the folder with its tokenizer.

    Attributes:
        adapters: their files by name, which llama.cpp keeps in memory.
        tokens: the most tokens of a prompt and its answer.
    """

    adapters: Mapping[str, Path] = field(default_factory=dict[str, Path])
    tokens: int = field(kw_only=True)

    def __post_init__(self) -> None:
        """Reads the tokenizer."""
        super().__post_init__()
        self.positions, self.can_train = self.tokens, False

    @property
    def resident(self) -> tuple[int, int]:
        """How many adapters there are, and the bytes of their files."""
        return len(self.adapters), sum(file.stat().st_size for file in self.adapters.values())

    def ids(self) -> list[str]:
        """Returns the ids of the model and its variants."""
        return [self.name, *(f"{self.name}:{name}" for name in self.adapters)]

    def is_variant(self, name: str) -> bool:
        """Returns whether a name is that of an adapter."""
        return name in self.adapters

    async def _ask(self, model: str) -> Asked:
        if model == self.name:
            return self._base
        name = model.removeprefix(f"{self.name}:")
        if name not in self.adapters:
            raise NoSuchModelError(name)
        return replace(self._base, adapter=name)


class GgufServer(ModelServer):
    """Serves a GGUF file.

    Args:
        file: the file.
        adapters: LoRA adapters in GGUF by name.
        config: where it listens.
    """

    def __init__(self, file: Path, adapters: Mapping[str, Path], config: ServeConfig) -> None:
        super().__init__(file, file.stem, {}, config)
        self.adapters = adapters

    @property
    def variants(self) -> list[str]:
        """The adapters."""
        return sorted(self.adapters)

    def _models(self) -> Models:
        config = self.config
        loading = load_gguf(
            self.base, self.adapters, rows=config.rows, cache_bytes=config.cache_size
        )
        batcher, folder = self._open.enter_context(loading)
        engine = Engine(batcher, most=config.queue)
        return GgufModels(
            folder,
            self.name,
            engine,
            {},
            Sampling(temperature=1.0),
            template=config.template,
            adapters=self.adapters,
            tokens=batcher.tokens,
        )
