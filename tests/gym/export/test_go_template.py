"""Chat templates in Go's language render as in Jinja, by Go itself where it is installed."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gym.export.conftest import MakeJob
from zoo.gym.data.own_tokenizer import TEMPLATE
from zoo.gym.data.templates import template_text
from zoo.gym.export.conversations import CONVERSATIONS
from zoo.gym.export.go_template import pieces_of
from zoo.models import pico_folder

Shared = Callable[[str], Path]
FILES = (
    "Qwen-Qwen2.5-7B-Instruct",
    "google-gemma-2-2b-it",
    "meta-llama-Llama-3.2-3B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
)
CHATS = [[replace(turn, content=turn.content.strip()) for turn in chat] for chat in CONVERSATIONS]


def _model(name: str, shared: Shared, folder: Path) -> Path:
    """Writes zen-pico with another chat template, which need not fit its tokens."""
    folder = folder / name
    shutil.copytree(pico_folder(), folder)
    if name in FILES:
        shutil.copyfile(shared(f"data/chat_templates/{name}.jinja"), folder / TEMPLATE)
    elif name == "qwen3":
        shutil.copyfile(shared("data/tokenizers/qwen3/chat_template.jinja"), folder / TEMPLATE)
    elif name != "zen-pico":
        (folder / TEMPLATE).write_text(template_text(name))
    return folder


NAMES = (*FILES, "qwen3", "zen-pico", "chatml", "llama3", "mistral", "gemma")


@pytest.mark.parametrize("name", NAMES)
def test_published_templates_are_texts_between_turns(
    name: str, shared: Shared, job: MakeJob, tmp_path: Path
) -> None:
    pieces, same = pieces_of(job(_model(name, shared, tmp_path)))
    assert same == (6 if "gemma-2" in name else 8)  # two have a system prompt, which it lacks
    assert pieces.render(CHATS[0]).endswith(pieces.ask)


@pytest.mark.slow
def test_go_renders_what_jinja_renders(shared: Shared, job: MakeJob, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    jobs, expected = [], []
    for name in NAMES:
        pieces, _ = pieces_of(job(_model(name, shared, tmp_path)))
        for chat in CHATS:
            if not pieces.takes_system and chat[0].role == "system":
                continue
            turns = [
                {"Role": turn.role, "Content": turn.content, "Thinking": turn.reasoning or ""}
                for turn in chat
            ]
            jobs.append({"Template": pieces.in_go(), "Messages": turns})
            expected.append(pieces.render(chat))
    program = Path(__file__).parent / "go/main.go"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GO111MODULE": "off"}
    done = subprocess.run(
        [go, "run", str(program)],
        input=json.dumps(jobs).encode(),
        capture_output=True,
        check=True,
        env=environment,
    )
    assert done.stdout.decode().split("\0")[:-1] == expected


def test_reasoning_that_is_switched_off_has_its_own_beginning(
    shared: Shared, job: MakeJob, tmp_path: Path
) -> None:
    pieces, _ = pieces_of(job(_model("qwen3", shared, tmp_path)))
    assert pieces.ask_without_thought is not None
    assert pieces.ask_without_thought.endswith("<think>\n\n</think>\n\n")
    assert "{{ if and $.IsThinkSet (not $.Think) }}" in pieces.in_go()


def test_what_looks_like_an_action_is_quoted(job: MakeJob, tmp_path: Path) -> None:
    template = tmp_path / "braces.jinja"
    template.write_text(
        "{% for m in messages %}{{ '{{' + m.role + '}}' + m.content + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '{{assistant}}' }}{% endif %}"
    )
    pieces, _ = pieces_of(job("zen-pico", template=str(template)))
    assert '{{ "{{user}}" }}' in pieces.in_go()
