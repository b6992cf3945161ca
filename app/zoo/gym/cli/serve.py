"""`zoo-gym serve`: an OpenAI-compatible server of a model and its variants."""

import asyncio
import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter
from pydantic import ValidationError

from zoo.gym.chat.gguf import is_gguf_file
from zoo.gym.cli.options import Json, Model, Offline, Switch, Template, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_base, template_of
from zoo.gym.config.report import first_fault
from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import counted
from zoo.gym.jobs import run_folders
from zoo.gym.jobs.run import is_experience
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from pathlib import Path

    from zoo.backends.spec import QuantizationSpec
    from zoo.gym.serving.run import ModelServer, ServeConfig
    from zoo.gym.serving.settings import Block
    from zoo.gym.tuned.source import Source
    from zoo.models import Resolved

Server: TypeAlias = Literal["vllm", "sglang", "tgi"]
SHOWN = 8
"""The most names of models that are printed."""

_MANY = Parameter(negative=(), show_default=False)
Variants = Annotated[tuple[str, ...], Parameter(name="--variant", metavar="[NAME=]SOURCE"), _MANY]
Names = Annotated[tuple[str, ...], Parameter(name="--allow-host", metavar="NAME"), _MANY]
Pages = Annotated[tuple[str, ...], Parameter(name="--cors", metavar="ORIGIN"), _MANY]
Adapter = Annotated[str | None, Parameter(name="--adapter_name_or_path", metavar="FOLDER")]
UserTokens = Annotated[tuple[str, ...], Parameter(name="--user-token", metavar="NAME"), _MANY]


