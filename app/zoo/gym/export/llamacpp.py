"""Opens a GGUF file with llama.cpp and compares what it computes with the source.

Below eight bits the difference to the source is the types' own. So the file is read back, every
code as its value, loaded in our engine and compared with llama.cpp: that finds what is wrong with
the file. The difference to the source is reported beside it.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data import Message, encode_prompt
from zoo.gym.data.rendering.template import chat_template, openai_turn
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.export.checking import MAX_KL_AS_STORED, REPORT, require
from zoo.gym.export.comparison import (
    MOST,
    Difference,
    base_logprobs,
    comparison_dtype,
    difference,
    next_logprobs,
    prompts_of,
    source_logprobs,
)
from zoo.gym.export.conversations import CONVERSATIONS, TEXTS, random_texts
from zoo.gym.export.job import DATE, Job
from zoo.gym.humanize import today
from zoo.models.gguf.parts import open_gguf
from zoo.models.gguf.vocabulary import end_tokens

if TYPE_CHECKING:
    from zoo.backends.llamacpp.server import LlamaServer
    from zoo.models.gguf.writing.types import Quantization

BY = "llama.cpp"

MAX_LOGPROB: Mapping[str, float] = {"f32": 1e-2, "f16": 5e-2, "bf16": 0.25}
"""The largest difference of a log-probability that float types may have.

llama.cpp has GELU as a table in float16, so Gemma's in float32 differ by .001; others by 1e-5.
"""

MAX_KL_OF_CODES = 1e-2
"""The largest mean KL of codes to their values, and of Q8_0 to the source.

