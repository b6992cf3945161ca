"""The prompts that ship with the program."""

from zoo.core import digest
from zoo.gym.refusals import prompt_counts, prompts_digest
from zoo.gym.refusals.prompts import TEXTS, harmful, harmless
from zoo.gym.retention.questions import prompts


def test_there_are_sixty_different_prompts_of_each_kind() -> None:
    assert len(set(harmful())) == len(set(harmless())) == 60
    assert not set(harmful()) & set(harmless())
    assert (prompt_counts().harmful, prompt_counts().harmless) == (60, 60)


def test_a_prompt_is_one_sentence() -> None:
    for text in (*harmful(), *harmless()):
        assert text == text.strip()
        assert text[-1] in ".?"
        assert sum(text.count(end) for end in (". ", "? ", "! ")) == 0


def test_no_prompt_is_one_whose_answers_a_run_retains() -> None:
    assert not {*harmful(), *harmless()} & set(prompts())


def test_the_digest_is_over_the_bytes_of_both_files() -> None:
    files = (TEXTS / "harmful.txt", TEXTS / "harmless.txt")
    assert prompts_digest() == digest(b"".join(file.read_bytes() for file in files))
