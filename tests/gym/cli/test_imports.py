"""What a command loads before it has to: nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = (
    *("torch", "mlx", "transformers", "peft", "textual", "numpy", "sqlite_utils"),
    *("huggingface_hub", "safetensors", "datasets", "accelerate"),
)

PROGRAM = """
import sys
from zoo.gym.cli import main
code = main(sys.argv[1:])
print(",".join(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(code)
"""

COMMANDS = [
    *("--help", "--version", "runs", "train --help", "runs list --help", "delta create --help"),
    *("data inspect --help", "chat --help", "models --help", "demo --help", "doctor --help"),
    *("variants create --help", "variants list --help", "completion bash"),
    *("paths", f"train --model m --data {__file__} --print-config"),
]


def loaded(words: str) -> set[str]:
    """Returns the top-level modules that a command leaves in a fresh process."""
    argv = [sys.executable, "-c", PROGRAM, *words.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split(","))


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_loads_nothing_heavy(words: str) -> None:
    assert loaded(words) & set(HEAVY) == set()


def test_a_server_of_variants_does_without_their_index() -> None:
    program = "import sys, zoo.gym.cli.serve, zoo.gym.serving.run, zoo.gym.serving.routes"
    program += "; sys.exit('sqlite_utils' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_the_first_help_needs_no_parser(words: str) -> None:
    assert loaded(words) & {"cyclopts", "pydantic", "rich", "yaml"} == set()