llama.cpp rounds activations to eight bits.
"""

RANDOM_TEXTS = 64
"""How many random texts are compared as tokens, beside ours."""

MAX_KL_UNREAD = 0.25
"""The largest mean KL to the source of codes that cannot be read back here; an error makes more."""


def check_file(job: Job, file: Path, quantization: "Quantization") -> dict[str, Any]:
    """Compares a file with its source.

    Returns:
        What was measured; `reason` if llama.cpp is not installed and nothing was.

    Raises:
        InputError: llama.cpp cannot open the file, reads other tokens, or computes something else.
    """
    from zoo.backends.llamacpp.server import LlamaServer, require_llamacpp

    try:
        require_llamacpp()
    except NotAvailableError as error:
        return {"checked": False, "reason": error.message, "hint": error.hint}
    prompts = prompts_of(job)
    room = max(map(len, prompts)) + 8
    _check_ends(job, file)
    server = LlamaServer(open_gguf(file), {}, slots=1, tokens=room, threads=1, exact=True)
    try:
        tokens, chats = _compared_tokens(job, server), _compared_chats(job, server)
        theirs = [server.likeliest(prompt, 2 * MOST) for prompt in prompts]
    finally:
        server.close()
    source = source_logprobs(job, prompts)
    to_source = difference(source, theirs)
    found: dict[str, Any] = {"checked": True, "by": BY, "texts": tokens, "chats": chats}
    found |= to_source.as_json()
    if quantization not in MAX_LOGPROB and job.given.source.artifact != "model":
        found["kl_of_fine_tune"] = difference(source, base_logprobs(job, prompts)).kl
    if quantization in MAX_LOGPROB:
        _require_float(job, to_source, MAX_LOGPROB[quantization])
    elif quantization == "q8_0":
        require(to_source.kl, MAX_KL_OF_CODES, "mean KL", BY)
    else:
        own = _of_own_values(job, file, prompts, theirs)
        found["kl_to_own_values"] = None if own is None else own.kl
        if own is None:
            require(to_source.kl, MAX_KL_UNREAD, "mean KL", BY)
        else:
            require(own.kl, MAX_KL_OF_CODES, "mean KL to its own values", BY)
    return found


def _require_float(job: Job, measured: Difference, most: float) -> None:
    """Refuses weights in a float type that give something else.

    Raises:
        InputError: they do.
    """
    if comparison_dtype(job) == "f32":
        require(measured.max_logprob, most, "log-probability", BY)
    else:
        require(measured.kl, MAX_KL_AS_STORED, "mean KL", BY)


MAX_LOGPROB_OF_ADAPTER = 5e-2
"""The largest difference of a log-probability with an adapter on a base in float16."""


def check_adapter_file(job: Job, base: Path, adapter: Path) -> dict[str, Any]:
    """Compares an adapter on a GGUF file of its base with the source.

    Returns:
        What was measured, see `check_file`.

    Raises:
        InputError: llama.cpp cannot open a file, or computes something else.
    """
    from zoo.backends.llamacpp.server import LlamaServer, require_llamacpp

    try:
        require_llamacpp()
    except NotAvailableError as error:
        return {"checked": False, "reason": error.message, "hint": error.hint}
    prompts = prompts_of(job)
    room = max(map(len, prompts)) + 8
    server = LlamaServer(
        open_gguf(base), {"tuned": adapter}, slots=1, tokens=room, threads=1, exact=True
    )
    try:
        theirs = [server.likeliest(prompt, 2 * MOST, "tuned") for prompt in prompts]
        alone = [server.likeliest(prompt, 2 * MOST) for prompt in prompts]
    finally:
        server.close()
    to_source = difference(source_logprobs(job, prompts), theirs)
    found: dict[str, Any] = {"checked": True, "by": BY, **to_source.as_json()}
    found["kl_of_base"] = difference(theirs, alone).kl
    _require_float(job, to_source, MAX_LOGPROB_OF_ADAPTER)
    return found


def _of_own_values(
    job: Job, file: Path, prompts: Sequence[Sequence[int]], theirs: Sequence[Mapping[int, float]]
) -> Difference | None:
    """Compares llama.cpp with our engine on the values in the file.

    Returns:
        None for a file that is not read here, or is too large for float32.
    """
    from zoo.backends.base import LoadSpec
    from zoo.gym.engine import engine_for
    from zoo.models.gguf.convert import write_values

    if comparison_dtype(job) != "f32":
        return None
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        folder = Path(scratch)
        try:
            write_values(open_gguf(file), folder)
        except InputError:  # Mixtral's tensors, for example
            return None
        policy = engine_for(folder).load(folder, LoadSpec(dtype="f32"))
        return difference(next_logprobs(policy, prompts, MOST), theirs)


def _check_ends(job: Job, file: Path) -> None:
    """Refuses a file that names other tokens that end an answer than the source has.

    Raises:
        InputError: it does.
    """
    ends = set(end_tokens(open_gguf(file)))
    if lost := sorted(set(job.stops) - ends):
        raise InputError(
            f"tokens that end an answer: expected {lost} in the file, got {sorted(ends)}",
            hint=REPORT,
            code="export.lost_ends",
        )


def _compared_tokens(job: Job, server: "LlamaServer") -> int:
    """Compares the tokens of texts, and returns how many.

    Raises:
        InputError: they differ.
    """
    bare = job.template is not None  # what is added is that of chats, see `_compared_chats`
    compared = 0
    for text in (*TEXTS, *random_texts(RANDOM_TEXTS)):
        ours = job.ids(text, bare=bare)
        if job.tokenizer.unk_token_id in ours:
            continue  # llama.cpp cannot read a letter without a token, which `gguf.write` notes
        theirs = server.tokens_of(text, bare=bare)
        if ours != theirs:
            raise InputError(
                f"tokens of {text[:40]!r}: expected {ours[:12]}, got {theirs[:12]} from llama.cpp",
                hint="--format hf writes a folder that transformers loads",
                code="export.other_tokens",
            )
        compared += 1
    return compared


def _compared_chats(job: Job, server: "LlamaServer") -> int:
    """Compares chats as llama.cpp renders and reads them with ours, and returns how many.

    Raises:
        InputError: they differ.
    """
    template = chat_template(job.tokenizer, DATE)
    if template is None:
        return 0
    encoding, compared = replace(job.encoding, date=today()), 0
    for conversation in CONVERSATIONS:
        chat = list(conversation)
        if not template.reads_reasoning:  # then we put it before an answer, llama.cpp leaves it out
            chat = [replace(turn, reasoning=None) for turn in chat]
        try:
            ours = encode_prompt(chat, job.tokenizer, encoding)
        except InputError:  # a template that takes no system prompt
            continue
        try:
            theirs = server.tokens_of(server.rendered([_turn(turn) for turn in chat]))
        except GymError as error:
            raise _other_chat(f"nothing: {error.message}") from None
        if ours != theirs:
            pairs = zip(ours, theirs, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
            here, there = ours[max(0, at - 3) : at + 5], theirs[max(0, at - 3) : at + 5]
            raise _other_chat(f"{there} where ours are {here}, at token {at}")
        compared += 1
    return compared


def _turn(message: Message) -> dict[str, object]:
    reasoning = {"reasoning_content": message.reasoning} if message.reasoning else {}
    return openai_turn(message) | reasoning


def _other_chat(got: str) -> InputError:
    return InputError(
        f"chat template: expected the same tokens from llama.cpp, got {got}; no file was written",
        hint="--template chatml writes a plain one, --format hf needs no llama.cpp",
        code="export.other_chat",
    )
