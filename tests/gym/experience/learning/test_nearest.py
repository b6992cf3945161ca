"""Texts by the words that they share."""

import pytest

from zoo.gym.data.records import Message
from zoo.gym.experience.learning.nearest import nearest, words
from zoo.gym.experience.learning.prompts import lessons_for, unmatched
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Task

TEXTS = ["the sum of two", "the sum of three", "the colour of snow", ""]


def test_rare_words_count_more_than_common_ones() -> None:
    assert nearest("The colour of snow: three?", TEXTS, 2) == [2, 1]
    assert nearest("the three", TEXTS, 1) == [1]


def test_without_a_shared_word_the_order_stays() -> None:
    assert nearest("unheard", TEXTS, 9) == [0, 1, 2, 3]
    assert nearest("any", [], 3) == []


def test_encodings_and_case_make_no_other_word() -> None:
    assert words("Cafe\u0301") == words("CAF\u00c9") == ["caf\u00e9"]
    assert words("\uff21\uff22 STRASSE") == words("ab stra\u00dfe")


@pytest.mark.parametrize(
    ("query", "texts", "expected"),
    [
        ("鞋子包裹放在哪里?", ["玩具包裹放在D架。", "书籍包裹放在C架。", "鞋子包裹放在B架。"], 2),
        ("おもちゃはどこ?", ["ほんはCへ。", "おもちゃはDへ。"], 1),
        ("รองเท้าอยู่ที่ไหน", ["หนังสือไปชั้น C", "รองเท้าไปชั้น B"], 1),
    ],
    ids=["zh", "ja", "th"],
)
def test_scripts_without_blanks_have_words(query: str, texts: list[str], expected: int) -> None:
    assert nearest(query, texts, 1) == [expected]


def test_the_names_of_roles_are_no_words_of_a_task() -> None:
    library = Library((Item("Thank the user politely."), Item("Toys go to shelf D.")))
    task = Task((Message("user", "Where do toys go?"),))
    assert [item.text for item in lessons_for(task, library, 1).items] == ["Toys go to shelf D."]


def test_it_is_said_if_no_lesson_shares_a_word() -> None:
    library = Library((Item("Toys go to shelf D."), Item("Books go to shelf C.")))
    task = Task((Message("user", "qqqq"),))
    assert unmatched(task, library, 1).startswith("no lesson shares a word with it")
    assert (unmatched(task, library, None), unmatched(task, library, 2)) == ("", "")
    assert unmatched(Task((Message("user", "books?"),)), library, 1) == ""
