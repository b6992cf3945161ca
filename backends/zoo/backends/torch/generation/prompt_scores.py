"""Log-probabilities of a prompt's tokens, a few at a time: all logits would not fit in memory.

Legend: T tokens, D hidden size, V vocabulary.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from zoo.backends.sampling import Scored
from zoo.backends.torch.generation.draws import tops_of

CHUNK = 64
"""The tokens whose logits are in memory at once."""


def scores_of(
    logits_of: Callable[[Tensor], Tensor], hidden_TD: Tensor, targets: Sequence[int], count: int
) -> list[Scored]:
    """Returns the score of the token after each hidden state.

    Args:
        logits_of: returns the float32 logits of hidden states, `[T, V]`.
        hidden_TD: the hidden states; one more than tokens is ignored.
        targets: the tokens.
        count: how many of the most likely tokens are reported with each.
    """
    scores: list[Scored] = []
    for start in range(0, len(targets), CHUNK):
        chosen = targets[start : start + CHUNK]
        logprobs_TV = logits_of(hidden_TD[start : start + len(chosen)]).log_softmax(-1)
        chosen_T1 = logprobs_TV.new_tensor(chosen).long()[:, None]
        logprobs = logprobs_TV.gather(-1, chosen_T1)[:, 0].tolist()
        tops = tops_of(logprobs_TV, count) or [()] * len(chosen)
        scores += zip(logprobs, tops, strict=True)
    return scores
