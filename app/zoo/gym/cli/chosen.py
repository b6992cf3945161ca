"""Which model answers: a base, or a fine-tune of it, as `chat` and `inference` take it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.chat.gguf import is_gguf_file
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_base
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.jobs import open_run
from zoo.gym.offline import go_offline
from zoo.gym.paths import given_path
from zoo.models import PICO, pico_folder

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession
    from zoo.gym.tuned.source import Source
    from zoo.models import Resolved

Adapter = Annotated[str | None, Parameter(name="--adapter_name_or_path")]
MaxTokens = Annotated[int, Parameter(name="--max_new_tokens")]


@dataclass(frozen=True)
class Chosen:
    """What the user chose.

    Attributes:
        base: the folder or the GGUF file that is loaded.
        name: what the user calls it.
        tuned: the fine-tune; None for a model alone, or a GGUF file.
        lora: a LoRA adapter in GGUF.
        label: the id and commit of the base; empty for one that has no commit.
    """

    base: Path
    name: str
    tuned: "Source | None" = None
    lora: Path | None = None
    label: str = ""

    @property
    def loading(self) -> str:
        """What is loaded, in words: the name, and the model that it means."""
        return f"loading {self.name}" + (f": {self.label}" if self.label else "")

    @property
    def adapter(self) -> Path | None:
        """The adapter to apply to the base, in either form."""
        is_adapter = self.tuned is not None and self.tuned.artifact == "adapter"
        return self.tuned.path if is_adapter and self.tuned is not None else self.lora

    @property
    def delta(self) -> Path | None:
        """The delta to apply to the base."""
        is_delta = self.tuned is not None and self.tuned.artifact == "delta"
        return self.tuned.path if is_delta and self.tuned is not None else None

    @property
    def is_pico(self) -> bool:
        """Whether it is the test model, or a fine-tune of it."""
        return self.base == pico_folder() or (self.tuned is not None and self.tuned.base == PICO)


def choose(
    *,
    model: str | None,
    adapter: str | None,
    delta: str | None,
    run: str | None,
    yes: bool,
    offline: bool,
) -> Chosen:
    """Finds what the flags name; a base may be downloaded after consent.

    Raises:
        InputError: more than one fine-tune was given, or it is of the wrong kind.
        NotAvailableError: something is missing.
    """
    if model is not None and not (adapter or delta or run) and (file := _stored(model)):
        model, delta = None, str(file)
    tuned = _fine_tune(run=run, adapter=adapter, delta=delta)
    lora: Path | None = None
    if tuned is not None and is_gguf_file(tuned.path):
        lora, tuned = tuned.path, None
    base, name, label = _base(tuned, model, yes=yes, offline=offline)
    return Chosen(base, name, tuned, lora, label)


def _stored(model: str) -> Path | None:
    """Returns the delta of a variant that is named as `BASE:NAME`; None for other models."""
    from zoo.gym.variants.store import find

    if ":" not in model or given_path(model).exists():
        return None
    try:
        return find(model).file
    except (InputError, NotAvailableError):
        return None


def _fine_tune(*, run: str | None, adapter: str | None, delta: str | None) -> "Source | None":
    """Returns the given fine-tune, or None if there is none.

    Raises:
        InputError: more than one was given, or it is of the wrong kind.
        NotAvailableError: it is missing.
    """
    from zoo.gym.tuned.source import Source, source_of_run

    named = {"--run": run, "--adapter_name_or_path": adapter, "--delta": delta}
    options = [option for option, value in named.items() if value is not None]
    if len(options) > 1:
        raise InputError(
            f"{options[1]}: expected one of {', '.join(named)}, got also {options[0]}",
            code="cli.given_twice",
        )
    if run is not None:
        return source_of_run(open_run(run))
    if adapter is not None:
        return Source("adapter", existing(adapter, "a peft folder"))
    return None if delta is None else Source("delta", existing(delta, "a delta file"))


def _base(
    tuned: "Source | None", model: str | None, *, yes: bool, offline: bool
) -> tuple[Path, str, str]:
    """Returns the folder that is loaded, what the user calls it, and the label of a base."""
    if tuned is None and model is not None and is_gguf_file(given_path(model)):
        return given_path(model), model, ""
    if tuned is None:
        base = resolve_base(model, None, "--model", yes=yes, offline=offline)
        return base.folder, str(model), _label(base)
    if tuned.artifact == "model":
        if model is not None:
            _refuse_second_model(model, tuned.path)
        go_offline()  # it needs no lookup
        return tuned.path, str(tuned.path), ""
    recorded = tuned.base
    base = resolve_base(model, recorded, "--model", tuned.check, yes=yes, offline=offline)
    name = base.id if tuned.artifact == "delta" else str(model or recorded)
    return base.folder, name, _label(base)


def _label(base: "Resolved") -> str:
    """Returns id and commit; nothing for a model that has no commit."""
    return "" if base.revision is None else base.label


def trained_system(tuned: "Source | None", out: Output) -> str:
    """Returns the system prompt of the training, and reports that it is used or missing."""
    from zoo.gym.data.reading.turns.values import shown
    from zoo.gym.tuned.record import Record

    system = "" if tuned is None else Record(tuned).system
    if system is None:
        out.say(
            "it was trained with a system prompt that is not on this machine: give it with --system"
        )
    if system:
        out.say(f"system prompt from training: {shown(system)} (change it with --system)")
    return system or ""


def _refuse_second_model(model: str, folder: Path) -> None:
    """Refuses a base for a run that trained a whole model, unless it is that model."""
    if given_path(model).resolve() != folder.resolve():
        raise InputError(
            f"--model: expected none with a run that trained a whole model, got {model!r}",
            hint="omit --model, or omit --run to chat with the other model",
            code="cli.second_model",
        )


def refuse_server(model: str | None) -> None:
    """Refuses a model on a server, and names the command that asks one."""
    from zoo.gym.experience.providers.names import hosted

    if model is not None and not given_path(model).exists() and hosted(model) is not None:
        raise InputError(
            f"--model: expected a model of this machine, got one on a server: {model!r}",
            hint=f"zoo-gym experience infer QUERY --model {model} --library NAME",
            code="cli.model_on_a_server",
        )


def sampled_as(session: "ChatSession") -> str:
    """Returns how answers are drawn by the model's own settings."""
    drawn = session.sampling
    more = f", top_p {drawn.top_p:g}" if drawn.top_p < 1 else ""
    more += f", top_k {drawn.top_k}" if drawn.top_k else ""
    return f"sampled as the model says: temperature {drawn.temperature:g}{more} (--temperature 0)"


def check_numbers(max_new_tokens: int, temperature: float | None, seed: int) -> None:
    """Checks the arguments before the model is loaded."""
    from zoo.gym.chat.greedy import check_sampling

    try:
        check_sampling(max_new_tokens, temperature, seed)
    except InputError as error:  # its message starts with the setting
        raise InputError(f"--{error.message}", code="cli.bad_value") from None
