"""The demo's words: made up, split by spelling, scored strictly."""

from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.demo.words import accuracy, backward, make_words


@given(train=st.integers(1, 300), unseen=st.integers(1, 50), seed=st.integers(0, 1000))
def test_no_unseen_word_is_learned_in_either_direction(train: int, unseen: int, seed: int) -> None:
    words = make_words(train, unseen, seed)
    learned = set(words.train) | {backward(word) for word in words.train}
    assert not learned & set(words.unseen)
    assert (len(set(words.train)), len(set(words.unseen))) == (train, unseen)


@given(seed=st.integers(0, 1000))
def test_words_have_three_to_five_letters_and_change_when_turned(seed: int) -> None:
    for word in make_words(50, 10, seed).train:
        assert 3 <= len(word) <= 5
        assert word.isalpha()
        assert backward(word) != word


def test_the_same_seed_gives_the_same_words() -> None:
    assert make_words(20, 5, 3) == make_words(20, 5, 3)
    assert make_words(20, 5, 3) != make_words(20, 5, 4)


def test_only_the_whole_word_backward_is_right() -> None:
    # 1 of 4: "abc" copied, "tac" with a tail, an empty answer and one right
    words = ["abc", "cat", "dog", "pin"]
    assert accuracy(words, ["abc", "tac!", "", "nip"]) == 0.25
