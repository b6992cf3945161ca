"""The app with a model of real size: zen-nano's shape, random weights, the real tokenizer."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.zen_nano import write_model
from tests.gym.jobs.left_over import kill_workers
from tests.gym.tui import fakes
from tests.gym.tui.test_terminal import Terminal
from zoo.models.registry import registry

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Path]
) -> Iterator[Terminal]:
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    tokenizer = shared("data/tokenizers/qwen3")
    write_model(Path(os.environ["HF_HUB_CACHE"]), entry, tokenizer=tokenizer, seed=0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr("tests.gym.tui.test_terminal.LIMIT_S", 900.0)
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.kill()
    kill_workers()


def test_a_model_of_real_size_is_trained_compared_and_compressed(terminal: Terminal) -> None:
    path = fakes.rows_file(terminal.folder)
    terminal.open_app()
    terminal.shows("None yet")
    terminal.keys("2")
    terminal.shows("zen-nano", "in the cache", "LoRA, 4-bit base")
    terminal.keys("j", "j")
    terminal.shows("596,049,920", "fits")
    terminal.keys("t")
    terminal.shows("new training")
    terminal.tmux("send-keys", "-l", str(path))
    terminal.keys("Enter")
    terminal.shows("40 examples; detected format:", "needs about", "q Quit")
    terminal.keys("BTab")
    terminal.tmux("send-keys", "-l", "max_steps=2 cutoff_len=64")
    terminal.shows("cutoff_len=64", "needs about")
    terminal.keys("C-s")
    terminal.shows("Done, step 2 of 2", "100%")
    terminal.keys("c")
    terminal.shows("base zen-nano", "run r0001", "Press w")
    terminal.keys("w")
    terminal.shows(absent="q Quit")
    terminal.tmux("send-keys", "-l", "spell bobi: ")
    terminal.keys("Enter")
    terminal.shows("> spell bobi:", "tok/s, first ", "Esc Stop", absent="waiting")
    terminal.keys("Escape")  # random weights would go on to the last token
    terminal.shows("stopped", "Esc Leave")
    terminal.keys("Escape")
    terminal.shows("q Quit")
    terminal.keys("6")
    terminal.shows("run, Qwen/Qwen3-0.6B")
    terminal.keys("c")
    terminal.shows("ctrl+s measures")
    terminal.keys("C-s")
    terminal.shows("Written with", "* --bits")
