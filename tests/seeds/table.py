"""The published blocks that are run: what each needs besides its text, and its outcome."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADAPTER = "output/qwen3-lora/adapter_model.safetensors"


@dataclass(frozen=True)
class Python:
    """A block of Python.

    Attributes:
        number: the letter of its text and the place of its fence.
        prelude: code that defines what the block leaves open.
        after: code that checks what it did.
        refused: a part of the error that it ends with; None if it succeeds.
    """

    number: str
    prelude: str = ""
    after: str = ""
    refused: str | None = None


@dataclass(frozen=True)
class Command:
    """A command of a shell block, whose program is zoo-gym.

    Attributes:
        number: the block.
        place: the place of the command in it, from 1.
        more: further arguments, for what it leaves open.
        makes: files that it makes.
        says: what it prints to stderr.
        refused: a part of the error of a command that is refused.
    """

    number: str
    place: int
    more: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True)
class Settings:
    """A block of YAML, given to `zoo-gym train --config`; the attributes are those of a command."""

    number: str
    more: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    refused: str | None = None


MODELS = """
from transformers import AutoModelForCausalLM, AutoTokenizer
from zoo.models import resolve
folder = resolve("Qwen/Qwen3-4B", offline=True).folder
model = AutoModelForCausalLM.from_pretrained(folder)
ref_model = AutoModelForCausalLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
train_dataset = [{"prompt": f"{n} + 1 =", "answer": n + 1} for n in range(4)]
eval_dataset = {"prompt": ["7 + 1 =", "8 + 1 ="], "answer": [8, 9]}
def reward_fn(query, response):
    return float(len(response) % 3)
"""
"""The models, data and reward that the blocks of GRPO leave open."""

TRAINED = """
from zoo.gym.jobs import open_run, read_status
assert read_status(open_run("last")).state == "done"
assert model.state_dict().keys() == ref_model.state_dict().keys()
"""

LESSONS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.chat_server import ChatServer
from tests.gym.experience.causal import World, tasks
from zoo.gym.experience.providers.table import change_provider
world = World()
def respond(body, _):
    turns = body["messages"]
    return world.answer(turns, body.get("seed", 0)) if "TASK" in str(turns) else "x = 4"
server = ChatServer(respond)
change_provider("deepseek", {{"url": server.url}})
rows = [(one.messages[0].content, one.answer) for one in tasks(100, 0)]
problems = {{"prompt": [text for text, _ in rows], "answer": [answer for _, answer in rows]}}
class Rows:
    def __getitem__(self, some):
        return {{key: column[some] for key, column in problems.items()}}
dataset = math_problems = Rows()
query = rows[0][0]
def reward_fn(query, response, answer):
    return float(response == f"used strategy-{{answer}}")
"""
"""A server of deepseek on this machine, whose model learns from lessons, and tasks for it."""

LEARNED = """
server.close()
assert experiences.verdict == "proven" and 8 <= len(experiences) <= 12, experiences.metrics
"""

SOUP = (
    MODELS
    + """
import torch
def changed(seed):
    torch.manual_seed(seed)
    own = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        for name, weight in own.named_parameters():
            if ".layers." in name and weight.ndim == 2:
                weight.add_(0.01 * torch.randn_like(weight))
    return own
model_alice, model_bob = changed(1), changed(2)
"""
)
"""Two fine-tunes in memory."""

PYTHON = (
    Python(
        "A4",
        prelude=SOUP,
        after="""
assert rewards == {'alice': 500, 'bob': 500}
assert aggregated_model.report["usable"] is False and aggregated_model.delta.header.privacy
""",
    ),
    Python("B3", after="assert config.method == 'byzantine_robust' and config.enable_rewards"),
    Python("B8", prelude=SOUP + "config = None", refused="got 2 of 3"),
    Python(
        "D4",
        after=f"""
from pathlib import Path
from zoo.gym.jobs import open_run, read_status
assert Path("{ADAPTER}").is_file()
assert read_status(open_run("last")).state == "done"
assert [one.key for one in training_args.without_effect] == ["template"]
""",
    ),
    Python(
        "C2",
        prelude="K = 5; rewards = [1.0, 0.0, 1.0, 0.0, 1.0]",
        after="""
import numpy as np
from zoo.gym.objectives.advantages import group_advantages
ours = group_advantages(np.array([rewards]), "none")[0]
assert np.allclose(ours, advantages) and np.allclose(ours, [0.4, -0.6, 0.4, -0.6, 0.4])
""",
    ),
    Python(
        "C8",
        prelude=MODELS,
        after=TRAINED
        + 'import os; assert os.path.isfile("trained_model/adapter_model.safetensors")',
    ),
    Python("A2", prelude=LESSONS, after=LEARNED + 'assert response.startswith("used strategy-")'),
    Python("C9", prelude=LESSONS, after=LEARNED),
    Python(
        "C11",
        prelude=MODELS + "from zoo.gym import GRPOConfig, GRPOTrainer; config = GRPOConfig()",
        after="def parse_answer(text): return text[:1]\ntrainer.train(train_dataset)" + TRAINED,
    ),
    *(
        Python(number, prelude="from zoo.gym import GRPOConfig", after=f"assert {after}")
        for number, after in (
            ("C12", "config.group_size == GRPOConfig().group_size == 5"),
            ("C13", "(config.temperature, config.temperature_eval) == (0.9, 0.1)"),
            ("C14", "config.beta == 0.5"),
        )
    ),
    Python(
        "C15",
        prelude=MODELS + "from zoo.gym import GRPOConfig",
        after=TRAINED
        + 'import os; assert os.path.isfile("compressed_model/model.delta.safetensors")',
    ),
)

COMMANDS = (
    Command("C10", 1, refused="reward: auto needs an answer in every row"),
    Command(
        "D3",
        2,
        makes=(ADAPTER,),
        says=(
            "'Qwen/Qwen3-4B-Instruct' is now published as 'Qwen/Qwen3-4B-Instruct-2507'",
            "without effect: template",
        ),
    ),
)

FILES = (
    Settings(
        "E4",
        more=("dataset=alpaca_en_demo",),
        says=("without effect: do_train",),
    ),
    Settings(
        "E5",
        more=("dataset=alpaca_en_demo",),
    ),
    Settings(
        "B9",
        more=("dataset=alpaca_en_demo",),
        refused="quantization: training towards a delta of few bits is not",
    ),
    Settings(
        "B10",
        more=("dataset=alpaca_en_demo", "model_name_or_path=zen-pico", "num_processes=2"),
        says=("without effect: distributed: backend",),
    ),
    Settings(
        "E6",  # its Qwen/Qwen3-7B was never published
        more=("dataset=alpaca_en_demo", "model_name_or_path=Qwen/Qwen3-4B"),
    ),
)
