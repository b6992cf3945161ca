"""OpenAI's own client, unchanged: chats, streams, completions, errors, many people at once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from bench.serve import agree
from tests.gym.serving.conftest import GREEDY, NAME, Scored, Served, scored, text_of, until
from zoo.backends.torch.loss import LossModule
from zoo.gym import generate
from zoo.gym.data import Message
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.http_guard.run import stored_token
from zoo.gym.serving import chats
from zoo.gym.serving.run import ModelServer
from zoo.models import pico_folder

MODELS = (NAME, f"{NAME}:ann", "bob", f"{NAME}:bob-2")


def test_a_variant_answers_as_generate_does(served: Served, variants: dict[str, Path]) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[str]:
        return [await text_of(client, model, "Say 2.") for model in MODELS]

    sources: list[dict[str, Any]] = [
        {},
        {"adapter": variants["ann"]},
        {"adapter": variants["bob"]},
        {"delta": variants["bob-2"]},
    ]
    expected = [
        generate(pico_folder(), ["Say 2."], max_new_tokens=8, **source)[0] for source in sources
    ]
    assert served(ask) == expected
    assert len(set(expected)) >= 3


def test_many_people_at_once_get_their_own_answers(served: Served) -> None:
    asked = [(MODELS[n % 4], f"Say {n % 7}.") for n in range(40)]

    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[list[Scored], list[Scored]]:
        together = await asyncio.gather(*(scored(client, *each) for each in asked))
        return list(together), [await scored(client, *each) for each in asked]

    together, alone = served(ask)
    assert all(agree(*pair) for pair in zip(together, alone, strict=True))
    mixed_up = zip(together[1:], alone, strict=False)  # each beside another person's
    assert not any(agree(*pair) for pair in mixed_up)


def test_a_stream_has_the_text_of_the_answer(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[str, Any, str]:
        messages: Any = [{"role": "user", "content": "Say 2."}]
        options: Any = {"stream": True, "stream_options": {"include_usage": True}}
        stream = await client.chat.completions.create(
            model="ann", messages=messages, **GREEDY, **options
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        return text, chunks, await text_of(client, "ann", "Say 2.")

    text, chunks, whole = served(ask)
    assert text == whole
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 8


def test_stop_strings_seeds_choices_and_logprobs(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        whole = await text_of(client, "ann", "Say 2.")
        stopped = await text_of(client, "ann", "Say 2.", stop=[whole[3:5]])
        assert stopped == whole[: whole.index(whole[3:5])].strip("\n")
        sampled: dict[str, Any] = {"temperature": 1.0, "max_tokens": 8, "seed": 5, "n": 3}
        messages: Any = [{"role": "user", "content": "Say 2."}]
        twice = [
            await client.chat.completions.create(model="ann", messages=messages, **sampled)
            for _ in range(2)
        ]
        texts = [[choice.message.content for choice in each.choices] for each in twice]
        assert texts[0] == texts[1]
        assert len(set(texts[0])) > 1
        scored = await client.chat.completions.create(
            model="ann", messages=messages, logprobs=True, **GREEDY
        )
        logprobs = scored.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        assert "".join(token.token for token in logprobs.content).strip("\n") == whole
        assert all(token.logprob <= 0 for token in logprobs.content)

    served(ask)


def test_completions_continue_texts_and_tokens(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        answer = await client.completions.create(model=NAME, prompt=["3 + 4 =", "ab"], **GREEDY)
        texts = [choice.text for choice in answer.choices]
        for text, prompt in zip(texts, ("3 + 4 =", "ab"), strict=True):
            single = await client.completions.create(model=NAME, prompt=prompt, **GREEDY)
            assert single.choices[0].text == text

    served(ask)


def test_models_are_listed_and_shown(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[str]:
        models = [model.id async for model in client.models.list()]
        assert (await client.models.retrieve(f"{NAME}:ann")).id == f"{NAME}:ann"
        return models

    assert served(ask) == [NAME, f"{NAME}:ann", f"{NAME}:bob", f"{NAME}:bob-2"]


def test_lessons_stand_behind_the_system_prompt(served: Served) -> None:
    library = Library((Item("Answer in one word."),), NAME)
    store.save("words", library)

    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[Any, Any]:
        user = {"role": "user", "content": "Say 2."}
        system = {"role": "system", "content": "Be brief."}
        joined = {"role": "system", "content": f"Be brief.\n\n{library.text}"}
        pairs: list[tuple[str, Any]] = [
            (f"{NAME}:ann+words", [system, user]),
            (f"{NAME}:ann", [joined, user]),
        ]
        answers = [
            await client.chat.completions.create(model=model, messages=messages, **GREEDY)
            for model, messages in pairs
        ]
        for wrong in ("ann+others", "ann+../words", "ann+words.json", "ann+"):
            with pytest.raises(openai.NotFoundError):
                await text_of(client, wrong, "Say 2.")
        return answers[0], answers[1]

    with_library, written_out = served(ask)
    assert with_library.usage == written_out.usage
    assert with_library.choices[0].message.content == written_out.choices[0].message.content


REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({"model": "nobody"}, "model"),
    ({"model": "../ann"}, "model"),
    ({"model": f"{NAME}:../../etc"}, "model"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"frequency_penalty": 3}, "frequency_penalty"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"logit_bias": {"264": 1}}, "logit_bias"),
    ({"temperature": 3}, "temperature"),
    ({"max_tokens": 10**6}, "max_tokens"),
    ({"stop": [""]}, "stop"),
    ({"messages": [{"role": "assistant", "content": "a"}]}, "messages"),
    ({"messages": []}, "messages"),
    ({"extra_body": {"temprature": 1}}, "temprature"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=str)
def test_what_cannot_be_done_is_refused_by_name(
    served: Served, fields: dict[str, Any], param: str
) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> openai.APIStatusError:
        body: Any = {"model": NAME, "messages": [{"role": "user", "content": "a"}]} | fields
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(**body)
        return caught.value

    error = served(ask)
    assert error.status_code == (404 if param == "model" else 400)
    assert error.param == param
    assert param in error.message


MISSING = [
    ({"model": f"{NAME}:Bob"}, f"model: expected one of this server, got '{NAME}:Bob'", "bob"),
    ({"model": "bob2"}, "model: expected one of this server, got 'bob2'", "bob-2"),
    ({"model": "ZEN-PICO"}, "model: expected one of this server, got 'ZEN-PICO'", ""),
    ({"model": "an+words"}, "model: expected one of this server, got 'an+words'", "ann"),
]


@pytest.mark.parametrize(("fields", "message", "meant"), MISSING)
def test_a_missing_model_is_quoted_as_sent_with_a_near_one(
    served: Served, fields: dict[str, Any], message: str, meant: str
) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> str:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.completions.create(prompt="a", **fields)
        return str(caught.value.body["message"])  # type: ignore[index]

    name = f"{NAME}:{meant}" if meant else NAME
    assert served(ask) == f"{message}; did you mean {name}?"


@pytest.mark.parametrize(
    ("user", "hint"),
    [("An", "did you mean ann?"), (NAME[::-1], f"GET /v1/models lists them; {NAME} is the base")],
)
def test_a_missing_user_is_named_by_the_field(served: Served, user: str, hint: str) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[str, str | None]:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.completions.create(model=NAME, prompt="a", extra_body={"user_id": user})
        return str(caught.value.body["message"]), caught.value.param  # type: ignore[index]

    message = f"user_id: expected the user of a variant, got '{user}'; {hint}"
    assert served(ask) == (message, "user_id")


def test_a_request_that_fails_in_part_leaves_nothing_running(served: Served) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> None:
        prompts = [[5, 6, 7]] * 8 + [[10**6]]
        with pytest.raises(openai.BadRequestError, match="ids: expected tokens below"):
            await client.completions.create(model="ann", prompt=prompts, max_tokens=400)
        await until(lambda: server.active == 0)

    served(ask)


def test_a_stream_that_waits_is_left(served: Served) -> None:
    async def ask(server: ModelServer, _: AsyncOpenAI) -> None:
        body: dict[str, Any] = {"model": "ann", "prompt": [5, 6], "max_tokens": 400, "stream": True}
        headers = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
            asked = [asyncio.create_task(http.post("/v1/completions", json=body)) for _ in "abcd"]
            await until(lambda: server.active > 2)
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        await until(lambda: server.active == 0)

    served(ask, rows=1)


def test_reasoning_of_earlier_answers_is_apart_as_in_chat() -> None:
    said = "<think>\nI add.\n</think>\n\nIt is 2."
    body = chats.ChatBody.model_validate(
        {
            "model": NAME,
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "1 + 1?"}]},
                {"role": "assistant", "content": said, "refusal": None, "tool_calls": None},
                {"role": "user", "content": "And 3?"},
            ],
        }
    )
    assert body.turns("unused", lambda _: "Lessons.") == [
        Message("system", "Be brief.\n\nLessons."),
        Message("user", "1 + 1?"),
        Message("assistant", "It is 2.", "I add."),
        Message("user", "And 3?"),
    ]


def test_an_engine_that_failed_once_goes_on(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    next_logits, failures = LossModule.next_logits, [2]

    def failing(self: LossModule, ids: Any, **inputs: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise RuntimeError("out of memory")
        return next_logits(self, ids, **inputs)

    async def ask(server: ModelServer, client: AsyncOpenAI) -> str:
        expected = await text_of(client, "ann", "Say 2.")
        monkeypatch.setattr(LossModule, "next_logits", failing)
        for _ in range(2):
            with pytest.raises(openai.InternalServerError, match="could not be computed"):
                await text_of(client, "ann", "Say 2.")
        assert await text_of(client, "ann", "Say 2.") == expected
        assert server.active == 0
        return expected

    assert served(ask)
    assert "out of memory" in capsys.readouterr().err


def test_without_a_token_every_program_of_the_machine_may_ask(served: Served) -> None:
    async def ask(server: ModelServer, _: AsyncOpenAI) -> tuple[int, int]:
        assert server.token is None
        async with httpx2.AsyncClient(base_url=server.url) as http:
            page = {"Origin": "https://evil.example"}
            refused = await http.get("/v1/models", headers=page)
            return (await http.get("/v1/models")).status_code, refused.status_code

    assert served(ask, needs_token=False) == (200, 403)


def test_two_servers_that_start_at_once_have_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(stored_token, [tmp_path / "new" / "serve.token"] * 8))
    assert len(tokens) == 1


def test_a_long_prompt_is_refused_and_others_go_on(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[Any, str]:
        long = text_of(client, NAME, "a" * 5000)
        results = await asyncio.gather(
            long, text_of(client, "ann", "Say 2."), return_exceptions=True
        )
        return results[0], str(results[1])

    error, other = served(ask)
    assert isinstance(error, openai.BadRequestError)
    assert other


def test_too_many_requests_are_refused_with_429(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[Any]:
        asked = (text_of(client, NAME, f"Say {n}.", max_tokens=100) for n in range(12))
        return await asyncio.gather(*asked, return_exceptions=True)

    results = served(ask, queue=2, rows=2)
    refused = [each for each in results if isinstance(each, openai.RateLimitError)]
    assert refused
    assert refused[0].response.headers["retry-after"] == "1"
    assert len(refused) + sum(isinstance(each, str) for each in results) == 12


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_frees_its_place(served: Served, stream: bool) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> str:
        body: dict[str, Any] = {"model": "ann", "messages": [{"role": "user", "content": "a"}]}
        body |= {"max_tokens": 200, "n": 16, "temperature": 1, "stream": stream}
        headers = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
            asked = asyncio.create_task(http.post("/v1/chat/completions", json=body))
            await until(lambda: server.active > 0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: server.active == 0)
        return await text_of(client, "ann", "Say 2.")

    assert served(ask, queue=40)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
    ],
)
def test_strangers_are_refused(served: Served, headers: dict[str, str], status: int) -> None:
    async def ask(server: ModelServer, _: AsyncOpenAI) -> tuple[int, int]:
        named = {"Authorization": f"Bearer {server.token}"} if "Host" in headers else {}
        if "Origin" in headers:
            named = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(base_url=server.url) as http:
            refused = await http.get("/v1/models", headers=named | headers)
            health = await http.get("/health")
        assert (b"invalid_api_key" in refused.content) == (status == 401)
        assert status == 401 or not refused.content
        return refused.status_code, health.status_code

    assert served(ask) == (status, 200)


def test_a_stream_ends_with_done_and_the_address_is_of_this_machine(served: Served) -> None:
    async def ask(server: ModelServer, _: AsyncOpenAI) -> tuple[str, str]:
        turns = [{"role": "user", "content": "Hi"}]
        body = {"model": NAME, "messages": turns, "max_tokens": 2, "stream": True}
        key = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(base_url=server.url) as http:
            answer = await http.post("/v1/chat/completions", json=body, headers=key)
        return answer.text, server.url

    text, url = served(ask)
    assert text.endswith("data: [DONE]\n\n")
    assert url.startswith("http://127.0.0.1:")


def test_no_embeddings_are_offered(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError, match="no such route: /v1/embeddings"):
            await client.embeddings.create(model=NAME, input="a")

    served(ask)
