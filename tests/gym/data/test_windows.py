"""Windows over a stream of tokens."""

from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.data.encode import windows


@given(st.integers(0, 300), st.integers(2, 40))
def test_every_token_but_the_first_is_learned_once(length: int, size: int) -> None:
    learned = [token for start, stop in windows(length, size) for token in range(start + 1, stop)]
    assert learned == list(range(1, length))


@given(st.integers(0, 300), st.integers(2, 40))
def test_no_window_is_longer_than_its_size_or_learns_nothing(length: int, size: int) -> None:
    assert all(2 <= stop - start <= size for start, stop in windows(length, size))
