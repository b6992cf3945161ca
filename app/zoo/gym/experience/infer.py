"""Answers one query with lessons in the prompt."""

from collections.abc import Callable

from zoo.backends.openai.reply import Reply
from zoo.backends.sampling import Sampling
from zoo.gym.data.records import Message
from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.experience.calls.budget import Budget, Cap, CapReachedError
from zoo.gym.experience.calls.caller import TOO_LONG, Caller
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.calls.slot import Ask, Slot
from zoo.gym.experience.learning.ends import ended, sentence
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

    Args:
        config: the model and how it answers.
        query: the task.
        library: the lessons in the prompt.
        tell: gets notices, such as that the lessons are of another model.
        budget: what is left of a cap on several calls; None for a cap on this one.

    Raises:
        InputError: there is no query.
        InterruptedRunError: the call does not fit under the cap.
        GymError: see `Caller.ask`.
    """
    if not query.strip():
        raise InputError("query: expected some text, got none")
    top_k = top_k_of(config.top_k, library)
    for doubt in doubts(library, config.model, top_k):
        tell(doubt)
    task = Task((Message("user", query),))
    if none_near := unmatched(task, library, top_k):
        tell(none_near)
    turns = task_turns(task, lessons_for(task, library, top_k), config.system)
    how = Sampling(config.max_new_tokens, config.temperature_eval)
    models = named_models(config)
    caller = Caller(Journal(), budget or Budget(cap_of_answers(config, models)), tell=tell)
    ask = Ask(Slot("infer", 0, 0, 0, config.seed), turns, how)
    try:
        with open_models(models, caller.notices.put) as (model, _):
            [reply] = caller.ask(model, [ask])
    except CapReachedError as error:
        hint = f"a higher {error.option}, or a lower --max-new-tokens"
        if budget is not None:
            name = "budget" if error.setting == "max_usd" else error.setting
            hint = f"a trainer with a higher {name}, or a lower max_new_tokens"
        raise InterruptedRunError(error.message, hint=hint) from None
    except InterruptedRunError as error:  # its hint is of a run, which there is none of
        raise InterruptedRunError(error.message, hint="repeat the command later") from None
    if reply.finish == TOO_LONG:
        raise InputError(reply.reasoning)
    if (kind := ended(reply)) is not None:
        tell(f"the answer is {sentence(kind, config.max_new_tokens)}")
    return reply


def cap_of_answers(config: ExperienceConfig, models: Named) -> Cap:
    """Returns the cap on a model's answers; without a price and a cap their length is limit enough.

    Without a cap that is set, what the teacher costs decides nothing: it is not called.

    Raises:
        InputError: a cap is set that cannot be kept.
    """
    is_set = config.max_usd is not None or config.max_tokens is not None
    is_set = is_set or any(one.max_usd is not None for one in models.on_servers)
    if not is_set:
        if models.model.price is None:
            return Cap()
        models = Named(models.model, models.model)
    return cap_of(config, models)


def top_k_of(given: int | None, library: Library) -> int | None:
    """Returns how many lessons a prompt has at most: as set, else as the library was measured."""
    measured = library.evidence.get("top_k")
    return given or (measured if isinstance(measured, int) else None)


def doubts(library: Library, model: str, top_k: int | None = None) -> list[str]:
    """Returns what a user should know before lessons are used, in sentences.

    Args:
        library: the lessons.
        model: the model that will read them.
        top_k: how many of them a prompt has at most; None for all.
    """
    found: list[str] = []
    items = library.items
    if items and library.evidence.get("verdict") != "proven":
        found.append("these lessons are unproven: no test has shown that they help")
        if foreign := sum(item.is_foreign for item in items):
            number = f"{foreign} of {len(items)}"
            found.append(f"{number} lessons are foreign: not learned by you or a key you trust")
    if items and library.measured_with != model:
        how = "measured with" if "model" in library.evidence else "learned for"
        known = library.measured_with or "an unknown model"
        found.append(f"these lessons were {how} {known}: with another they may harm")
    if (labels := library.evidence.get("labels")) is not None:
        found.append(f"these lessons were measured by {labels}, not by known answers")
    measured = library.evidence.get("top_k")
    if measured is not None and measured != top_k:
        read = "all are" if top_k is None else f"the nearest {top_k} are"
        found.append(
            f"these lessons were measured with the nearest {measured} in a prompt: {read} now"
        )
    return found
