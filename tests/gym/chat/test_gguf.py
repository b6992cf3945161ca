"""A GGUF file as a model of a chat, of lessons, and as a judge."""

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.codes import raises
from tests.models.gguf.adapters import write_adapter
from zoo.backends.sampling import Sampling
from zoo.gym import generate
from zoo.gym.chat import open_chat
from zoo.gym.config.reward import JudgeSettings
from zoo.gym.data import Message
from zoo.gym.errors import NotAvailableError
from zoo.gym.experience.local import Local
from zoo.gym.rewards.models.judge import Judge
from zoo.gym.rewards.reward import Sample, Task

PROMPT = "Once upon a time"


@pytest.fixture
def file(shared: Callable[[str], Path]) -> Path:
    pytest.importorskip("xllamacpp")
    return shared("data/models/stories260K.gguf")


def test_a_file_answers_as_the_same_model_in_safetensors(
    file: Path, shared: Callable[[str], Path]
) -> None:
    prompts = [PROMPT, "Tom had"]
    theirs = generate(shared("data/models/stories260K"), prompts, max_new_tokens=30)
    assert generate(file, prompts, max_new_tokens=30) == theirs


def test_an_adapter_in_gguf_changes_the_answers(file: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "ann.gguf", file, 1)
    base, tuned = (
        generate(file, [PROMPT], adapter=each, max_new_tokens=9) for each in (None, adapter)
    )
    assert base != tuned


def test_a_fine_tune_of_another_form_is_refused(file: Path, tmp_path: Path) -> None:
    with raises("chat.not_in_gguf"):
        generate(file, [PROMPT], adapter=tmp_path)


def test_a_file_is_a_model_of_lessons(file: Path) -> None:
    model = Local(str(file))
    model.check()
    with model.open() as chat:
        reply = chat.attempt([{"role": "user", "content": PROMPT}], Sampling(max_new_tokens=5))
    assert reply.text == ", there was a little"
    assert reply.usage is not None
    assert (reply.finish, reply.usage.completion_tokens) == ("length", 5)


def test_a_file_can_judge(file: Path) -> None:
    settings = JudgeSettings(model=str(file), max_new_tokens=5, prompt="$response")
    with closing(Judge(settings)) as judge:
        score = judge.score([Sample(Task((Message("user", "q"),)), PROMPT)])[0]
    assert 'the judge gave no score: ", there was a little' in score.reason


def test_without_llama_cpp_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with (
        pytest.raises(NotAvailableError, match="extra llamacpp") as error,
        open_chat(tmp_path / "model.gguf"),
    ):
        pass
    assert "xllamacpp" in str(error.value.hint) or "[llamacpp]" in str(error.value.hint)
