"""The sections of a model card that load the model, ask it, and name its licence."""

from dataclasses import dataclass
from pathlib import Path

from zoo.gym.data.own_tokenizer import TEMPLATE, stated_parts
from zoo.gym.errors import NotAvailableError
from zoo.models import Resolved, family_entry

HERE, BASE, PROMPT = "FOLDER OF THIS FILE", "FOLDER OF THE BASE", "YOUR PROMPT"
"""What a reader of a card replaces."""

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")

_ASK_CHAT = f"""
messages = [{{"role": "user", "content": "{PROMPT}"}}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
"""
_SETTINGS = """settings = {"do_sample": False, "max_new_tokens": 256}
"""
_ENDS = 'settings["eos_token_id"] = tokenizer.eos_token_id  # not the base\'s\n'
_ANSWER = """ids, mask = inputs["input_ids"], inputs["attention_mask"]
answer = model.generate(ids, attention_mask=mask, **settings)
print(tokenizer.decode(answer[0, ids.shape[1]:], skip_special_tokens=True))
"""


@dataclass(frozen=True)
class Usage:
    """How a model is loaded and asked.

    Attributes:
        base: the base of an adapter, as zoo-gym finds it; None for a whole model.
        base_place: where transformers loads the base from.
        tokenizer: where it loads the tokenizer from: the base, or the folder of the card.
        template: whether the chat template is a file beside the card, of an adapter without a
            whole tokenizer.
        joint: what ends a prompt; None for a model with a chat template.
        system: whether it was trained with a system prompt.
        scores: whether it scores answers and gives none.
        own_end: whether an adapter's answers end with another token than the base's.
    """

    base: str | None = None
    base_place: str = ""
    tokenizer: str = HERE
    template: bool = False
    joint: str | None = None
    system: bool = False
    scores: bool = False
    own_end: bool = False

    def section(self) -> str:
        """Returns the section on how transformers, peft and zoo-gym load it, and its prompts."""
        return f"## Use\n\n```python\n{self._code()}```\n\n{self._chat()}{self._form()}"

    def _code(self) -> str:
        kind = "AutoModelForSequenceClassification" if self.scores else "AutoModelForCausalLM"
        classes = f"from transformers import {kind}, AutoTokenizer\n\n"
        if self.base is None:
            lines = f'{classes}model = {kind}.from_pretrained("{HERE}")\n'
        else:
            lines = f"from peft import PeftModel\n{classes}"
            lines += f'base = {kind}.from_pretrained("{self.base_place}")\n'
            lines += f'model = PeftModel.from_pretrained(base, "{HERE}")\n'
        lines += f'tokenizer = AutoTokenizer.from_pretrained("{self.tokenizer}")\n'
        if self.template:
            lines += f'tokenizer.chat_template = open("{HERE}/{TEMPLATE}").read()\n'
        if self.scores:
            return lines
        return f"{lines}{self._ask()}{_SETTINGS}{_ENDS if self.own_end else ''}{_ANSWER}"

    def _ask(self) -> str:
        if self.joint is None:
            return _ASK_CHAT
        text = f"{PROMPT}{self.joint}".replace("\n", "\\n")
        return f'\ninputs = tokenizer("{text}", return_tensors="pt")\n'

    def _chat(self) -> str:
        if self.scores:
            return ""
        if self.base is None:
            return f"With zoo-gym: `zoo-gym chat --model '{HERE}'`.\n\n"
        words = f"--model '{self.base}' --adapter_name_or_path '{HERE}'"
        return f"With zoo-gym: `zoo-gym chat {words}`.\n\n"

    def _form(self) -> str:
        """Returns what a prompt looks like."""
        if self.joint is None:
            form = "A prompt has the form of the chat template of the tokenizer."
        elif self.joint:
            form = (
                "The base has no chat template: a prompt ends with a blank line, as the rows had "
                "between\ninstruction and output. zoo-gym adds it."
            )
        else:
            form = "There is no chat template: the model continues the prompt as it is."
        system = "\nIt was trained with a system prompt, which is not in this file."
        return f"{form}{system if self.system else ''}\n\n"


def usage_of(
    folder: Path, base: Resolved, *, adapter: bool, joint: str, system: bool, scores: bool
) -> Usage:
    """Returns how a result is loaded and asked.

    Args:
        folder: the result.
        base: the model that was trained.
        adapter: whether it is an adapter for the base.
        joint: what ends a prompt, if there is no chat template.
        system: whether it was trained with a system prompt.
        scores: whether it is a reward model.
    """
    has_template = any("chat_template" in stated_parts(origin) for origin in (folder, base.folder))
    form = None if has_template else joint
    if not adapter:
        return Usage(joint=form, system=system, scores=scores)
    origin = base.id if base.revision else BASE
    is_listed = base.revision is not None or _licence_of(base.id) is not None
    has_tokenizer = any((folder / name).is_file() for name in _TOKENIZERS)
    return Usage(
        base=base.id if is_listed else BASE,
        base_place=origin,
        tokenizer=HERE if has_tokenizer else origin,
        template=not has_tokenizer and (folder / TEMPLATE).is_file(),
        joint=form,
        system=system,
        scores=scores,
        own_end=_end_of(folder) not in (None, _end_of(base.folder)),
    )


def _end_of(folder: Path) -> str | None:
    return stated_parts(folder).get("eos_token")


def licence_head(base: str) -> dict[str, str]:
    """Returns the licence for the head of a card, as model hubs write it, if it is known."""
    licence = _licence_of(base)
    return {} if licence is None else {"license": licence.lower()}


def licence_line(base: str) -> str:
    """Returns the line of a card on the licence."""
    licence = _licence_of(base)
    named = "" if licence is None else f", {licence},"
    return f"The base model's licence{named} applies to this model, too.\n"


def _licence_of(base: str) -> str | None:
    try:
        return family_entry(base).licence
    except NotAvailableError:
        return None
