"""Files and fine-tuning jobs, by OpenAI's own client: from an upload to a chat with the result."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError

from tests.codes import raises
from tests.gym.serving.conftest import NAME, Served
from zoo.gym.serving.run import ModelServer
from zoo.gym.serving.tuning.files import Files
from zoo.gym.serving.tuning.requests import JobBody, settings_of
from zoo.gym.serving.wire import RequestError

ROWS = [
    {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "yes"}]}
    for n in range(40)
]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


async def uploaded(client: AsyncOpenAI, rows: list[dict[str, Any]], name: str = "a.jsonl") -> str:
    file = await client.files.create(file=(name, lines(rows)), purpose="fine-tune")
    return file.id


@pytest.mark.slow
def test_a_job_trains_a_model_that_answers(served: Served) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> None:
        file = await uploaded(client, ROWS)
        job = await client.fine_tuning.jobs.create(
            model=NAME,
            training_file=file,
            suffix="ann",
            seed=3,
            metadata={"for": "ann"},
            method={
                "type": "supervised",
                "supervised": {"hyperparameters": {"n_epochs": 1, "batch_size": 8}},
            },
        )
        while job.status not in ("succeeded", "failed"):
            await asyncio.sleep(0.2)
            job = await client.fine_tuning.jobs.retrieve(job.id)
        assert job.status == "succeeded", job.error
        # a variant of that name was named at the start, and answers to it
        run = job.id.removeprefix("ftjob-")
        assert job.fine_tuned_model == f"{NAME}:{run}"
        assert job.metadata == {"for": "ann"}
        answer = await client.chat.completions.create(
            model=job.fine_tuned_model, messages=[{"role": "user", "content": "1?"}], max_tokens=4
        )
        assert answer.usage is not None
        events = await client.fine_tuning.jobs.list_events(job.id)
        assert events.data[0].message == "the run is done"
        assert {event.type for event in events.data} == {"message", "metrics"}
        checkpoints = await client.fine_tuning.jobs.checkpoints.list(job.id)
        assert checkpoints.data[0].step_number == 5
        assert [each.id async for each in client.fine_tuning.jobs.list()] == [job.id]
        with pytest.raises(APIStatusError):  # it has ended
            await client.fine_tuning.jobs.cancel(job.id)

    served(ask)


def test_files_are_kept_and_removed(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        first = await uploaded(client, ROWS, "../../etc/a.jsonl")
        second = await uploaded(client, ROWS[:1])
        assert {each.id async for each in client.files.list()} == {first, second}
        assert {each.id async for each in client.files.list(limit=1)} == {first, second}
        shown = await client.files.retrieve(first)
        assert (shown.filename, shown.bytes) == ("a.jsonl", len(lines(ROWS)))
        assert (await client.files.content(first)).content == lines(ROWS)
        elsewhere = client.with_options(base_url=str(client.base_url).replace("/v1", "/openai/v1"))
        assert (await elsewhere.files.retrieve(second)).id == second
        await client.files.delete(first)
        with pytest.raises(NotFoundError):
            await client.files.retrieve(first)
        assert [each.id async for each in client.files.list()] == [second]

    served(ask)


@pytest.mark.parametrize(
    ("name", "content", "purpose", "param"),
    [
        ("a.jsonl", b"x", "assistants", "purpose"),
        ("a.exe", b"x", "fine-tune", None),
        ("a.jsonl", b"", "fine-tune", None),
    ],
)
def test_a_file_that_cannot_be_used_leaves_nothing(
    served: Served, name: str, content: bytes, purpose: Any, param: str | None
) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> Any:
        with pytest.raises(BadRequestError) as caught:
            await client.files.create(file=(name, content), purpose=purpose)
        return caught.value.param

    assert served(ask) == param
    assert Files().all() == []


@pytest.mark.parametrize("id_", ["..", "", "file-1", "file-0123456789abcdef01234567/../x"])
def test_an_id_is_never_a_path(tmp_path: Path, id_: str) -> None:
    with raises("serving.no_such_file"):
        Files(tmp_path).get(id_)


class BreaksOff(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        del size
        raise RuntimeError("gone")


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path / "files")
    with pytest.raises(RuntimeError):
        files.add("a.jsonl", BreaksOff())  # type: ignore[arg-type]
    assert list((tmp_path / "files").iterdir()) == []


def body(**method: Any) -> JobBody:
    return JobBody.model_validate({"model": NAME, "training_file": "file-1", "method": method})


CHECK: dict[str, Any] = {
    "type": "string_check",
    "name": "right",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}


NEAR: dict[str, Any] = {
    "type": "text_similarity",
    "name": "near",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "evaluation_metric": "rouge_l",
}
MULTI: dict[str, Any] = {
    "type": "multi",
    "graders": {"a": CHECK, "b": NEAR},
    "calculate_output": "0.25 * a + 2 * b",
}


def test_methods_and_graders_become_settings_and_rewards() -> None:
    dpo = {"hyperparameters": {"beta": 0.2, "n_epochs": 2}}
    assert settings_of(body(type="dpo", dpo=dpo)) == {
        "stage": "dpo",
        "pref_beta": 0.2,
        "num_train_epochs": 2,
    }
    exact = {"part": "whole", "ignore_case": False}
    assert settings_of(body(type="reinforcement", reinforcement={"grader": CHECK})) == {
        "stage": "grpo",
        "reward": {"exact": exact},
    }
    assert settings_of(body(type="reinforcement", reinforcement={"grader": MULTI})) == {
        "stage": "grpo",
        "reward": [
            {"kind": "exact", "name": "a", **exact, "weight": 0.25},
            {"kind": "similarity", "name": "b", "to": "answer", "weight": 2.0},
        ],
    }


ASKED = {"messages": [{"role": "user", "content": "Say yes."}]}
PAIR = {
    "input": ASKED,
    "preferred_output": [{"role": "assistant", "content": "yes"}],
    "non_preferred_output": [{"role": "assistant", "content": "no"}],
}
LONG = {"hyperparameters": {"n_epochs": 10_000}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "method"),
    [
        (ROWS, {"type": "supervised", "supervised": LONG}),
        ([PAIR] * 40, {"type": "dpo", "dpo": LONG}),
        (
            [ASKED | {"answer": str(n)} for n in range(40)],
            {"type": "reinforcement", "reinforcement": {"grader": MULTI}},
        ),
    ],
    ids=["supervised", "dpo", "reinforcement"],
)
def test_a_job_of_each_method_starts_and_can_be_cancelled(
    served: Served, rows: list[dict[str, Any]], method: Any
) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> None:
        job = await client.fine_tuning.jobs.create(
            model=NAME,
            training_file=await uploaded(client, rows),
            validation_file=await uploaded(client, rows[:8]),
            method=method,
        )
        assert job.status in ("queued", "running")
        job = await client.fine_tuning.jobs.cancel(job.id)
        while job.status != "cancelled":
            assert job.status in ("queued", "running")
            await asyncio.sleep(0.2)
            job = await client.fine_tuning.jobs.retrieve(job.id)
        assert job.fine_tuned_model is None

    served(ask)


def summed(graders: dict[str, Any], formula: str, **more: Any) -> dict[str, Any]:
    grader = {"type": "multi", "graders": graders, "calculate_output": formula, **more}
    return {"type": "reinforcement", "reinforcement": {"grader": grader}}


@pytest.mark.parametrize(
    "method",
    [
        {"type": "reinforcement"},
        {"type": "dpo", "supervised": {}},
        {"type": "supervised", "supervised": {"hyperparameters": {"beta": 1}}},
        {"type": "reinforcement", "reinforcement": {"grader": {"type": "python", "source": ""}}},
        {"type": "reinforcement", "reinforcement": {"grader": CHECK | {"operation": "like"}}},
        {"type": "reinforcement", "reinforcement": {"grader": CHECK | {"extra": 1}}},
        {
            "type": "reinforcement",
            "reinforcement": {"grader": NEAR | {"evaluation_metric": "bleu"}},
        },
        summed({"a": CHECK, "b": NEAR | {"evaluation_metric": "bleu"}}, "1 * a + 1 * b"),
        summed({"a": CHECK}, "0.5 * a + 0.5 * a"),
        summed({"a": CHECK}, "1.2.3 * a"),
        summed({"a": "string_check"}, "1 * a"),
        summed({"a": {"type": "multi", "graders": {"b": CHECK}}}, "1 * a"),
        summed({"a": CHECK}, "1 * a", extra=1),
    ],
)
def test_what_no_run_can_do_is_refused_by_name(method: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        settings_of(body(**method))
    assert str(caught.value.param).startswith("method")


GRADE = "def grade(sample, item):\n    return float(item['answer'] in sample['output_text'])\n"
PYTHON = {"type": "python", "name": "g", "source": GRADE, "image_tag": "2025-05-08"}


def test_a_grader_in_python_is_a_reward_where_that_is_allowed() -> None:
    job = body(type="reinforcement", reinforcement={"grader": PYTHON})
    with pytest.raises(RequestError, match="--allow-graders"):
        settings_of(job)
    assert settings_of(job, runs_graders=True)["reward"] == {"grader": {"source": GRADE}}
    mixed = body(**summed({"a": CHECK, "b": PYTHON}, "0.5 * a + 0.5 * b"))
    with pytest.raises(RequestError, match="--allow-graders"):
        settings_of(mixed)
    rewards = settings_of(mixed, runs_graders=True)["reward"]
    assert [part["kind"] for part in rewards] == ["exact", "grader"]


@pytest.mark.slow
def test_a_job_learns_by_a_grader_in_python(served: Served) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> None:
        rows = [{"messages": row["messages"][:1], "answer": "a"} for row in ROWS[:8]]
        by_length = "def grade(sample, item):\n    return len(sample['output_text']) % 7\n"
        grader = PYTHON | {"source": by_length}
        tuning = {"grader": grader, "hyperparameters": {"n_epochs": 1}}
        method: Any = {"type": "reinforcement", "reinforcement": tuning}
        job = await client.fine_tuning.jobs.create(
            model=NAME, training_file=await uploaded(client, rows), method=method, seed=1
        )
        while job.status not in ("succeeded", "failed"):
            await asyncio.sleep(0.2)
            job = await client.fine_tuning.jobs.retrieve(job.id)
        assert job.status == "succeeded", job.error

    served(ask, allow_graders=True)


def test_a_job_without_its_file_or_of_another_model_is_not_found(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        for model, file in ((NAME, "file-0"), ("other", "file-0")):
            with pytest.raises(NotFoundError):
                await client.fine_tuning.jobs.create(model=model, training_file=file)
        with pytest.raises(NotFoundError):
            await client.fine_tuning.jobs.retrieve("ftjob-r0001")
        with pytest.raises(BadRequestError) as refused:
            await client.fine_tuning.jobs.create(
                model=NAME, training_file="file-0", hyperparameters={"n_epochs": 0}
            )
        assert refused.value.param == "hyperparameters"
        file = await uploaded(client, [{"nothing": 1}])
        with pytest.raises(BadRequestError) as caught:
            await client.fine_tuning.jobs.create(model=NAME, training_file=file)
        assert caught.value.param == "training_file"

    served(ask)


def test_a_proxy_of_several_providers_may_name_this_api(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        jobs = "/fine_tuning/jobs"
        page: Any = await client.get(f"{jobs}?custom_llm_provider=openai", cast_to=object)
        assert page["data"] == []
        with pytest.raises(BadRequestError, match="custom_llm_provider"):
            await client.get(f"{jobs}?custom_llm_provider=azure", cast_to=object)
        body = {"model": NAME, "training_file": "file-0", "custom_llm_provider": "azure"}
        with pytest.raises(BadRequestError, match="custom_llm_provider"):
            await client.post(jobs, body=body, cast_to=object)
        with pytest.raises(NotFoundError, match="file-0"):
            await client.post(jobs, body=body | {"custom_llm_provider": "openai"}, cast_to=object)

    served(ask)
