"""The child process that renders untrusted chat templates, so that it can be killed.

`renderer.py` runs this file as a script; it imports nothing from zoo-gym. It reads requests from
stdin and writes replies to stdout, each a length of 4 bytes followed by JSON. Its environment is
that of transformers (`transformers.utils.chat_template_utils`), so the output is the same;
`strftime_now` always returns the given date.
"""

import json
import signal
import sys
from datetime import date
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

FAILURES = (
    *(jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, NameError),
    *(RuntimeError, SyntaxError, TypeError, ValueError),
)
"""Errors that template code can raise; any other ends the child, which is also reported."""


class Generation(jinja2.ext.Extension):
    """Supports `{% generation %}` in a template; its body is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> Any:  # noqa: ANN401
        """Returns the body of the block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Any) -> Any:  # noqa: ANN401
        return caller()


class Namespace(jinja2.utils.Namespace):
    """A namespace that refuses names with a leading underscore."""

    def __init__(*args: Any, **names: Any) -> None:  # noqa: ANN401
        """Also accepts `self` as a name, as in Jinja itself."""
        self, rest = args[0], args[1:]
        values = dict(*rest, **names)
        for name in values:
            _refuse_hidden(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Sets a name."""
        _refuse_hidden(name)
        super().__setitem__(name, value)


class Dictionary:
    """Creates dictionaries without giving access to the attributes of the type."""

    def __call__(self, *args: Any, **names: Any) -> dict[Any, Any]:  # noqa: ANN401
        """Returns a dictionary."""
        return dict(*args, **names)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:  # noqa: ANN401
        """Returns a dictionary of equal values."""
        return dict.fromkeys(*args)


def _refuse_hidden(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"the name {name!r} is not allowed in a namespace")


def _refuse(message: object) -> None:
    raise jinja2.exceptions.TemplateError(str(message))


def _to_json(
    value: Any,  # noqa: ANN401
    ensure_ascii: bool = False,
    indent: Any = None,  # noqa: ANN401
    separators: Any = None,  # noqa: ANN401
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


@lru_cache(maxsize=8)
def compiled(source: str, today: str) -> Any:  # noqa: ANN401
    """Returns a compiled template for one date."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    day = date.fromisoformat(today)

    def strftime_now(form: object) -> str:
        return day.strftime(str(form))

    variables: Any = environment.globals
    variables |= {
        "raise_exception": _refuse,
        "strftime_now": strftime_now,
        "namespace": Namespace,
        "dict": Dictionary(),
    }
    return environment.from_string(source)


def line_of(error: BaseException) -> int | None:
    """Returns the template line that raised an error."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Renders chats; an error of the template becomes an answer too."""
    try:
        template = compiled(request["source"], request["today"])
        texts: list[str] = []
        for chat, stop, prompt in request["renders"]:
            variables = request["variables"] | {"messages": request["chats"][chat][:stop]}
            if request["tools"]:
                variables["tools"] = request["tools"][chat] or None
            texts.append(template.render(variables, add_generation_prompt=prompt))
        return {"texts": texts}
    except FAILURES as error:
        refused = isinstance(error, jinja2.TemplateError)
        name = "" if type(error) is jinja2.TemplateError else f"{type(error).__name__}: "
        message = f"{name}{error}"[:2000]
        return {"error": message, "line": line_of(error), "refused": refused}


def _limit_memory(most_bytes: int) -> None:
    if sys.platform in {"win32", "darwin"}:  # macOS does not enforce this limit
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > most_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def main() -> None:
    """Answers requests until stdin ends; each has a limit of CPU time."""
    most_s, most_bytes = float(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory(most_bytes)
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(4):
        request = json.loads(requests.read(int.from_bytes(head, "big")))
        if hasattr(signal, "setitimer"):
            # the signal ends the process, whatever the template is doing, even if orphaned
            signal.setitimer(signal.ITIMER_PROF, most_s)
        reply = json.dumps(answer(request)).encode()
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0)
        replies.write(len(reply).to_bytes(4, "big") + reply)
        replies.flush()


if __name__ == "__main__":
    main()
