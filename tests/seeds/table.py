"""Every published block: what it needs besides its text and its outcome, or why it is not run.

A command that does not exist here is listed as absent, with its refusal. When it exists,
its test fails, and the block moves to those that are run.
"""

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
        only: the name of the calls that are run; all of the block if empty.
    """

    number: str
    prelude: str = ""
    after: str = ""
    refused: str | None = None
    only: str = ""


SAVED = """
import shutil
from zoo.models import pico_folder
shutil.copytree(pico_folder(), "saves/model")
"""


@dataclass(frozen=True)
class Command:
    """A command of a shell block, whose program is zoo-gym.

    Attributes:
        number: the block.
        place: the place of the command in it, from 1.
        prelude: Python code that is run before it.
        more: further arguments, for what it leaves open.
        makes: files that it makes.
        says: what it prints.
        refused: a part of the error of a command that is refused.
    """

    number: str
    place: int
    prelude: str = ""
    more: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True)
class File:
    """A file of settings or of examples, given to `zoo-gym train`.

    Attributes:
        name: what the file is called; the others are those of a command.
    """

    number: str
    name: str = "published.yaml"
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

OWN_ROUND = """
import sys, types
from pathlib import Path
from zoo.gym import TrainConfig, run_training
from zoo.gym.__main__ import main
from zoo.gym.client import Client
base = "Qwen/Qwen3-4B"
rows = TrainConfig(model_name_or_path=base, dataset="alpaca_en_demo", max_steps=1)
run_training(rows)
sys.modules["hanzo"] = types.SimpleNamespace(Hanzo=Client)
def gym(*words):
    sys.argv = ["zoo-gym", *words]
    try:
        assert main() in (0, None)
    except SystemExit as end:
        assert not end.code
gym("round", "create", "summer", "--base", base, "--out", "summer", "--offline")
sent = lambda: list(Path("summer/inbox").glob("*")) if Path("summer/inbox").exists() else []
"""
"""A round in a folder, and a run about the same base; the client has the published name."""

TEN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.protocol.people import person, terms
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.rounds.session.contributing import prepare, reveal, send_commitment, send_reveal
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.known_rounds import remember_round
from zoo.gym.rounds.session.writing import close_phase, create_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.signing import own_key
base = disk.write_model(Path("base"), disk.random_arrays(SHAPES, 0))
known = {{"identity": identity(open_weights(base), LAYERS), "model": "tiny", "revision": ""}}
tensors = [{{"name": name, "shape": list(SHAPES[name])}} for name in LAYERS]
caps = {{"file_bytes": 100_000, "rank": 64, "value": 10.0}}
key, storage = own_key(), FolderStorage(Path("ten").absolute())
method = {{"method": "byzantine_robust", "f": None, "quorum": 10, "most": 10}}
keys = [{{"role": "log", "key": str(key.public), "expires": "2027-01-01T00:00:00Z"}}]
create_round(storage, terms(base=known, tensors=tensors, caps=caps, keys=keys, **method), key)
people = [person(str(number)) for number in range(10)]
for number, who in enumerate(people, 1):
    source = fine_tune(Path(f"tuned{{number}}"), number)
    send_commitment(*prepare(open_round(storage), source, base, who), storage)
close_phase(storage, key)
for who in people:
    send_reveal(*reveal(open_round(storage), who), storage)
close_phase(storage, key)
remember_round(open_round(storage))
"""
"""A round of this user that ten people have revealed contributions to."""

ADAPTED = """
from zoo.gym import get_train_args, run_sft
base, out = "Qwen/Qwen3-4B-Instruct", "output/qwen3-lora"
settings = {"model_name_or_path": base, "dataset": "alpaca_en_demo", "output_dir": out}
run_sft(*get_train_args(settings | {"max_steps": 1}))
"""
"""An adapter in the folder that the blocks name."""

ROUND_TRIP = """
import torch
base_weight = torch.randn(1024, 1024)
weight = base_weight + 0.1 * torch.randn(1024, 1024)
signs, {0} = quantizer.quantize_delta(weight, base_weight, "layer.0.weight")
change = quantizer.dequantize_delta(signs, {0})
assert (change - (weight - base_weight)).abs().mean() < 0.05 and {1}
"""
"""A tensor of the size in published code, coded and decoded."""

