"""A conversation with a loaded model: prompts to tokens, tokens to answers.

A model with a chat template answers turns; one without continues the text. Prompts are tokenized
exactly as in training. A long system prompt is read once for all answers.
"""

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from zoo.backends.machine.threads import (
    callers_state_kept,
    choose_threads,
    use_threads,
    with_threads,
)
from zoo.backends.sampling import Rollout, Sampling, TokenEvent, before_stop, rollouts_of
from zoo.gym.arguments import StrPath, model_folder, path_or_none, text_of
from zoo.gym.chat.gguf import is_for_llamacpp, open_gguf_chat
from zoo.gym.chat.greedy import check_sampling, stated_sampling, warn_of_settings
from zoo.gym.chat.parts import LINE_END, Parts
from zoo.gym.chat.prefixes import Prefixes
from zoo.gym.config.report import shown
from zoo.gym.data import (
    EncodeOptions,
    Message,
    Tokenizer,
    chat_stops,
    encode_prompt,
    require_unicode,
    split_thinking,
)
from zoo.gym.data.own_tokenizer import own_tokenizer
from zoo.gym.data.records import Tools
from zoo.gym.data.templates import named_template
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.humanize import today

if TYPE_CHECKING:
    from zoo.backends.answerer import Answerer
    from zoo.gym.tuned.opened import Tuned

T = TypeVar("T")

TOGETHER = 8
"""Prompts that are answered at once: several read the weights once."""


@dataclass(frozen=True)
class Answered:
    """One answer.

    Attributes:
        text: the answer.
        finish: `stop`, or `length` if it was cut.
        prompt_tokens: the tokens of the turns.
        completion_tokens: those of the answer, with the one that ended it.
    """

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int


