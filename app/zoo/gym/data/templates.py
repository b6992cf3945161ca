"""Chat templates by name, for bases that have none: the published formats of some families.

A prompt in one of them ends where the assistant's answer begins. They lack the system prompts that
a family adds by itself, and tools: rows with tools need the model's own template.
"""

import os

from zoo.gym.data.reading.files import read_text
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path

CHATML = """\
{% for message in messages %}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""

LLAMA3 = """\
{{ bos_token }}{% for message in messages %}
<|start_header_id|>{{ message.role }}<|end_header_id|>

{{ message.content }}<|eot_id|>{% endfor %}
{% if add_generation_prompt %}
<|start_header_id|>assistant<|end_header_id|>

{% endif %}
"""

PHI = """\
{% for message in messages %}
<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}
"""

SYSTEM_FIRST = """\
{% set system = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}
{{ bos_token }}{% for message in (messages[1:] if system else messages) %}
{% if message.role not in ['user', 'assistant'] or system and loop.first and
    message.role != 'user' %}
{{ raise_exception('expected turns of user and assistant, and a system prompt before the first') }}
{% endif %}
"""
"""The start of formats that write the system prompt into the first turn, which is the user's."""

GEMMA = (
    SYSTEM_FIRST
    + """\
<start_of_turn>{{ 'model' if message.role == 'assistant' else 'user' }}
{{ system if loop.first }}{{ message.content }}<end_of_turn>
{% endfor %}
{% if add_generation_prompt %}
<start_of_turn>model
{% endif %}
"""
)

MISTRAL = (
    SYSTEM_FIRST
    + """\
{% if message.role == 'user' %}
[INST] {{ system if loop.first }}{{ message.content }}[/INST]{% else %}
 {{ message.content }}{{ eos_token }}{% endif %}
{% endfor %}
"""
)

TEMPLATES = {
    "chatml": CHATML,
    "gemma": GEMMA,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "phi": PHI,
    "qwen": CHATML,
}


def named_template(value: object) -> str:
    """Returns the name of a template, or the path of its file.

    Raises:
        InputError: it is neither.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(text, str) and (text in TEMPLATES or {".", "/", os.sep} & {*text}):
        return text
    raise InputError(
        f"expected {', '.join(TEMPLATES)}, or a file of Jinja, got {text!r:.60}",
        code="data.bad_template",
    )


def template_text(template: str) -> str:
    """Returns the Jinja of a template that is given by name or as a file.

    Raises:
        NotAvailableError: there is no such file.
        InputError: it is empty, or not text.
    """
    if template in TEMPLATES:
        return TEMPLATES[template]
    path = given_path(template)
    if not path.is_file():
        raise NotAvailableError(
            f"template: no such file: '{template}'", code="data.missing_template"
        )
    if not (text := read_text(path)).strip():
        raise InputError(
            f"template: '{template}': expected a chat template in Jinja, got nothing",
            code="data.bad_template",
        )
    return text