USER = """
user_data = user_dataset = [{"prompt": f"Say {n}.", "completion": f"{n}."} for n in range(24)]
user_prefs = [{"prompt": f"Say {n}.", "chosen": f"{n}.", "rejected": "No."} for n in range(24)]
prompt = "Say 2."
"""
"""The data and the prompt that the blocks of variants leave open."""

PAIRS = """
preference_dataset = [
    {"prompt": f"Say {n}.", "chosen": f"{n}.", "rejected": "No."} for n in range(6)
]
"""
"""Rows of a better and a worse answer."""

HANZO = """
import sys, types
from zoo.gym.client import Client
sys.modules["hanzo"] = types.SimpleNamespace(Hanzo=Client)
"""
"""The published client is ours."""

PYTHON = (
    Python(
        "A3",
        prelude=USER,
        after="""
from zoo.gym import generate
from zoo.gym.delta import load_delta
from zoo.gym.variants.store import find
delta = load_delta(find("user_123").file)
assert {term.A for tensor in delta.header.tensors for term in tensor.terms} == {"sign"}
assert delta.file_bytes < 10_000_000 and isinstance(response, str)
assert response == generate("Qwen/Qwen3-4B", [prompt], delta=delta.path)[0]
""",
    ),
    Python(
        "B7",
        prelude=USER,
        after="""
from zoo.gym.jobs import open_run
from zoo.gym.train.run_folder.settings import read_settings
assert read_settings(open_run("last").config_file).stage == "dpo"
assert isinstance(trainer.serve_variant("user_123").generate(prompt, max_new_tokens=4), str)
""",
    ),
    Python(
        "A5",
        only="train_grpo",
        prelude=PAIRS + HANZO,
        after="""
from zoo.gym.jobs import open_run, read_status
assert read_status(open_run("last")).state == "done"
""",
    ),
    Python(
        "C16",
        prelude=PAIRS + HANZO,
        after="""
assert isinstance(response.choices[0].message.content, str)
assert response.model == "qwen3-4b-grpo" and response.usage.completion_tokens > 0
""",
    ),
    Python(
        "A5",
        only="train_variant",
        prelude=USER + HANZO,
        after="""
from zoo.gym.variants.store import find
assert find("user_123").file.is_file()
""",
    ),
    Python(
        "A5",
        only="contribute_improvement",
        prelude=OWN_ROUND,
        after="""
assert not sent()
entry = hanzo.contribute_improvement("alice", "qwen3-4b", send=True)
assert entry.receipt and len(sent()) == 1 and entry.file.is_file()
""",
    ),
    Python(
        "A4",
        prelude=SOUP,
        after="""
assert rewards == {'alice': 500, 'bob': 500}
assert aggregated_model.report["usable"] is False and aggregated_model.delta.header.privacy
""",
    ),
    Python("B1", after=ROUND_TRIP.format("scales", "signs.unique().tolist() == [-1, 1]")),
    Python(
        "B2",
        after="""
from zoo.gym.quantization import DeltaQuantizer
quantizer = DeltaQuantizer(config)
assert (config.bits, config.group_size) == (4, 128)
"""
        + ROUND_TRIP.format("params", "params['bits'] == 4"),
    ),
    Python(
        "B6",
        prelude="""
import functools, shutil, zoo.gym
shutil.copyfile("alpaca_en_demo", "alpaca_gpt4_en")
zoo.gym.TrainingConfig = functools.partial(zoo.gym.TrainingConfig, max_steps=1)
""",
        after="""
from pathlib import Path
from zoo.models.gguf.parts import open_gguf
assert "output_norm.weight" in open_gguf(Path("model.gguf")).tensors
assert Path("model.delta.safetensors").is_file()
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

ONE_STEP = ("dataset=alpaca_en_demo", "max_steps=1")
ON_PICO = ("model_name_or_path=zen-pico", "val_size=0", "max_steps=1")
ON_SUMS = ("dataset=data.jsonl", "max_steps=1")
ON_PAIRS = ("dataset=your_preference_dataset", "max_steps=1")

COMMANDS = (
    Command("A7", 1, more=("max_steps=1",), says=("reward = numeric",)),
    Command("A7", 2, more=("max_steps=1",), says=("Qwen/Qwen3-4B:user_123",)),
    Command("A7", 3, prelude=TEN, says=("all keys are new",)),
    Command("B5", 1, more=ON_SUMS),
    Command("C10", 1, more=("max_steps=1",), says=("1. a reward model learns from the pairs",)),
    Command(
        "D3",
        2,
        makes=(ADAPTER,),
        says=(
            "'Qwen/Qwen3-4B-Instruct' is now published as 'Qwen/Qwen3-4B-Instruct-2507'",
            "without effect: template",
        ),
    ),
    Command("D3", 3, prelude=ADAPTED, more=("--json",), says=('"prompt": "Hello"',)),
    Command("B5", 2, more=ONE_STEP),
    Command("B5", 3, more=("--port", "-1"), refused="--port: "),  # without that it serves
    Command("B5", 4, prelude=SAVED, makes=("saves/model-q8_0.gguf",)),
    Command("C18", 2, more=("max_steps=1",), says=("1. a reward model learns from the pairs",)),
    Command("C18", 3, more=("--port", "-1"), refused="--port: "),  # without that it serves
    Command("D3", 1, more=("--port", "-1"), refused="--port: "),
    Command("D3", 4, prelude=ADAPTED, more=("--port", "-1"), refused="--port: "),  # so does this
    Command("E2", 1, more=ONE_STEP),
    Command("E2", 2, more=ON_SUMS),
    Command("E2", 3, more=ON_PAIRS),
    Command("E3", 1, more=("--port", "-1"), refused="--port: "),
)

ABSENT_COMMANDS = (Command("C18", 1, refused="start"),)
"""Commands that do not exist here."""

FILES = (
    File("D5", name="published.json", more=ON_PICO),
    File("D6", name="published.json", more=ON_PICO),
    File("D7", name="published.json", more=ON_PICO, refused="images"),
    File("B11", more=ONE_STEP, refused="serving: "),
    File(
        "E4",
        more=("dataset=alpaca_en_demo",),
        says=("without effect: do_train",),
    ),
    File(
        "E5",
        more=("dataset=alpaca_en_demo",),
    ),
    File(
        "B9",
        more=("dataset=alpaca_en_demo", "max_steps=1"),
        says=("without effect: use_unsloth", "quantization: enable_deltasoup"),
    ),
    File(
        "B10",
        more=("dataset=alpaca_en_demo", "model_name_or_path=zen-pico", "num_processes=2"),
        says=("without effect: distributed: backend",),
    ),
    File(
        "E6",  # its Qwen/Qwen3-7B was never published
        more=("dataset=alpaca_en_demo", "model_name_or_path=Qwen/Qwen3-4B"),
    ),
)

INSTALLS = "it installs from the network: tests/house/test_install.py reads what is promised"
GO = "a Go program of another project, which does not compile"
AGENT = "prompts to an agent of another project"
COMMENTS = "comments only"
PRICES = "prices in prose"

NOT_RUN = {
    "A1": INSTALLS,
    "A6": GO,
    "A8": AGENT,
    "A9": "git, and the whole test suite",
    "B4": INSTALLS,
    "C1": "prose: answers of a model and their rewards, which C2 goes on with",
    "C3": "wrong: its ratio is against the reference model; tests/gym/objectives has ours",
    "C4": COMMENTS,
    "C5": PRICES,
    "C6": PRICES,
    "C7": INSTALLS,
    "C17": GO,
    "C19": AGENT,
    "C20": COMMENTS,
    "C21": COMMENTS,
    "C22": COMMENTS,
    "D1": "a tree of folders; ours is another",
    "D2": INSTALLS,
    "D8": "BibTeX",
    "E1": INSTALLS,
    "E7": "BibTeX",
}
"""Blocks with nothing to run, or nothing of ours, with the reason."""
