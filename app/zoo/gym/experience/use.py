"""Lessons in use: one query answered with them, several libraries as one, and doubts about them."""

from collections.abc import Callable
from dataclasses import dataclass

from zoo.backends.openai.reply import Reply
from zoo.gym.data.records import Message
from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Budget, Cap, CapReachedError
from zoo.gym.experience.calls.caller import TOO_LONG, Caller
from zoo.gym.experience.calls.journal import Ask, Journal, Slot
from zoo.gym.experience.learning.answers import ended, sentence
from zoo.gym.experience.learning.prompts import lessons_for, task_turns, unmatched
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.models import Named, cap_of, named_models, open_models
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.rewards.reward import Task


def infer(
    config: ExperienceConfig,
    query: str,
    library: Library,
    tell: Callable[[str], None],
    budget: Budget | None = None,
) -> Reply:
    """Returns the model's answer to a query.

    `budget` is the rest of a cap on several calls; None for a cap on this one.

    Raises:
        InputError: there is no query.
        InterruptedRunError: the call does not fit under the cap.
        GymError: see `Caller.ask`.
    """
    if not query.strip():
        raise InputError("query: expected some text, got none", code="experience.empty_query")
    top_k = config.top_k or measured_top_k(library)
    for doubt in doubts(library, config.model, top_k):
        tell(doubt)
    task = Task((Message("user", query),))
    if notice := unmatched(task, library, top_k):
        tell(notice)
    turns = task_turns(task, lessons_for(task, library, top_k), config.system)
    models = named_models(config)
    caller = Caller(Journal(), budget or Budget(cap_of_answers(config, models)), tell=tell)
    ask = Ask(Slot("infer", 0, 0, 0, config.seed), turns, config.sampling_eval)
    try:
        with open_models(models, caller.notices.put) as (model, _):
            [reply] = caller.ask(model, [ask])
    except CapReachedError as error:
        hint = f"a higher {error.option}, or a lower --max-new-tokens"
        if budget is not None:
            name = "budget" if error.setting == "max_usd" else error.setting
            hint = f"a trainer with a higher {name}, or a lower max_new_tokens"
        raise InterruptedRunError(error.message, hint=hint, code=error.code) from None
    except InterruptedRunError as error:  # its hint is about a run, and there is none
        raise InterruptedRunError(
            error.message, hint="repeat the command later", code=error.code
        ) from None
    if reply.finish == TOO_LONG:
        raise InputError(reply.reasoning, code="experience.prompt_too_long")
    if (kind := ended(reply)) is not None:
        tell(f"the answer is {sentence(kind, config.max_new_tokens)}")
    return reply


def cap_of_answers(config: ExperienceConfig, models: Named) -> Cap:
    """Returns the cap on a model's answers; without a price and a cap their length is limit enough.

    If no cap is set, the price of the teacher decides nothing: it is not called.

    Raises:
        InputError: a cap is set that cannot be kept.
    """
    caps = [
        config.max_usd,
        config.max_tokens,
        *(server.provider.max_usd for server in models.on_servers),
    ]
    if all(cap is None for cap in caps):
        if models.model.price is None:
            return Cap()
        models = Named(models.model, models.model)
    return cap_of(config, models)


def measured_top_k(library: Library) -> int | None:
    """Returns how many lessons a prompt had at most when a library was measured; None for all."""
    top_k = library.evidence.get("top_k")
    return top_k if isinstance(top_k, int) else None


def doubts(library: Library, model: str, top_k: int | None = None) -> list[str]:
    """Returns what a user should know before lessons are used, in sentences.

    `top_k` is the most lessons in a prompt; None for all.
    """
    sentences: list[str] = []
    items, evidence = library.items, library.evidence
    if items and evidence.get("verdict") != "proven":
        sentences.append("these lessons are unproven: no test has shown that they help")
        if foreign := sum(item.is_foreign for item in items):
            share = f"{foreign} of {len(items)}"
            sentences.append(f"{share} lessons are foreign: not learned by you or a key you trust")
    if items and library.measured_with != model:
        origin = "measured with" if "model" in evidence else "learned for"
        other = library.measured_with or "an unknown model"
        sentences.append(f"these lessons were {origin} {other}: with another they may harm")
    if (labels := evidence.get("labels")) is not None:
        sentences.append(f"these lessons were measured by {labels}, not by known answers")
    measured = evidence.get("top_k")
    if measured is not None and measured != top_k:
        read = "all are" if top_k is None else f"the nearest {top_k} are"
        sentences.append(
            f"these lessons were measured with the nearest {measured} in a prompt: {read} now"
        )
    return sentences


@dataclass(frozen=True)
class InUse:
    """Lessons that a conversation reads.

    Attributes:
        library: the lessons.
        top_k: how many a prompt has at most that are not pinned; None for all.
        notices: sentences that a user should read.
        tell: gets a sentence if no lesson is near to a message.
    """

    library: Library
    top_k: int | None
    notices: list[str]
    tell: Callable[[str], object] = bool

    @property
    def text(self) -> str | Callable[[str], str]:
        """The text that a model reads: always the same, or the lessons nearest to a message."""
        return self.library.text if self.top_k is None else self.nearest

    def nearest(self, words: str) -> str:
        """Returns the pinned lessons and those that share most words with a text."""
        task = Task((Message("user", words),))
        if notice := unmatched(task, self.library, self.top_k):
            self.tell(notice)
        return lessons_for(task, self.library, self.top_k).text


def lessons_of(
    libraries: str, model: str, top_k: int | None = None, tell: Callable[[str], object] = bool
) -> InUse:
    """Returns the lessons of libraries, and how they are read.

    `libraries` are names, NAME@VERSION or files, separated by commas; a lesson of two counts once.
    By default `top_k` is as they were measured, if all were measured alike. `tell` gets a sentence
    if no lesson is near to a message.

    Raises:
        InputError: nothing is named, or together they are larger than a library may be.
        NotAvailableError: there is no such library.
    """
    names = [name.strip() for name in libraries.split(",") if name.strip()]
    if not names:
        raise InputError(
            "--experience: expected the name of a library, got an empty one",
            code="experience.no_library_named",
        )
    stored = [store.load_given(name) for name in names]
    measured = {measured_top_k(part.library) for part in stored}
    nearest = top_k or (measured.pop() if len(measured) == 1 else None)
    notices = [f"{part.name}: {notice}" for part in stored for notice in part.notices]
    for part in stored:
        notices += [f"{part.name}: {doubt}" for doubt in doubts(part.library, model, nearest)]
    library = stored[0].library
    if len(stored) > 1:
        items = {item.id: item for part in stored for item in part.library.items}
        try:
            library = Library(tuple(items.values()))
        except InputError as error:
            hint = "name fewer libraries, or drop lessons: zoo-gym experience prune"
            raise InputError(f"together: {error.message}", hint=hint, code=error.code) from None
    return InUse(library, nearest, notices, tell)
