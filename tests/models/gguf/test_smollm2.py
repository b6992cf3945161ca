"""smollm2 as fetched from the package index, against gguf's own values and llama.cpp."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models.gguf.llama_cpp import LlamaCpp
from zoo.models import registry
from zoo.models.folder import count_parameters, model_geometry
from zoo.models.gguf.parts import open_gguf
from zoo.models.gguf.weights import dequantised

pytestmark = [pytest.mark.real, pytest.mark.slow]

ENTRY = next(entry for entry in registry() if entry.alias == "smollm2")
POSITIONS, LIKELIEST, CONTEXT = 200, 512, 32
HARD = [
    "",
    " ",
    "  a  b ",
    "\n\n\t",
    "1234567 3.14",
    "Zoë 日本語 😀",
    "don't I'LL",
    "<|im_start|>user\n",
]

PROSE = """
The old lighthouse stood at the end of the long stone pier, where the river met the sea. Every
evening, just before sunset, the keeper climbed the narrow stairs and lit the lamp, as his
father had done before him. In the village below, children ran home from school, and fishermen
mended their nets by the harbour wall. One winter night a storm came up from the west. The wind
tore at the roofs, and the waves broke over the pier. Far out on the water a small boat was
fighting its way toward the shore. The keeper saw its light rise and fall, and he knew that
without the lamp the crew would never find the entrance to the harbour. When the glass cracked
and the flame went out, he carried a lantern to the top of the tower and held it there until the
morning. The next day the whole village came to thank him. He only smiled and said that a light
is of no use unless somebody looks after it.
In the spring they painted the tower white again, and the keeper taught the
oldest of the children how to clean the glass and how to fill the lamp.
""".replace("\n", " ")
"""Plain English, as the model was trained on. In lines of this repository's README more of the
predictions are near ties, and llama.cpp's rounding of activations to 8 bits decides them:
186 of 200 were equal there, with a mean KL of 3.9e-3."""


@pytest.fixture(scope="session")
def smollm2_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The GGUF file of the package."""
    from zoo.core.errors import NotAvailableError
    from zoo.models.gguf import package as source

    command, wanted = source._installer(), ENTRY.package
    if command is None or wanted is None:
        pytest.skip("neither pip nor uv")
    folder = tmp_path_factory.mktemp("package") / "unpacked"
    folder.mkdir()
    try:
        source._unpack(ENTRY, wanted, command, folder)
    except NotAvailableError as error:
        pytest.skip(str(error))
    return folder / wanted.file


@pytest.fixture(scope="session")
def llama_cpp(smollm2_file: Path) -> LlamaCpp:
    return LlamaCpp(smollm2_file)


@pytest.fixture(scope="session")
def texts(shared: Callable[[str], Path]) -> list[str]:
    """Two hundred texts: hard ones, and lines of code and prose of this repository."""
    root = Path(__file__).parents[3]
    lines = [
        line
        for name in ("README.md", "CONTRIBUTING.md", "app/zoo/gym/paths.py", "docs/app.md")
        for line in (root / name).read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    return (HARD + lines)[:200]


def test_its_shape_is_the_listed_one(smollm2_folder: Path) -> None:
    shape = model_geometry(smollm2_folder)
    assert shape is not None
    assert (shape.hidden, shape.layers, shape.heads, shape.kv_heads) == (576, 30, 9, 3)
    assert (shape.ffn, shape.vocab, shape.head_dim, shape.tied) == (1536, 49_152, 64, True)
    assert count_parameters(smollm2_folder) == ENTRY.parameters == 134_515_008


def test_its_weights_are_gguf_s_own_rounded_once(smollm2_folder: Path, smollm2_file: Path) -> None:
    import torch
    from safetensors import safe_open

    source = open_gguf(smollm2_file)
    loaded: Any = safe_open(smollm2_folder / "model.safetensors", "pt")
    names = set(loaded.keys())
    for name, (ours, heads) in _names().items():
        values = torch.from_numpy(dequantised(source, name))
        if heads:  # rows in pairs of halves there, in pairs of neighbours in the file
            rows = values.view(heads, 32, 2, 576)
            values = rows.transpose(1, 2).reshape(values.shape)
        assert torch.equal(loaded.get_tensor(ours), values.to(torch.bfloat16)), ours
        names.remove(ours)
    assert names == set()


def _names() -> dict[str, tuple[str, int]]:
    """Returns the name here by the name in the file, and the heads of what is permuted."""
    plain = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    turned = {"attn_q": ("self_attn.q_proj", 9), "attn_k": ("self_attn.k_proj", 3)}
    parts = {name: (ours, 0) for name, ours in plain.items()} | turned
    names = {
        f"blk.{block}.{name}.weight": (f"model.layers.{block}.{ours}.weight", heads)
        for block in range(30)
        for name, (ours, heads) in parts.items()
    }
    return names | {
        "token_embd.weight": ("model.embed_tokens.weight", 0),
        "output_norm.weight": ("model.norm.weight", 0),
    }


def test_its_ids_are_llama_cpp_s(
    smollm2_folder: Path, llama_cpp: LlamaCpp, texts: list[str]
) -> None:
    from transformers import AutoTokenizer

    loader: Any = AutoTokenizer
    tokenizer = loader.from_pretrained(smollm2_folder)
    assert len(texts) == 200
    other = [text for text in texts if tokenizer(text).input_ids != llama_cpp.ids(text)]
    assert other == []


def positions(ids: list[int]) -> Iterator[list[int]]:
    """Yields two hundred beginnings, none longer than CONTEXT."""
    assert len(ids) >= POSITIONS
    for stop in range(len(ids) - POSITIONS + 1, len(ids) + 1):
        yield ids[max(0, stop - CONTEXT) : stop]


@pytest.mark.nightly
def test_its_predictions_are_llama_cpp_s(
    smollm2_folder: Path, llama_cpp: LlamaCpp, record_property: Any
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(smollm2_folder, dtype=torch.float32)
    ids = llama_cpp.ids(PROSE)
    same, kls = 0, []
    for start in positions(ids):
        theirs = llama_cpp.logprobs(start, LIKELIEST, plain=253)  # " a"
        with torch.no_grad():
            ours_V = torch.log_softmax(model(torch.tensor([start])).logits[0, -1].double(), -1)
        same += int(ours_V.argmax()) == max(theirs, key=lambda token: theirs[token])
        kls.append(divergence(theirs, ours_V))
    record_property("figures", f"top-1 {same} of {POSITIONS}, mean KL {sum(kls) / POSITIONS:.2e}")
    print(f"top-1 equal {same} of {POSITIONS}, mean KL {sum(kls) / POSITIONS:.2e}")
    assert same >= 0.95 * POSITIONS
    assert sum(kls) / POSITIONS <= 5e-3


def divergence(theirs: dict[int, float], ours_V: Any) -> float:
    """Returns the KL divergence from llama.cpp; all but its likeliest tokens count as one."""
    total = sum(math.exp(value) * (value - float(ours_V[token])) for token, value in theirs.items())
    rest = 1 - sum(math.exp(value) for value in theirs.values())
    ours_rest = 1 - sum(math.exp(float(ours_V[token])) for token in theirs)
    return total + (rest * math.log(rest / ours_rest) if min(rest, ours_rest) > 1e-9 else 0.0)
