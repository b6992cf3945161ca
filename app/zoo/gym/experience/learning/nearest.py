"""Ranks texts by the words that they share with another one: Okapi BM25, without a model.

Scripts without blanks between words (Chinese, Japanese, Thai, Lao, Burmese, Khmer) are compared by
pairs of characters, as is usual where there is no dictionary.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"([{_UNSPACED}]+)|[^\W{_UNSPACED}]+")
_K1, _B = 1.5, 0.75


def words(text: str) -> list[str]:
    """Returns the words of a text without case, whichever way its characters are encoded."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    tokens: list[str] = []
    for match in _WORD.finditer(folded):
        is_run = match[1] is not None and len(match[0]) > 2
        tokens += map("".join, pairwise(match[0])) if is_run else [match[0]]
    return tokens


def shares_words(query: str, texts: Sequence[str]) -> bool:
    """Returns whether any text has a word of a query."""
    return any(not set(words(query)).isdisjoint(words(text)) for text in texts)


def nearest(query: str, texts: Sequence[str], most: int) -> list[int]:
    """Returns the indices of the texts that are most like a query, the most like first.

    Of equal ones, the earlier ones come first.
    """
    counts = [Counter(words(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    score = [0.0] * len(texts)
    for word in sorted(set(words(query))):
        having = [n for n, count in enumerate(counts) if count[word]]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for n in having:
            times = counts[n][word]
            size = _K1 * (1 - _B + _B * lengths[n] / max(mean, 1e-9))
            score[n] += rarity * times * (_K1 + 1) / (times + size)
    return sorted(range(len(texts)), key=lambda n: -score[n])[:most]
