"""`zoo-gym providers`: the servers that answer chats, their settings, and whether they answer."""

import time
from collections.abc import Iterator

from zoo.gym.cli.options import Json, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.config.report import unknown
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.providers.names import hosted, require_consent
from zoo.gym.experience.providers.table import (
    Provider,
    change_provider,
    key_place,
    providers,
    providers_file,
    remove_provider,
)
from zoo.gym.humanize import money, today

_ASK = "Reply with the word yes."


def list_providers(*, as_json: Json = False) -> int:
    """Lists the servers of chat models by name.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    entries = [_shown(out, name, provider) for name, provider in providers().items()]
    for entry in entries:
        where = f" ({entry['key_from'] or 'not set'})" if entry["key"] else ""
        out.answer(f"{entry['name']:<12} {entry['url']:<36} {entry['key'] or 'no key'}{where}")
        for line in _costs(providers()[str(entry["name"])]):
            out.answer(f"  {line}")
    out.say(f"settings: {providers_file()}; an id is NAME/MODEL, such as deepseek/MODEL")
    out.result({"providers": entries, "file": str(providers_file())})
    return 0


def set_provider(name: str, /, *settings: str, as_json: Json = False) -> int:
    """Changes the settings of a server, or adds one.

    Args:
        name: its name, which ids begin with
        settings: KEY=VALUE: url, key (a variable's name), concurrency, requests_per_minute,
            max_usd, stream, or MODEL.input, MODEL.cached, MODEL.output: USD for a million tokens;
            * is any model
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    if not settings:
        raise InputError(
            "KEY=VALUE: expected at least one setting, got none", code="cli.missing_argument"
        )
    current = providers().get(name)
    changed = change_provider(name, _changes(settings, current))
    entry = _shown(out, name, changed)
    out.answer(f"{name}: {entry['url']}, saved in {providers_file()}")
    out.result(entry)
    return 0


def remove(name: str, /, *, as_json: Json = False) -> int:
    """Removes a server and its prices from your settings; a built-in one has its own again.

    Args:
        name: its name, as in providers list
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    remove_provider(name)
    out.answer(f"{name}: removed from {providers_file()}")
    out.result({"name": name, "known": name in providers()})
    return 0


def _costs(provider: Provider) -> Iterator[str]:
    """Yields the prices of a server's models and the cap of its runs."""
    for model, price in provider.prices.items():
        cached = "" if price.cached is None else f", cached {price.cached:g}"
        yield (
            f"{model}: input {price.input:g}{cached}, output {price.output:g} USD for a million "
            f"tokens, of {price.date}"
        )
    if provider.max_usd is not None:
        yield f"cap of a run: {money(provider.max_usd)}"


def check(model: str, /, *, yes: Yes = False, as_json: Json = False) -> int:
    """Asks a model on a server for one word, and shows what came back.

    Args:
        model: its id, such as deepseek/MODEL, openai:MODEL, http://127.0.0.1:8080/v1#MODEL
        yes: send the question without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.backends.sampling import Sampling

    out = Output(as_json)
    hosted_model = hosted(model)
    if hosted_model is None:
        names = ", ".join(providers())
        raise InputError(
            f"{model}: expected a model on a server, got a name that begins with no known server",
            hint=f"SERVER/MODEL with one of {names}, or http://HOST:PORT/v1#MODEL",
            code="cli.no_such_server",
        )
    cost = "One short question leaves this machine."
    require_consent([hosted_model], cost, lambda question: confirmed(question, yes=yes))
    began = time.monotonic()
    with hosted_model.open(tell=out.say) as chat:
        reply = chat.chat([{"role": "user", "content": _ASK}], Sampling(max_new_tokens=64))
        dropped = sorted(chat.dropped)
    seconds = round(time.monotonic() - began, 3)
    out.answer(f"{model} answers: {' '.join(reply.text.split())[:200]}")
    if reply.usage is None:
        out.say("it counts no tokens: calls are booked at their worst case")
    if hosted_model.price is None and not hosted_model.is_local:
        out.say("no price is known: zoo-gym providers set NAME MODEL.input=... MODEL.output=...")
    usage = reply.usage
    out.result(
        {
            "model": model,
            "text": reply.text,
            "seconds": seconds,
            "prompt_tokens": usage.prompt_tokens if usage else None,
            "completion_tokens": usage.completion_tokens if usage else None,
            "dropped": dropped,
            "price": hosted_model.price.model_dump() if hosted_model.price else None,
        }
    )
    return 0


def _shown(out: Output, name: str, provider: Provider) -> dict[str, object]:
    try:
        origin = key_place(provider.key) if provider.key else None
    except NotAvailableError as error:
        out.say(error.message)
        origin = None
    is_set = origin is not None or not provider.key
    return {"name": name, "key_is_set": is_set, "key_from": origin, **provider.model_dump()}


_PRICES = ("input", "cached", "output")


def _changes(settings: tuple[str, ...], current: Provider | None) -> dict[str, object]:
    """Returns the settings by key; prices are merged with those known.

    Raises:
        InputError: one is not KEY=VALUE, or a price is no number.
    """
    from zoo.gym.files.yaml_entries import parse_value

    changes: dict[str, object] = {}
    prices = {m: price.model_dump() for m, price in current.prices.items()} if current else {}
    keys: set[str] = set()
    for word in settings:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InputError(
                "expected KEY=VALUE, got another word, which may be a key: it is not shown",
                code="cli.bad_value",
            )
        if key in keys:
            raise InputError(f"{key}: expected it once, got it twice", code="cli.given_twice")
        keys.add(key)
        model, dot, part = key.rpartition(".")
        if dot and part not in _PRICES:
            near = unknown("price", part, _PRICES)
            raise InputError(
                f"{key}: {near}",
                hint=f"prices are {model}.input, .cached, .output",
                code="cli.bad_value",
            )
        if dot:
            prices.setdefault(model, {})[part] = parse_value(text)
            prices[model]["date"] = today()
            changes["prices"] = prices
        else:
            changes[key] = text if key in ("url", "key") else parse_value(text)
    return changes
