"""One user alone: our server, `transformers serve` and llama.cpp, asked for the same text by HTTP.

A random Qwen3 in float32 (83 M parameters), as a folder and as a GGUF file, on one thread. Each
server is a process of its own; its CPU seconds are those of the process while it answers, and the
first token is timed by the client. llama.cpp is asked through our server, which has it in process:
a token is a request to it there. A ratio is the median of the rounds' ratios.

usage: python -m bench serve_peers            two minutes of one core
"""

import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from bench.measure import Case, Skipped
from bench.serve import NEW, ROUNDS, SHAPES

TOKENS, SPECIAL = 264, 256
PROMPT = "It was a dark and stormy night; "
SHAPE = SHAPES["89 M parameters"]
OURS, PEERS = "zoo-gym", ("transformers serve", "llama.cpp")


def write_model(folder: Path) -> Path:
    """Writes a random model with zen-pico's tokens, whose answers have no end."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from zoo.models import pico_folder

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=TOKENS, tie_word_embeddings=True, eos_token_id=None, bos_token_id=None, **SHAPE
    )
    model: Any = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.get_input_embeddings().weight[SPECIAL:] = 0
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(pico_folder() / name, folder)
    return folder


def write_gguf(folder: Path, file: Path) -> Path:
    """Writes the same model as a GGUF file in float32, with byte-level tokens."""
    from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text())
    writer = GGUFWriter(file, "qwen3")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    alphabet = sorted(vocabulary, key=lambda token: int(vocabulary[token]))[:SPECIAL]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*alphabet, "ab", *(f"<{n}>" for n in range(SPECIAL + 1, TOKENS))])
    writer.add_token_types([1] * (SPECIAL + 1) + [3] * (TOKENS - SPECIAL - 1))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(SPECIAL + 1)
    names = get_tensor_name_map(MODEL_ARCH.QWEN3, config["num_hidden_layers"])
    for name, values in load_file(folder / "model.safetensors").items():
        writer.add_tensor(str(names.get_name(name, (".weight", ".bias"))), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def free_port() -> int:
    """Returns a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(words: list[str], port: int, log: Path) -> Generator[int]:
    """Runs a server until the end of the block; yields its process once it listens."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as out, subprocess.Popen(words, stdout=out, stderr=out, env=env) as process:
        try:
            while process.poll() is None:
                try:
                    urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.3)
            if process.poll() is not None:
                raise RuntimeError(f"{words[:4]} ended: {log.read_text()[-2000:]}")
            yield process.pid
        finally:
            process.kill()


def answer(port: int, model: str) -> float:
    """Asks for a text in a stream; returns the seconds to its first token."""
    body = {"model": model, "prompt": PROMPT, "max_tokens": NEW, "temperature": 0, "stream": True}
    head = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/v1/completions"
    request = Request(url, json.dumps(body).encode(), head)
    started, first = time.perf_counter(), 0.0
    with urlopen(request, timeout=300) as stream:
        for raw in stream:
            if not raw.startswith(b"data: {"):
                continue
            choices = json.loads(raw[6:]).get("choices") or [{}]
            if not first and choices[0].get("text"):
                first = time.perf_counter() - started
    return first


def cpu_seconds(process: int) -> float:
    """Returns what a process and its threads have computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def commands(
    folder: Path, gguf: Path, ports: Mapping[str, int]
) -> dict[str, tuple[list[str], str]]:
    """Returns how each server is started, and what it calls the model."""
    ours = [sys.executable, "-m", "zoo.gym", "serve", "--no-token", "--model"]
    theirs = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder)]
    started = {
        OURS: ([*ours, str(folder)], folder.name),
        "transformers serve": ([*theirs, "--dtype", "float32", "--device", "cpu"], str(folder)),
    }
    if find_spec("xllamacpp") is not None:
        started["llama.cpp"] = ([*ours, str(gguf)], gguf.stem)
    return {
        name: ([*words, "--port", str(ports[name])], model)
        for name, (words, model) in started.items()
    }


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if not sys.platform.startswith("linux"):
        yield Skipped("one user alone", "the CPU seconds of a server are read from /proc")
        return
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zoo-gym-")))
        folder = write_model(scratch / "model")
        gguf = write_gguf(folder, scratch / "peer.gguf")
        gc.collect()
        ports = {name: free_port() for name in (OURS, *PEERS)}
        asked: dict[str, tuple[int, str, int]] = {}
        for name, (words, model) in commands(folder, gguf, ports).items():
            log = scratch / f"{name}.log"
            process = stack.enter_context(serving(words, ports[name], log))
            asked[name] = (ports[name], model, process)
        rates: dict[str, list[float]] = {name: [] for name in asked}
        firsts: dict[str, list[float]] = {name: [] for name in asked}
        for number in range(ROUNDS + 1):
            for name, (port, model, process) in asked.items():
                before = cpu_seconds(process)
                first = answer(port, model)
                spent = cpu_seconds(process) - before
                if number:  # the first round warms up
                    rates[name].append(NEW / spent)
                    firsts[name].append(first)
    rate, first = median(rates[OURS]), 1000 * median(firsts[OURS])
    for peer in PEERS:
        if peer not in rates:
            yield Skipped(f"one user alone beside {peer}", "xllamacpp is not installed")
            continue
        ratio = median(a / b for a, b in zip(rates[OURS], rates[peer], strict=True))
        yield Case("one user alone", rate, "tokens/CPU-s", peer, ratio, "")
        ratio = median(a / b for a, b in zip(firsts[OURS], firsts[peer], strict=True))
        yield Case("first token", first, "ms", peer, ratio, "")
