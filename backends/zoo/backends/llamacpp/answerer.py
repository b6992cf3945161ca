"""What a chat asks: answers to several prompts at once, all of one adapter or of the base."""

from collections.abc import Iterator, Sequence

from zoo.backends.answerer import Answerer
from zoo.backends.batching import Request
from zoo.backends.llamacpp.batcher import LlamaBatcher
from zoo.backends.sampling import Prefix, Sampling, TokenEvent


class LlamaAnswerer(Answerer):
    """A GGUF file, or an adapter on it.

    Args:
        batcher: the loaded file.
        adapter: the name of the adapter that answers; None for the base.
    """

    def __init__(self, batcher: LlamaBatcher, adapter: str | None = None) -> None:
        self._batcher, self.adapter = batcher, adapter

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: Prefix | None = None,
    ) -> Iterator[TokenEvent]:
        """Continues each prompt; a slot keeps what it has read, so there are no prefixes."""
        assert prefix is None, "read_prefix gives none"
        pairs = zip(prompts, keys, strict=True)
        requests = [Request(tuple(ids), sampling, key, self.adapter) for ids, key in pairs]
        return self._events([self._batcher.add(request) for request in requests])

    def _events(self, numbers: list[int]) -> Iterator[TokenEvent]:
        places = {number: place for place, number in enumerate(numbers)}
        try:
            while self._batcher.busy:
                for event in self._batcher.step():
                    yield event._replace(row=places[event.row])
        finally:
            for number in numbers:
                self._batcher.cancel(number)

    def batcher(self, *, rows: int, tokens: int, cache_bytes: int | None = None) -> LlamaBatcher:
        """Returns the batcher of the file, whose room was chosen when it was loaded."""
        del rows, tokens, cache_bytes
        return self._batcher
