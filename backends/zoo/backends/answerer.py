"""What answers prompts: a policy, or an engine that only answers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zoo.backends.sampling import Prefix, Rollout, Sampling, TokenEvent, rollouts_of

if TYPE_CHECKING:
    from zoo.backends.batching import Batcher


class Answerer(ABC):
    """A model that continues tokens.

    Attributes:
        adapter: what requests to its batcher name its adapter; None where the weights have it.
    """

    adapter: str | None = None

    @abstractmethod
    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: Prefix | None = None,
    ) -> Iterator[TokenEvent]:
        """Continues each prompt and yields each token as it is sampled.

        Row i samples from a random stream seeded only by `keys[i]`, so an answer does not depend on
        the other prompts, except for the rounding of sums. Equal prompts are read once if the model
        can share them; see `notes`. Rows end independently. The tokens of a row come in their
        order, those of different rows in any, and rows that do not fit in memory together one batch
        after the other.

        A row ends with the token that is a stop id or whose text completes a stop string, or after
        `max_new_tokens`. That token is yielded as all before it, with its log-probability: text is
        cut by `before_stop`, ids are what was sampled.

        Until the last token, or until the iterator is closed, which frees what is kept of the rows,
        a policy must not be trained.

        Args:
            prompts: token ids, at least one each.
            sampling: how tokens are drawn, and where answers end.
            keys: the seed of each row.
            prefix: what `read_prefix` returned for the tokens that all prompts begin with; they
                are not read again. Each prompt has at least one more.

        Raises:
            ValueError: a prompt is empty or begins otherwise, the number of keys differs from that
                of prompts, the weights have changed since `read_prefix`, or stop strings are
                without `decode`.
        """

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: Prefix | None = None,
    ) -> list[Rollout]:
        """Returns the whole answers; see `stream`."""
        events = self.stream(prompts, sampling, keys=keys, prefix=prefix)
        return rollouts_of(events, len(prompts))

    def read_prefix(self, ids: Sequence[int]) -> Prefix | None:
        """Reads tokens that many prompts begin with, for `stream` and `generate`.

        Returns:
            None if the model cannot share them: prompts are then read in full.
        """
        del ids
        return None

    def batcher(
        self, *, rows: int, tokens: int, cache_bytes: int | None = None
    ) -> "Batcher | None":
        """Returns what answers requests that come and go, each with its own adapter.

        Until it is closed, the model must do nothing else.

        Args:
            rows: the most requests that are answered at once.
            tokens: the most tokens of a prompt and its answer.
            cache_bytes: the most memory of keys and values; one request alone may take more.
                None chooses it.

        Returns:
            None if the model cannot: requests are then answered one after the other.
        """
        del rows, tokens, cache_bytes
        return None
