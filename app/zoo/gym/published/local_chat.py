"""Chats with models of this machine by the calls of OpenAI's client, in this process.

client.chat.completions.create(model="zen-pico-grpo", messages=[{"role": "user", ...}])
"""

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from zoo.gym.config.stages import METHODS
from zoo.gym.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.serving.variants import Models
    from zoo.models import Resolved


class Completions:
    """Answers chats; the model that was asked last stays loaded.

    Calls from several threads are answered one after the other.

    The names of models are those of `zoo-gym serve`, with the base's name before them.
    """

    def __init__(self) -> None:
        self._models: Models | None = None
        # each call has a loop of its own, and what is loaded belongs to one loop at a time
        self._lock = threading.RLock()

    def create(
        self,
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        user_id: str | None = None,
        **fields: Any,  # noqa: ANN401 - those of OpenAI's API
    ) -> SimpleNamespace:
        """Returns a response with the fields of OpenAI's API: `.choices[0].message.content`.

        Args:
            model: `BASE`, `BASE:VARIANT`, `BASE-METHOD` for the newest run of a method, a run.
            messages: the conversation.
            user_id: the variant of the base that answers.
            fields: others of a request, as `zoo-gym serve` takes them, but `stream`.

        Raises:
            InputError: a field is wrong, or has no effect here.
            NotAvailableError: there is no such model.
        """
        from zoo.gym.serving.answering import parsed
        from zoo.gym.serving.chats import ChatBody

        if fields.get("stream"):
            raise InputError(
                "stream: expected none, got true",
                hint="zoo.gym.open_chat(...).stream(prompt) yields an answer in parts",
                code="published.not_supported",
            )
        base = _base_of(model)
        with self._lock:
            models = self._loaded(base)
            asked = _within(model, base, models.name)
            values = {**fields, "model": asked, "messages": [*messages], "user_id": user_id}
            answered = _in_thread(_answer(models, parsed(_json(values), ChatBody)))
        response: SimpleNamespace = json.loads(
            json.dumps(answered | {"model": model}),
            object_hook=lambda fields: SimpleNamespace(**fields),
        )
        return response

    def close(self) -> None:
        """Frees the model."""
        with self._lock:
            if self._models is not None:
                self._models.engine.close()
                self._models = None

    def _loaded(self, base: "Resolved") -> "Models":
        from zoo.gym.serving.run import MOST_QUEUED, ServeConfig, load_models
        from zoo.gym.variants.store import folder_of

        if self._models is None or self._models.base != base.folder:
            self.close()
            config = ServeConfig(queue=MOST_QUEUED)
            stored = folder_of(base.folder)
            self._models = load_models(base.folder, base.id, {}, stored, config)
        return self._models


class Chat:
    """What has `completions`, as in OpenAI's client."""

    def __init__(self) -> None:
        self.completions = Completions()


def _json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(values)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"request: expected text, numbers, lists and dicts: {error}",
            code="published.bad_argument",
        ) from None


async def _answer(models: "Models", body: Any) -> dict[str, Any]:  # noqa: ANN401 - a ChatBody
    from zoo.gym.serving.answering import chat_answers, compute
    from zoo.gym.serving.choices import ChatChoices, response_of

    answers = await chat_answers(models, body)
    await compute(models, answers)
    return response_of(ChatChoices(body), answers)


def _in_thread(answer: "Coroutine[Any, Any, dict[str, Any]]") -> dict[str, Any]:
    """Runs a coroutine in a thread of its own, as a notebook has a loop that runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, answer).result()


def _base_of(model: str) -> "Resolved":
    """Returns the base of a model's name.

    Raises:
        NotAvailableError: there is no such base or run.
    """
    from zoo.gym.jobs import open_run
    from zoo.gym.tuned.source import source_of_run
    from zoo.models import resolve

    name = model.partition("+")[0]
    alias = name.partition(":")[0]
    try:
        return resolve(alias, offline=True)
    except (InputError, NotAvailableError) as missing:
        try:
            recorded = str(source_of_run(open_run(name)).base)
        except (InputError, NotAvailableError):
            recorded, _, method = alias.rpartition("-")
            if method not in METHODS:
                raise missing from None
        return resolve(recorded, offline=True)


def _within(model: str, base: "Resolved", name: str) -> str:
    """Returns the model's name with the name of its base that is loaded."""
    from zoo.models import resolve

    alias, colon, rest = model.partition(":")
    alias, plus, library = alias.partition("+")
    try:
        is_base = resolve(alias, offline=True).folder == base.folder
    except (InputError, NotAvailableError):
        return model
    return f"{name}{plus}{library}{colon}{rest}" if is_base else model
