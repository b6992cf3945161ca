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
    found: list[str] = []
    for match in _WORD.finditer(folded):
        word = match[0]
        is_run = match[1] is not None and len(word) > 2
        found += map("".join, pairwise(word)) if is_run else [word]
    return found


def shares_words(query: str, texts: Sequence[str]) -> bool:
    """Returns whether any text has a word of a query."""
    asked = set(words(query))
    return any(not asked.isdisjoint(words(text)) for text in texts)


def nearest(query: str, texts: Sequence[str], count: int) -> list[int]:
    """Returns the places of the texts that are most like a query, the most like first.

    Args:
        query: the text to compare with.
        texts: all texts.
        count: how many to return at most; of equal ones the earlier ones.
    """
    counts = [Counter(words(text)) for text in texts]
    lengths = [sum(one.values()) for one in counts]
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    score = [0.0] * len(texts)
    for word in sorted(set(words(query))):
        having = [place for place, one in enumerate(counts) if one[word]]
        if not having:
            continue
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for place in having:
            often = counts[place][word]
            size = _K1 * (1 - _B + _B * lengths[place] / max(mean, 1e-9))
            score[place] += rarity * often * (_K1 + 1) / (often + size)
    return sorted(range(len(texts)), key=lambda place: -score[place])[:count]
