"""llama.cpp as an engine: the model's own answers, each with its adapter, whatever came before."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.codes import raises
from tests.models.gguf.adapters import write_adapter
from tests.models.gguf.files import LLAMA, llama_tensors, settings, write_gguf
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.backends.batching import Request
from zoo.backends.llamacpp.answerer import LlamaAnswerer
from zoo.backends.llamacpp.batcher import LlamaBatcher, bytes_of_token, room
from zoo.backends.sampling import Rollout, Sampling
from zoo.core.errors import InputError
from zoo.models.gguf import import_gguf
from zoo.models.gguf.parts import open_gguf

pytest.importorskip("xllamacpp")

STORIES = "data/models/stories260K"
PROMPT = (1, 403, 407, 261, 378, 432, 383, 286)
GREEDY = Sampling(max_new_tokens=12)


@pytest.fixture
def adapters(tmp_path: Path, shared: Callable[[str], Path]) -> dict[str, Path]:
    base = shared(f"{STORIES}.gguf")
    names = {"ann": 1, "bob": 2}
    return {name: write_adapter(tmp_path / f"{name}.gguf", base, n) for name, n in names.items()}


@pytest.fixture
def stories(
    shared: Callable[[str], Path], adapters: dict[str, Path]
) -> Generator[Callable[..., LlamaBatcher]]:
    """Loads stories260K with the adapters."""
    batchers: list[LlamaBatcher] = []

    def load(rows: int = 1) -> LlamaBatcher:
        source = open_gguf(shared(f"{STORIES}.gguf"))
        batchers.append(LlamaBatcher(source, adapters, rows=rows))
        return batchers[-1]

    yield load
    for batcher in batchers:
        batcher.close()


def answer(
    batcher: LlamaBatcher,
    adapter: str | None = None,
    sampling: Sampling = GREEDY,
    key: int = 0,
    ids: Sequence[int] = PROMPT,
) -> Rollout:
    return LlamaAnswerer(batcher, adapter).generate([ids], sampling, keys=[key])[0]


def test_greedy_answers_are_those_of_transformers(
    stories: Callable[..., LlamaBatcher], shared: Callable[[str], Path]
) -> None:
    torch = load_backend("cpu").load(shared(STORIES), LoadSpec())
    theirs = torch.generate([PROMPT], Sampling(max_new_tokens=60), keys=[0])[0]
    ours = answer(stories(), sampling=Sampling(max_new_tokens=60))
    assert ours.ids == theirs.ids
    assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-2)  # keys are float16


def test_no_answer_depends_on_the_adapter_before(stories: Callable[..., LlamaBatcher]) -> None:
    order = ("ann", None, "bob", None, "ann")
    cold = {adapter: answer(stories(), adapter) for adapter in (None, "ann", "bob")}
    warm = stories()
    assert [answer(warm, adapter) for adapter in order] == [cold[adapter] for adapter in order]
    assert len({tuple(rollout.ids) for rollout in cold.values()}) == 3


def test_an_unknown_adapter_is_refused(stories: Callable[..., LlamaBatcher]) -> None:
    with pytest.raises(KeyError, match="eve"):
        stories().add(Request(PROMPT, GREEDY, adapter="eve"))


def test_rows_at_once_answer_as_alone(stories: Callable[..., LlamaBatcher]) -> None:
    batcher = stories(rows=4)
    names = (None, "ann", "bob", "ann", None)
    requests = [
        Request(PROMPT[: 4 + n], GREEDY, key=n, adapter=name) for n, name in enumerate(names)
    ]
    ids: dict[int, list[int]] = {batcher.add(request): [] for request in requests}
    while batcher.busy:
        for event in batcher.step():
            ids[event.row].append(event.id)
    alone = [answer(batcher, request.adapter, ids=request.ids).ids for request in requests]
    assert list(ids.values()) == alone


def test_a_seed_repeats_its_draws_and_others_differ(stories: Callable[..., LlamaBatcher]) -> None:
    batcher, warm = stories(), Sampling(max_new_tokens=20, temperature=1.5)
    drawn = [tuple(answer(batcher, sampling=warm, key=key).ids) for key in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]


@pytest.mark.parametrize("few", [{"top_k": 1}, {"top_p": 1e-6}])
def test_top_k_and_top_p_are_kept(
    stories: Callable[..., LlamaBatcher], few: dict[str, Any]
) -> None:
    batcher = stories()
    sampled = answer(batcher, sampling=Sampling(max_new_tokens=12, temperature=3.0, **few))
    assert sampled.ids == answer(batcher).ids


def test_answers_end_at_stop_ids_and_stop_strings(stories: Callable[..., LlamaBatcher]) -> None:
    batcher = stories()
    ids = answer(batcher).ids
    by_id = answer(batcher, sampling=Sampling(max_new_tokens=12, stop_ids=(ids[2],)))
    letters = Sampling(max_new_tokens=12, stop_strings=("ccc",), decode=lambda ids: "c" * len(ids))
    by_text = answer(batcher, sampling=letters)
    assert (by_id.finish, by_id.ids) == (by_text.finish, by_text.ids) == ("stop", ids[:3])


def test_tokens_within_a_character_have_their_logprobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    tensors = {name: 4 * each for name, each in llama_tensors().items()}
    file = write_gguf(tmp_path / "tiny.gguf", settings("llama", LLAMA), tensors)
    batcher = LlamaBatcher(open_gguf(file), {}, rows=1)
    hot = Sampling(max_new_tokens=30, temperature=1.0)
    ours = answer(batcher, sampling=hot, ids=[5, 6, 7])
    batcher.close()
    torch = load_backend("cpu").load(import_gguf(file).folder, LoadSpec())
    logits = torch.logits([5, 6, 7, *ours.ids])[2:-1]
    scores = [
        row[token] - _log_sum(row) for row, token in zip(logits.tolist(), ours.ids, strict=True)
    ]
    # half of the 256 bytes begin or continue a character
    assert ours.logprobs == pytest.approx(scores, abs=2e-2)


def _log_sum(values: Sequence[float]) -> float:
    from math import exp, log

    return log(sum(map(exp, values)))


def test_a_prompt_that_is_too_long_is_refused_and_others_are_answered(
    stories: Callable[..., LlamaBatcher],
) -> None:
    batcher = stories()
    with pytest.raises(ValueError, match="expected at most 2 with a prompt of 510 tokens, got 12"):
        batcher.add(Request((5,) * 510, GREEDY))
    assert len(answer(batcher).ids) == 12


def test_a_cancelled_row_has_no_more_events(stories: Callable[..., LlamaBatcher]) -> None:
    batcher = stories()
    row, other = (batcher.add(Request(PROMPT, GREEDY)) for _ in range(2))
    batcher.step()
    batcher.cancel(row)
    events = []
    while batcher.busy:
        events += batcher.step()
    assert [event.row for event in events] == [other] * 12


def test_the_port_is_of_this_machine_and_needs_a_key(stories: Callable[..., LlamaBatcher]) -> None:
    url = stories()._server._server.listening_address  # pyright: ignore[reportPrivateUsage]
    refused = httpx2.post(f"{url}/completion", json={"prompt": "a"}, trust_env=False)
    assert url.startswith("http://127.0.0.1:")
    assert refused.status_code == 401


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"adapter.lora.alpha": 0.0}, "adapter.lora.alpha: expected more than 0, got 0.0"),
        ({"general.architecture": "qwen3"}, "expected an adapter of llama, got one of qwen3"),
        ({"general.type": "model"}, "expected a LoRA adapter in GGUF, got lora"),
    ],
)
def test_an_adapter_that_would_be_misread_is_refused(
    values: dict[str, Any], words: str, tmp_path: Path, shared: Callable[[str], Path]
) -> None:
    base = shared(f"{STORIES}.gguf")
    adapter = write_adapter(tmp_path / "odd.gguf", base, 1, **values)
    with pytest.raises(InputError, match=words):
        LlamaBatcher(open_gguf(base), {"odd": adapter}, rows=1)


def test_a_file_that_llama_cpp_refuses_is_an_error(tmp_path: Path) -> None:
    tensors = llama_tensors()
    del tensors["blk.1.ffn_up.weight"]
    file = write_gguf(tmp_path / "tiny.gguf", settings("llama", LLAMA), tensors)
    with raises("llamacpp.cannot_load"):
        LlamaBatcher(open_gguf(file), {}, rows=1)


def test_rows_and_their_tokens_fit_in_memory(tmp_path: Path) -> None:
    keys = LLAMA | {"context_length": 32_768}
    file = write_gguf(tmp_path / "tiny.gguf", settings("llama", keys), llama_tensors())
    source = open_gguf(file)
    assert bytes_of_token(source) == 2 * 2 * 2 * (8 + 8)  # float16, 2 layers, 2 heads, 8 and 8 wide
    sizes = [64 << 20, 2 << 20, 512 << 10]  # 524,288, 16,384 and 4,096 tokens
    rooms = [room(source, 16, size) for size in sizes]
    assert rooms == [(16, 32_768), (2, 8192), (1, 4096)]
