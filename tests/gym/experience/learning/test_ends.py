"""Answers that are cut, filtered or empty are counted, and said if there are many."""

import pytest

from zoo.backends.openai.reply import Reply
from zoo.gym.experience.calls.caller import TOO_LONG
from zoo.gym.experience.learning.answers import Ends, ended

WHOLE, CUT = Reply("a"), Reply("a", finish="length")
FILTERED, EMPTY = Reply("", finish="content_filter"), Reply(" ")


def test_each_kind_is_told_from_a_whole_answer() -> None:
    replies = [WHOLE, CUT, FILTERED, EMPTY, Reply("", finish=TOO_LONG)]
    assert list(map(ended, replies)) == [None, "cut", "filtered", "empty", None]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (CUT, "cut at 16 tokens: --max-new-tokens N allows more"),
        (FILTERED, "held back by the server's filter"),
        (EMPTY, "empty: if the model reasons first, --max-new-tokens N"),
    ],
)
def test_many_are_said_once_with_their_share(reply: Reply, words: str) -> None:
    sentences: list[str] = []
    ends = Ends(sentences.append)
    ends.add("rollout", [reply] * 3 + [WHOLE] * 27, 16)
    ends.add("rollout", [reply] * 30, 16)
    assert len(sentences) == 1
    assert sentences[0].startswith("rollout: 3 of 30 answers (10%) are ")
    assert words in sentences[0]
    kind = ended(reply)
    assert {key: one for key, one in ends.take().items() if one} == {kind: 33}
    assert set(ends.take().values()) == {0}


def test_few_are_not_said() -> None:
    sentences: list[str] = []
    ends = Ends(sentences.append)
    ends.add("rollout", [CUT] * 2, 16)
    ends.add("gate", [CUT] * 3 + [WHOLE] * 28, 16)
    assert sentences == []
