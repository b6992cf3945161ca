"""Log-probabilities in responses are those that transformers computes, for prompts and answers."""

from typing import Any

import openai
import pytest
import torch
from openai import AsyncOpenAI
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.gym.serving.conftest import NAME, Served, text_of
from zoo.gym.serving.run import ModelServer
from zoo.models import pico_folder

PROMPTS = ["3 + 4 = 7", "It is né"]
LM_EVAL: dict[str, Any] = {"model": NAME, "temperature": 0, "max_tokens": 1, "logprobs": 1}
LM_EVAL |= {"seed": 1234, "echo": True}
"""What lm-eval's local-completions sends for log-likelihoods."""


def plain(text: str) -> tuple[list[int], torch.Tensor]:
    """The tokens of a text, and transformers' log-probabilities after each, `[T, V]`."""
    model: Any = AutoModelForCausalLM.from_pretrained(pico_folder(), dtype=torch.float32)
    ids = AutoTokenizer.from_pretrained(pico_folder())(text)["input_ids"]
    with torch.no_grad():
        return ids, model(torch.tensor([ids])).logits[0].log_softmax(-1)


def log_likelihood(choice: Any, context: int) -> tuple[float, bool]:
    """What lm-eval computes of a choice: the sum, and whether each token is the most likely."""
    logprobs = choice.logprobs
    scores = logprobs.token_logprobs[context:-1]
    tops = logprobs.top_logprobs[context:-1]
    greedy = all(score == max(top.values()) for score, top in zip(scores, tops, strict=True))
    return sum(scores), greedy


def test_prompts_are_scored_as_lm_eval_reads_them(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[Any]:
        tokens = [plain(text)[0] for text in PROMPTS]
        tokens.append([*tokens[0], int(plain(PROMPTS[0])[1][-1].argmax())])
        prompts: list[Any] = [tokens, PROMPTS]
        return [await client.completions.create(prompt=each, **LM_EVAL) for each in prompts]

    by_tokens, by_text = served(ask)
    for choices, text, place in ((by_tokens, PROMPTS[0], 0), (by_text, PROMPTS[1], 1)):
        choice = choices.choices[place]
        ids, logprobs_TV = plain(text)
        expected = sum(float(logprobs_TV[n - 1, ids[n]]) for n in range(3, len(ids)))
        total, _ = log_likelihood(choice, 3)
        assert total == pytest.approx(expected, abs=1e-4)
        assert choice.text.startswith(text)
        logprobs = choice.logprobs
        assert (logprobs.token_logprobs[0], logprobs.top_logprobs[0]) == (None, None)
        assert "".join(logprobs.tokens[:-1]) == text
        assert len(logprobs.tokens) == len(ids) + 1
    assert not log_likelihood(by_tokens.choices[1], 1)[1]
    assert log_likelihood(by_tokens.choices[2], len(plain(PROMPTS[0])[0]))[1]


def test_a_prompt_is_scored_alone_by_the_variant_that_is_asked(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[Any]:
        body = LM_EVAL | {"prompt": PROMPTS[0], "max_tokens": 0, "logprobs": 5}
        return [await client.completions.create(**body | {"model": m}) for m in (NAME, "ann")]

    base, ann = served(ask)
    assert (base.choices[0].text, base.usage.completion_tokens) == (PROMPTS[0], 0)
    scores, others = (each.choices[0].logprobs.token_logprobs for each in (base, ann))
    assert len(scores) == base.usage.prompt_tokens
    assert max(abs(a - b) for a, b in zip(scores[1:], others[1:], strict=True)) > 0.1


def test_the_most_likely_tokens_of_an_answer_are_transformers(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[Any, Any]:
        fields: dict[str, Any] = {"model": NAME, "max_tokens": 3, "temperature": 1, "seed": 3}
        completion = await client.completions.create(prompt=PROMPTS[0], logprobs=5, **fields)
        messages: Any = [{"role": "user", "content": "Say 2."}]
        chat = await client.chat.completions.create(
            messages=messages, logprobs=True, top_logprobs=20, **fields
        )
        return completion.choices[0].logprobs, chat.choices[0].logprobs

    completion, chat = served(ask)
    expected = plain(PROMPTS[0])[1][-1].topk(5).values.tolist()
    tops = completion.top_logprobs[0]
    assert sorted(tops.values(), reverse=True)[:5] == pytest.approx(expected, abs=1e-4)
    assert tops[completion.tokens[0]] == completion.token_logprobs[0]
    for token in chat.content:
        assert len(token.top_logprobs) == 20
        likely = [top.logprob for top in token.top_logprobs]
        assert likely == sorted(likely, reverse=True)
        assert token.logprob <= likely[0]


def test_settings_that_shape_logits_reach_the_answer(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        greedy = await text_of(client, NAME, "Say 2.")
        bias = {"logit_bias": {"97": 100}}
        assert await text_of(client, NAME, "Say 2.", **bias) == "aaaaaaaa"
        few = {"logit_bias": {str(n): 100 for n in range(97, 105)}}
        texts = [
            await text_of(client, NAME, "Say 2.", **few, **penalty)
            for penalty in ({}, {"presence_penalty": 2}, {"frequency_penalty": 2})
        ]
        kinds = [len(set(text)) for text in texts]
        assert set("".join(texts)) <= set("abcdefgh")
        assert kinds[0] < min(kinds[1:])
        only_best = {"temperature": 1, "extra_body": {"min_p": 1}}
        assert await text_of(client, NAME, "Say 2.", **only_best) == greedy

    served(ask)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"logprobs": 6}, "logprobs"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"echo": True, "stream": True}, "echo"),
    ({"extra_body": {"top_logprobs": 2}}, "top_logprobs"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=str)
def test_completions_refuse_what_they_cannot_report(
    served: Served, fields: dict[str, Any], param: str
) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> Any:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.completions.create(**{"model": NAME, "prompt": "a"} | fields)
        return caught.value.param

    assert served(ask) == param
