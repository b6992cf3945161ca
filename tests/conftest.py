"""What all tests share: real files that may be absent, and a tokenizer of bytes."""

import getpass
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from zoo.gym.offline import OFFLINE

# how fast an example runs depends on who else uses the machine
ANY_MACHINE = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any-machine", ANY_MACHINE)
settings.register_profile("many", ANY_MACHINE, max_examples=1000)  # by night
settings.load_profile("any-machine")


AT_START = {name: os.environ.get(name) for name in OFFLINE}
"""What the tests were started with."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shared",
        metavar="PATH",
        default=None,
        help="folder of real models and data; a test whose file is not in it then fails "
        "(default: ../shared, where an absent file only skips the test)",
    )
    parser.addoption(
        "--update-golden", action="store_true", help="draw the golden screens anew (make golden)"
    )


def pytest_configure() -> None:
    # A job that a shell starts in the background has Ctrl-C switched off, and so would have every
    # program that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has those with the longest time limits start first: none is left alone at the end."""

    def limit_s(item: pytest.Item) -> float:
        mark = item.get_closest_marker("timeout")
        return float(mark.args[0]) if mark is not None and mark.args else 0.0

    items.sort(key=limit_s, reverse=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints which kernels this run could cover: those of other processors it could not."""
    from zoo.core import available_isas

    found = ", ".join(available_isas())
    terminalreporter.write_line(f"instruction sets covered: {found}")


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    """A command that ran in this process, for a test or for a fixture of many, leaves no trace."""
    restore_network()
    yield
    restore_network()


def restore_network() -> None:
    """Makes the hub as reachable as it was before the first test."""
    client = sys.modules.get("huggingface_hub.constants")
    for name, value in AT_START.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
        if client is not None:
            setattr(client, name, value == "1")


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """Finds a real file: `shared("data/sft/identity.json")`."""
    given: str | None = pytestconfig.getoption("--shared")
    root = pytestconfig.invocation_params.dir  # tests work in folders of their own
    folder = root / given if given else pytestconfig.rootpath.parent / "shared"

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists() and given is not None:
            pytest.fail(f"--shared {given}: {name} is not in it", pytrace=False)
        if not path.exists():
            pytest.skip(f"{path} is absent; name its folder with --shared")
        return path

    return find


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The folder of smollm2, fetched once for all runs; skips where the index does not have it."""
    home = Path(tempfile.gettempdir()) / f"zoo-gym-tests-{getpass.getuser()}" / "smollm2-b179c952"
    environment = {name: value for name, value in os.environ.items() if name not in OFFLINE}
    words = ["models", "get", "smollm2", "--yes", "--json"]
    result = subprocess.run(
        [sys.executable, "-m", "zoo.gym", *words],
        env=environment | {"ZOO_GYM_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 4:  # not available
        pytest.skip(result.stderr.strip().splitlines()[0])
    assert result.returncode == 0, result.stderr
    return Path(json.loads(result.stdout.splitlines()[-1])["folder"])


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A template as plain as they come."""


@pytest.fixture(scope="session")
def byte_tokenizer() -> Callable[..., Any]:
    """Makes a tokenizer of one token a byte, with ChatML's markers, `<s>` and `</s>`.

    Its arguments are a chat template (None: a model without one) and whether text starts with a
    token of its own.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    def make(template: str | None = CHATML, *, bos: bool = True) -> Any:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        markers = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
        tokenizer.add_special_tokens([AddedToken(m, special=True) for m in markers])
        fast: Any = PreTrainedTokenizerFast
        return fast(
            tokenizer_object=tokenizer,
            bos_token="<s>" if bos else None,
            eos_token="</s>",
            chat_template=template,
            name_or_path="tiny-bytes",
        )

    return make