@dataclass
class ChatSession:
    """A loaded model and the conversation so far.

    Attributes:
        policy: the model.
        tokenizer: its tokenizer.
        options: the date that a template prints.
        sampling: how answers are sampled, and the tokens at which they end.
        positions: the longest input that the model supports, in tokens, if its config says so.
        seed: answer n is sampled with the stream `seed + n`.
        system: the system prompt of every conversation; empty for none.
        messages: the conversation that `talk` continues.
        threads: how many compute an answer; None takes as many as torch is set to.
        lessons: text behind the system prompt, which may change between two turns; or what returns
            it for the words of the user so far.
        is_cut: whether the last answer reached the maximum length.
    """

    policy: "Answerer"
    tokenizer: Tokenizer
    options: EncodeOptions
    sampling: Sampling
    positions: int | None = None
    seed: int = 0
    system: str = ""
    messages: list[Message] = field(default_factory=list[Message])
    threads: int | None = None
    lessons: str | Callable[[str], str] = ""
    is_cut: bool = False
    _answers: int = 0
    _prefixes: Prefixes = field(init=False)

    def __post_init__(self) -> None:
        """Starts with nothing read."""
        self._prefixes = Prefixes(self.policy, self.tokenizer, self.options)

    def answer(self, prompt: str) -> str:
        """Answers one prompt on its own, outside the conversation.

        Raises:
            InputError: the prompt is empty, not UTF-8, or too long for the model.
        """
        return self.answers([prompt])[0]

    def answers(self, prompts: Sequence[str]) -> list[str]:
        """Answers each prompt on its own, outside the conversation, `TOGETHER` at a time.

        Sums of several prompts are rounded unlike those of one: where two tokens are almost equally
        likely, an answer may differ from that of `answer`.

        Raises:
            InputError: see `answer`.
        """
        chats = [self._framed([Message("user", text_of("prompt", prompt))]) for prompt in prompts]
        texts: list[str] = []
        for start in range(0, len(chats), TOGETHER):
            part = chats[start : start + TOGETHER]
            first = self.seed + self._answers
            seeds = range(first, first + len(part))
            answered = self._answered_in_room(part, self.sampling, seeds)
            texts += [answer.text for answer in answered]
            self.is_cut = answered[-1].finish == "length"
            self._answers += len(part)
        return texts

    def talk(self, prompt: str) -> str:
        """Answers the next turn of the conversation and adds both to it.

        Raises:
            InputError: the prompt is empty or not UTF-8, or the conversation is too long for the
                model.
        """
        return _returned(self.stream(text_of("prompt", prompt)))

    def retry(self) -> str:
        """Answers the last turn of the conversation once more, with other draws.

        Raises:
            InputError: there is none; see also `talk`.
        """
        return _returned(self.stream())

    def stream(self, prompt: str | None = None) -> Generator[str, None, str]:
        """Yields an answer in parts while it is computed, and returns all of it.

        After the last part the prompt and the answer are added to the conversation; a generator
        that is closed before leaves it as it was.

        Args:
            prompt: the next turn; None answers the last one once more, with other draws.

        Raises:
            InputError: see `talk` and `retry`.
        """
        earlier = self.messages
        if prompt is None:
            if not earlier:
                raise InputError(
                    "nothing to answer again: expected a prompt before",
                    code="chat.nothing_to_retry",
                )
            earlier, prompt = earlier[:-2], earlier[-2].content
        turns = [*earlier, Message("user", text_of("prompt", prompt))]
        chat, seed = self._framed(turns), self.seed + self._answers
        answered = yield from self._answered_in_parts(chat, self.sampling, seed)
        self._answers += 1
        self.is_cut = answered.finish == "length"
        reasoning, content = split_thinking(answered.text)
        self.messages = [*turns, Message("assistant", content, reasoning)]
        return answered.text

    def replies(
        self, chats: Sequence[list[Message]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Answered]:
        """Answers several chats at once, outside the conversation and without its system prompt.

        Args:
            chats: the turns of each; the last one is the user's.
            sampling: how answers are drawn; they end at the stops of this session.
            seeds: the stream of the draws of each.

        Raises:
            InputError: see `answer`.
        """
        drawn = replace(sampling, stop_ids=self.sampling.stop_ids)
        return self._answered_in_room(chats, drawn, seeds)

    def _answered_in_room(
        self, chats: Sequence[list[Message]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Answered]:
        longest = max(len(encode_prompt(chat, self.tokenizer, self.options)) for chat in chats)
        if self.positions is None or longest + sampling.max_new_tokens <= self.positions:
            return self._answered(chats, sampling, seeds)
        # together, all would have only the room that the longest one leaves
        pairs = zip(chats, seeds, strict=True)
        return [self._answered([chat], sampling, [seed])[0] for chat, seed in pairs]

    def _framed(self, messages: list[Message]) -> list[Message]:
        """Returns a conversation with its system prompt and lessons."""
        asked = "\n".join(turn.content for turn in messages if turn.role == "user")
        lessons = self.lessons if isinstance(self.lessons, str) else self.lessons(asked)
        system = [text for text in (self.system, lessons) if text.strip()]
        if system:
            return [Message("system", "\n\n".join(system)), *messages]
        return messages

    def _answered(
        self, chats: Sequence[list[Message]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Answered]:
        ids, sampling = self._encoded(chats, sampling)
        with with_threads(self.threads):
            read = self._prefixes.of(chats, ids)
            rollouts = self.policy.generate(ids, sampling, keys=list(seeds), prefix=read)
        pairs = zip(ids, rollouts, strict=True)
        return [self.answer_of(prompt, rollout, sampling) for prompt, rollout in pairs]

    def _answered_in_parts(
        self, chat: list[Message], sampling: Sampling, seed: int
    ) -> Generator[str, None, Answered]:
        ids, sampling = self._encoded([chat], sampling)
        parts = Parts(self.tokenizer.decode, sampling.stop_strings)
        events: list[TokenEvent] = []
        with with_threads(self.threads):
            read = self._prefixes.of([chat], ids)
            stream = self.policy.stream(ids, sampling, keys=[seed], prefix=read)
        while not events or events[-1].finish is None:
            with with_threads(self.threads):  # not while somebody reads a part
                events.append(next(stream))
            token = events[-1].id
            if token not in sampling.stop_ids and (part := parts.add(token)):
                yield part
        answered = self.answer_of(ids[0], rollouts_of(events, 1)[0], sampling)
        if rest := parts.rest(answered.text):
            yield rest
        return answered

    def _encoded(
        self, chats: Sequence[list[Message]], sampling: Sampling
    ) -> tuple[list[list[int]], Sampling]:
        """Returns the tokens of chats, and the settings with the room that they leave."""
        ids = [self.prompt_ids(messages) for messages in chats]
        return ids, self.with_room(max(map(len, ids)), sampling)

    def prompt_ids(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        """Returns the tokens of turns, the last of which is answered.

        Raises:
            InputError: it is empty, or not UTF-8; see also `encode_prompt`.
        """
        if messages[-1].role == "user" and not messages[-1].content.strip():
            raise InputError("prompt: expected some text, got none", code="chat.empty_prompt")
        return encode_prompt(messages, self.tokenizer, self.options, tools)

    def with_room(self, longest: int, sampling: Sampling) -> Sampling:
        """Returns settings of an answer with the room that prompts of so many tokens leave.

        Raises:
            InputError: they leave none.
        """
        room = sampling.max_new_tokens
        if self.positions is not None:
            room = min(room, self.positions - longest)
        if room < 1:
            raise InputError(
                f"prompt: expected fewer than {self.positions} tokens, got {longest}",
                hint="start a new conversation, or shorten the prompt",
                code="chat.prompt_too_long",
            )
        return replace(sampling, max_new_tokens=room, decode=self.tokenizer.decode)

    def answer_of(self, prompt: Sequence[int], rollout: Rollout, sampling: Sampling) -> Answered:
        """Returns what a model wrote as text."""
        ids = [token for token in rollout.ids if token not in sampling.stop_ids]
        text = before_stop(self.tokenizer.decode(ids), sampling.stop_strings).strip(LINE_END)
        return Answered(text, rollout.finish, len(prompt), len(rollout.ids))


def _returned(parts: Generator[object, None, T]) -> T:
    """Runs a generator to its end and returns what it returns."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            returned: T = end.value
            return returned


@contextmanager
def open_chat(
    base: StrPath,
    *,
    adapter: StrPath | None = None,
    delta: StrPath | None = None,
    max_new_tokens: int = 256,
    temperature: float | None = 0.0,
    seed: int = 0,
    system: str | None = None,
    template: StrPath | None = None,
) -> Generator[ChatSession]:
    """Yields a session with a loaded model for the duration of a `with` block.

    Args:
        base: a model's name or folder; nothing is downloaded. llama.cpp answers for a GGUF file.
        adapter: a peft folder to apply to it; a LoRA adapter in GGUF to a GGUF file.
        delta: a delta file to apply to it instead; not both.
        max_new_tokens: the maximum number of tokens in an answer.
        temperature: 0 takes the most likely token each time; None is as the model's
            `generation_config.json` says: its temperature, top_p and top_k if it says to sample.
        seed: the sampling seed.
        system: the system prompt; None is the one that the adapter or delta was trained with, if
            this machine has the text, "" is none.
        template: the chat template, by name or a file, as in `TrainConfig`; None is that of the
            adapter or delta, or else the model's own.

    Raises:
        NotAvailableError: the file of the template does not exist.
        InputError: an argument is of another type or out of range, both an adapter and a delta are
            given, the folder, adapter or delta cannot be used, or `system` is not UTF-8.

    Warns:
        GymWarning: the adapter was made for another base or changes nothing, the base has another
            tokenizer or chat template than in training, or the model's files contain generation
            settings that are not applied.
    """
    from zoo.backends.base import LoadSpec
    from zoo.gym.delta.loadable import Loadable
    from zoo.gym.delta.origin.record import joint_of_result
    from zoo.gym.delta.sanity import warn_of_no_effect
    from zoo.gym.engine import engine_for
    from zoo.models.folder import count_parameters, model_positions, vocabulary_size

    adapter, delta = path_or_none("adapter", adapter), path_or_none("delta", delta)
    if adapter is not None and delta is not None:
        raise InputError(
            "delta: expected one of adapter and delta, got both", code="chat.two_fine_tunes"
        )
    check_sampling(max_new_tokens, temperature, seed)
    template = None if template is None else _template(template)
    system = None if system is None else text_of("system", system)
    require_unicode(system or "", "system prompt")
    base = model_folder("base", base)
    if is_for_llamacpp(base, adapter, delta):
        drawn = check_sampling(max_new_tokens, temperature, seed)
        with open_gguf_chat(base, adapter, template, rows=TOGETHER) as (parts, stops):
            drawn = replace(drawn, stop_ids=stops)
            yield ChatSession(*parts, drawn, parts[2].cutoff_len, seed, system or "")
        return
    stated = stated_sampling(base) if temperature is None else None
    sampling = check_sampling(max_new_tokens, temperature, seed, stated)
    tuned = _opened(base, adapter, delta, has_template=template is not None)
    if system is None:
        system = "" if tuned is None else _known_system(tuned)
    warn_of_settings(base)
    stored = tuned.record.tokenizer if tuned is not None and delta is not None else None
    tokens = own_tokenizer(base, adapter or delta, template, stored)
    for note in tokens.notes:
        warnings.warn(note, GymWarning, stacklevel=3)
    tokenizer = tokens.tokenizer
    threads = choose_threads(count_parameters(base))
    positions = model_positions(base)
    vocabulary = vocabulary_size(base)
    options = EncodeOptions(
        cutoff_len=positions or 1 << 20,
        date=today(),
        vocabulary=vocabulary,
        joint=joint_of_result(base) if tuned is None else tuned.record.joint,
    )
    sampling = replace(sampling, stop_ids=chat_stops(base, tokenizer, options))
    with ExitStack() as stack:
        model = Loadable(base, adapter)
        if tuned is not None and delta is not None:
            model = stack.enter_context(tuned.loadable())
        with callers_state_kept():
            use_threads(threads)
            engine = engine_for(model.folder, model.adapter)
            policy = engine.load(model.folder, LoadSpec(adapter=model.adapter))
        if adapter is not None:
            warn_of_no_effect(adapter)
        yield ChatSession(
            policy, tokenizer, options, sampling, positions, seed, system, threads=threads
        )


def _template(template: object) -> str:
    try:
        return named_template(template)
    except InputError as error:
        raise InputError(f"template: {error.message}", code="chat.template") from None


def _opened(
    base: Path, adapter: Path | None, delta: Path | None, *, has_template: bool
) -> "Tuned | None":
    """Returns the fine-tune of a chat, None for a base alone; warns if it is of another base."""
    from zoo.gym.tuned.opened import open_tuned
    from zoo.gym.tuned.source import Source

    path = adapter or delta
    if path is None:
        return None
    tuned = open_tuned(Source("delta" if adapter is None else "adapter", path), base)
    tuned.warn_of_base(has_template=has_template)
    return tuned


def _known_system(tuned: "Tuned") -> str:
    """Returns the system prompt that a fine-tune was trained with, or none.

    Warns:
        GymWarning: there was one, and its text is not on this machine.
    """
    if tuned.record.system is None:
        warnings.warn(
            f"{tuned.source.path}: it was trained with a system prompt that is not on this "
            "machine: give it as system",
            GymWarning,
            stacklevel=5,
        )
    return tuned.record.system or ""


def generate(
    base: StrPath,
    prompts: Sequence[str],
    *,
    adapter: StrPath | None = None,
    delta: StrPath | None = None,
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    seed: int = 0,
    system: str | None = None,
    template: StrPath | None = None,
) -> list[str]:
    """Returns an answer to each prompt, each in a conversation of its own.

    The model is loaded once for all of them; for a conversation, or for prompts that come one after
    the other, see `open_chat`.

    Args:
        base: a model's name or folder; nothing is downloaded.
        prompts: what to answer.
        adapter: a peft folder to put on the model.
        delta: a delta file to put on it instead; not both.
        max_new_tokens: the maximum number of tokens in an answer.
        temperature: 0 takes the most likely token each time.
        seed: the sampling seed.
        system: the model reads it before each prompt; None and "" as in `open_chat`.
        template: the chat template, as in `open_chat`.

    Raises:
        InputError: see `open_chat`; or `prompts` is no list of text, or one is empty or too long.
    """
    given = cast("object", prompts)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(
            f"prompts: expected a list of text, got {shown(given)}", code="chat.prompts"
        )
    asked = [text_of("prompts", prompt) for prompt in prompts]
    with open_chat(
        base,
        adapter=adapter,
        delta=delta,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        system=system,
        template=template,
    ) as session:
        return session.answers(asked)