def serve(
    *,
    model: Model = None,
    adapter: Adapter = None,
    variant: Variants = (),
    variants: str | None = None,
    template: Template = None,
    config: Annotated[str | None, Parameter(name="--config", metavar="FILE")] = None,
    print_for: Annotated[Server | None, Parameter(name="--print")] = None,
    out: Annotated[str | None, Parameter(name="--out", metavar="FOLDER")] = None,
    host: str | None = None,
    port: int | None = None,
    allow_host: Names = (),
    cors: Pages = (),
    no_token: Switch = False,
    user_token: UserTokens = (),
    allow_graders: Switch = False,
    end_with_input: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Serves a model and fine-tunes of it to programs of this machine that speak OpenAI's API.

    Args:
        model: the base's name or folder, by default that of the first variant; or a GGUF file
        adapter: a variant that is named after its folder
        variant: a run, an adapter or a delta of the base, asked for as MODEL:NAME
        variants: a folder of them, in place of `variants list`
        template: the chat template of all, in place of their own
        config: YAML with `serving:`, docs/reference/serve.md
        print_for: only print how another server is started
        out: with --print: the new folder for what that needs
        host: address to listen at, by default 127.0.0.1
        port: port to listen at, by default 8000; 0 takes any free one
        allow_host: what others call this machine in its address
        cors: a page whose scripts may ask, as https://example.org
        no_token: let every program of this machine ask
        user_token: make or show the token for this variant alone
        allow_graders: run graders in Python that jobs bring, confined
        end_with_input: end when stdin does: with the program that holds its other end
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line, once it listens
    """
    from zoo.gym.serving.settings import Block, read_block

    screen = Output(as_json)
    block = Block() if config is None else read_block(given_path(config))
    named = _named(variant) | ({} if adapter is None else {_name_of(adapter): adapter})
    flags: dict[str, object] = {
        "model": model,
        "variant": named or None,
        "variants": variants,
        "host": host,
        "port": port,
        "allow_host": list(allow_host) or None,
        "cors": list(cors) or None,
        "no_token": no_token or None,
        "user_token": list(user_token) or None,
        "allow_graders": allow_graders or None,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    # a name without effect is no template, in the file either
    given |= {"template": template_of(template or block.template, screen)}
    block = block.model_copy(update=given)
    if end_with_input and print_for is not None:
        raise InputError("--end-with-input: has no effect with --print", code="cli.no_effect")
    if print_for is not None or out is not None:
        return _print(print_for, out, block, screen, yes=yes, offline=offline)
    if block.model is not None and is_gguf_file(given_path(block.model)):
        server = _gguf_server(block, screen)
    else:
        server = _server(block, screen, yes=yes, offline=offline)
    return _run(server, screen, end_with_input=end_with_input)


def _server(block: "Block", out: Output, *, yes: bool, offline: bool) -> "ModelServer":
    """Returns the server of a model folder."""
    from zoo.gym.serving.run import ModelServer
    from zoo.gym.serving.settings import check_format, quantization_of
    from zoo.gym.variants.store import folder_of

    check_format(block, "safetensors")
    config = _config(block, quantization=quantization_of(block))
    base, sources, folder = _resolved(block, yes=yes, offline=offline)
    out.say(f"loading {base.label}")
    return ModelServer(base.folder, base.id, sources, config, folder or folder_of(base.folder))


def _resolved(
    block: "Block", *, yes: bool, offline: bool
) -> "tuple[Resolved, dict[str, Source], Path | None]":
    """Returns the base, the variants by name, and the given folder of more."""
    from zoo.gym.tuned.source import resolve_tuned

    model = block.model
    sources = {name: resolve_tuned(source) for name, source in block.variant.items()}
    if model is not None and (tuned := _fine_tune(model)) is not None:
        # a peft folder or a delta, as published texts serve them
        sources, model = {_name_of(model): tuned, **sources}, None
    _check_names(sources)
    first = next(iter(sources.values()), None)
    if model is None and first is None:
        raise InputError(
            "serve: expected --model or --variant, got neither",
            hint=_to_serve(),
            code="cli.nothing_to_serve",
        )
    folder = None if block.variants is None else given_path(block.variants)
    if folder is not None and not folder.is_dir():
        raise NotAvailableError(
            f"--variants: {folder}: no such folder", code="cli.no_variants_folder"
        )
    recorded, check = (None, None) if first is None else (first.base, first.check)
    base = resolve_base(model, recorded, "--model", check, yes=yes, offline=offline)
    return base, sources, folder


_OF_OTHERS = {"model", "variant", "variants", "template", "host", "port"}
"""Settings that other servers have as well."""


def _print(
    server: Server | None,
    folder: str | None,
    block: "Block",
    out: Output,
    *,
    yes: bool,
    offline: bool,
) -> int:
    """Prints how another server is started."""
    from zoo.gym.serving.run import DEFAULT_PORT
    from zoo.gym.variants.launch import Served, launch, sources_in
    from zoo.gym.variants.store import files_in, folder_of

    if server is None or folder is None:
        raise InputError(
            "serve: expected --print with --out FOLDER, got only one of them",
            hint="zoo-gym serve --model smollm2 --print vllm --out FOLDER",
            code="cli.missing_argument",
        )
    if unknown := sorted(block.model_fields_set - _OF_OTHERS):
        key = unknown[0].replace("_", "-")
        raise InputError(f"--{key}: has no effect with --print", code="cli.no_effect")
    if block.model is not None and is_gguf_file(given_path(block.model)):
        raise InputError(
            f"--model: expected a model folder with --print, got the GGUF file {block.model!r}",
            hint="zoo-gym models import FILE.gguf makes one",
            code="cli.bad_value",
        )
    if block.port == 0:
        raise InputError("--port: expected 1 to 65,535 with --print, got 0", code="cli.bad_value")
    base, sources, more = _resolved(block, yes=yes, offline=offline)
    sources = sources_in(more) | sources
    host, port = block.host or "127.0.0.1", block.port or DEFAULT_PORT
    served = Served(base.folder.absolute(), base.id, sources, block.template, host, port)
    started = launch(server, served, given_path(folder))
    for note in started.notes:
        out.say(note)
    if more is None and (stored := files_in(folder_of(base.folder))):
        count = counted(len(stored), "variant")
        out.say(f"not written: {count} of `zoo-gym variants list`: name them with --variant")
    out.answer(started.command)
    adapters = {name: str(path) for name, path in started.adapters.items()}
    out.result({"server": server, **asdict(started), "adapters": adapters})
    return 0


def _run(server: "ModelServer", out: Output, *, end_with_input: bool) -> int:
    """Serves until the user ends it, or with `end_with_input` until stdin does."""
    from zoo.gym.http_guard.run import until_stopped
    from zoo.gym.serving.run import token_file

    def started() -> None:
        out.answer(f"{server.name} is at {server.url}/v1")
        if server.token is not None:
            out.answer(f"token: {server.token}")
        for user, token in server.user_tokens.items():
            out.answer(f"token for {server.name}:{user} alone: {token}")
        if not server.config.is_local:
            out.say("HTTP is not encrypted: who carries it can read tokens, prompts and answers")
        ids = server.ids()
        more = f" (and {len(ids) - SHOWN:,} more)" if len(ids) > SHOWN else ""
        out.answer(f"models: {', '.join(ids[:SHOWN])}{more}")
        key = "any" if server.token is None else f"$(cat {token_file()})"
        body = {"model": ids[min(1, len(ids) - 1)], "messages": [{"role": "user", "content": "Hi"}]}
        out.say(
            f'try it: curl {server.url}/v1/chat/completions -H "Authorization: Bearer {key}" '
            f"-d {shlex.quote(json.dumps(body))}"
        )
        out.say("the end of stdin ends it" if end_with_input else "Ctrl-C ends it")
        out.result({"url": f"{server.url}/v1", "model": server.name, "variants": server.variants})

    asyncio.run(until_stopped(server, started, end_with_input=end_with_input))
    out.say("ended")
    return 0


def _gguf_server(block: "Block", out: Output) -> "ModelServer":
    """Returns the server of a GGUF file, whose variants are LoRA adapters in GGUF."""
    from zoo.gym.serving.gguf import GgufServer
    from zoo.gym.serving.settings import check_bits, check_format

    if block.variants is not None:
        raise InputError(
            f"--variants: expected none with a GGUF file, got {block.variants!r}",
            hint="llama.cpp reads its adapters when it starts: --variant NAME=ADAPTER.gguf",
            code="cli.no_variants_of_gguf",
        )
    _check_names(block.variant)
    file = given_path(str(block.model))
    adapters = {name: given_path(path) for name, path in block.variant.items()}
    for name, path in adapters.items():
        if not is_gguf_file(path):
            raise InputError(
                f"--variant: {name}: expected a LoRA adapter in GGUF, got {str(path)!r}",
                hint="zoo-gym models import FILE.gguf makes a base that takes other fine-tunes",
                code="cli.bad_value",
            )
    check_format(block, "gguf")
    check_bits(block, file)
    config = _config(block)
    out.say(f"loading {block.model}")
    return GgufServer(file, adapters, config)


def _to_serve() -> str:
    """Returns the command that serves the newest run, or a model."""
    for run in run_folders():
        if not is_experience(run) and is_adapter(run.result):
            return f"zoo-gym serve --variant {run.id} (the newest adapter)"
    return "zoo-gym serve --model smollm2"


def _fine_tune(model: str) -> "Source | None":
    """Returns the fine-tune that `--model` is the path of; None for a model."""
    from zoo.gym.tuned.source import source_at

    path = given_path(model)
    if not path.exists():
        return None
    source = source_at(path)
    return None if source.artifact == "model" else source


def _name_of(path: str) -> str:
    """Returns what a fine-tune is called that is named by its path alone."""
    return given_path(path).name.lower().removesuffix(".safetensors").removesuffix(".gguf")


def _own_name(source: str) -> str:
    """Returns the name of a run, or that of a path."""
    from zoo.gym.tuned.source import resolve_tuned
    from zoo.gym.variants.store import NAME

    if given_path(source).exists():
        return _name_of(source)
    run = resolve_tuned(source).run
    assert run is not None, "what is no path is a run"
    return run.name if run.name and NAME.fullmatch(run.name) else run.id


def _check_names(names: Iterable[str]) -> None:
    """Refuses names, of a settings file or a path, that requests and files cannot have."""
    from zoo.gym.variants.store import NAME

    for name in names:
        if not NAME.fullmatch(name):
            raise InputError(
                "variant: expected names of 1 to 64 of a-z, 0-9, '.', '_', '-', the first of them "
                f"no '.', got {name!r:.100}",
                hint="--variant NAME=SOURCE",
                code="cli.bad_value",
            )


def _named(variants: tuple[str, ...]) -> dict[str, str]:
    """Returns what is written behind each NAME= by its name, or by its own without one."""
    from zoo.gym.variants.store import NAME

    named: dict[str, str] = {}
    for text in variants:
        name, equals, source = text.partition("=")
        if not equals:
            name, source = _own_name(text), text
        if not NAME.fullmatch(name) or name in named:
            raise InputError(
                f"--variant: expected NAME=SOURCE, or SOURCE alone, with 1 to 64 of a-z, 0-9, '.', "
                f"'_', '-' in NAME and each NAME once, got {text!r}",
                code="cli.bad_value",
            )
        named[name] = source
    return named


def _names_of(host: str) -> tuple[str, ...]:
    """Returns what others call this machine if its address says so."""
    from zoo.gym.http_guard.gate import is_loopback

    is_every_address = host in {"0.0.0.0", "::"}  # noqa: S104
    return () if is_every_address or is_loopback(host) or ":" in host else (host.lower(),)


_FLAGS = {"names": "allow-host", "origins": "cors", "user_tokens": "user-token"}
"""Settings of a server whose flags have another name."""


def _config(block: "Block", quantization: "QuantizationSpec | None" = None) -> "ServeConfig":
    from zoo.gym.serving.run import ServeConfig

    settings = block.config()
    settings.setdefault("names", _names_of(block.host or "127.0.0.1"))
    try:
        return ServeConfig.model_validate(settings | {"quantization": quantization})
    except ValidationError as error:
        key, message = first_fault(error)
        if not key:  # settings that do not fit together: the message begins with one
            key, _, message = message.partition(": ")
            key, _, value = key.partition(" ")
            message = f"{value}: {message}" if value else message
        hint = "--allow-host NAME, as in the address that others use" if key == "host" else None
        flag = _FLAGS.get(key, key)
        raise InputError(f"--{flag}: {message}", hint=hint, code="cli.bad_value") from None
