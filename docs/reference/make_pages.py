"""Generates the tables of the reference pages: those in `main`.

The figures in training.md are those in bench/results.

Run it after changing commands or settings: python docs/reference/make_pages.py
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from cyclopts import App

from zoo.backends.optimizer_spec import OPTIMIZERS
from zoo.backends.torch.checks import faults
from zoo.gym.cli.boundary import build_app
from zoo.gym.cli.flags import SETTINGS
from zoo.gym.cli.verbs import ABSENT, VERBS
from zoo.gym.config.describe import Description, describe_fields, describe_settings
from zoo.gym.config.foreign import (
    ALIASES,
    MISSING,
    MISSING_PREFIXES,
    VALUES_OF_SWITCHES,
    WITHOUT_EFFECT,
)
from zoo.gym.config.reward import KINDS as REWARDS
from zoo.gym.config.reward import RewardSettings
from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import InputError
from zoo.gym.recommend.rules import RULES, Case, Rule
from zoo.gym.refusals import is_refusal, wilson
from zoo.models import pico_folder

FOLDER = Path(__file__).parent
MARK = "<!-- made -->\n"
RESULTS = FOLDER.parents[1] / "bench" / "results"
LABELLED = FOLDER.parents[1] / "tests" / "gym" / "refusals" / "answers.jsonl"

FULL = {"finetuning_type": "full"}

KINDS: dict[str, dict[str, Any]] = {
    "LoRA": {},
    "rsLoRA": {"use_rslora": True},
    "LoRA+": {"loraplus_lr_ratio": 16.0},
    "DoRA": {"finetuning_type": "dora"},
    "PiSSA": {"pissa_init": True},
    "LoftQ": {"loftq_init": True},
    "OFT": {"finetuning_type": "oft"},
    "modules whole beside LoRA": {"additional_target": "embed_tokens"},
    "some layers": {"finetuning_type": "freeze"},
    "all weights": FULL,
}
"""What is trained, and the settings that choose it."""

PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "torch": ("cpu", {}),
    "torch, 4 bits": ("cpu", {"quantization_bit": 4}),
    "torch, 8 bits": ("cpu", {"quantization_bit": 8}),
    "torch, `stream_layers`": ("cpu", {"stream_layers": True}),
    "MLX": ("mlx", {}),
    "MLX, 4 bits": ("mlx", {"quantization_bit": 4}),
}
"""Engines and what they do to the base."""

DEVICES = {"a CPU": "cpu", "CUDA": "cuda", "MPS": "mps", "MLX": "mlx"}

OTHERS: dict[str, dict[str, Any]] = {
    "`packing=true`": {"packing": True},
    "`stream_layers=true`": {"stream_layers": True},
    "`activation_offloading=true`": {"activation_offloading": True},
    "`enable_liger_kernel=true`": {"enable_liger_kernel": True},
    "`flash_attn=sdpa`": {"flash_attn": "sdpa"},
    "`rope_scaling=yarn`": {"rope_scaling": "yarn", "cutoff_len": 100_000, **FULL},
    "`neftune_noise_alpha=5`": {"neftune_noise_alpha": 5.0},
    "`quantization_bit=3`": {"quantization_bit": 3},
}
"""Settings that not every device has."""

NANO = "--model zen-nano"
MEASURED = (
    ("LoRA, rows of 512 tokens", NANO, "nano", "step, 512 tokens: peak"),
    ("LoRA, rows of 2,048 tokens", NANO, "nano", "step, 2048 tokens: peak"),
    (
        "LoRA, 512 tokens, base in 4 bits",
        f"{NANO} quantization_bit=4",
        "nano_qlora",
        "nf4: 3 steps of 512 tokens: peak",
    ),
    (
        "GRPO, 4 answers of 128 tokens, base in 4 bits",
        f"stage=grpo {NANO} quantization_bit=4",
        "nano_qlora",
        "nf4: GRPO, 4 x (128 + 128): peak",
    ),
    (
        "LoRA, 512 tokens, base in its files: added to the libraries",
        f"{NANO} stream_layers=true",
        "streaming",
        "LoRA, 512 tokens, layers streamed: memory added",
    ),
)
"""What was measured with zen-nano's shape: name, settings, file of results, case."""


def cli_page() -> str:
    """Returns the part of cli.md below the mark: every command with its options."""
    app = build_app()
    absent = [(f"`{word}`", text) for word, text in sorted(ABSENT.items())]
    return "\n".join(
        [
            *(_command(app, verb.words) for verb in VERBS),
            "## Refused by name\n\nCommands and options of published texts and earlier versions.\n",
            *_table(("command", "message"), absent),
            "",
        ]
    )


def config_page() -> str:
    """Returns the part of config.md below the mark: every key."""
    settings = [
        (f"`{item.key}`", item.kind.replace(" | ", ", "), item.note, item.text)
        for item in describe_settings()
    ]
    aliases = [(f"`{name}`", f"`{key}`") for name, key in sorted(ALIASES.items())]
    aliases += [
        (f"`{name}: true`", f"`{key}: {value}`")
        for name, (key, value) in sorted(VALUES_OF_SWITCHES.items())
    ]
    ignored = [(f"`{key}`", reason) for key, reason in sorted(WITHOUT_EFFECT.items())]
    missing = [(f"`{key}`", text) for key, text in sorted(MISSING.items())]
    missing += [(f"`{key}...`", text) for key, text in sorted(MISSING_PREFIXES.items())]
    return "\n".join(
        [
            *_table(("key", "kind", "range and default", "meaning"), settings),
            "\n## Other spellings\n",
            *_table(("key", "means"), aliases),
            "\n## Recognised, without effect\n",
            *_table(("key", "why"), ignored),
            "\n## Refused by name\n\nFalse, none and 0 switch a feature off and are accepted.\n",
            *_table(("key", "message"), missing),
            "",
        ]
    )


def rewards_page() -> str:
    """Returns the part of rewards.md below the mark: every kind of reward with its options."""
    common = set(RewardSettings.model_fields)
    lines = ["## Options of all kinds\n", *_options(describe_fields(RewardSettings))]
    for name, model in REWARDS.items():
        own = [item for item in describe_fields(model) if item.key not in common]
        lines += [f"\n## {name}\n", str(model.__doc__), *([""] if own else []), *_options(own)]
    return "\n".join([*lines, ""])


def recommend_page() -> str:
    """Returns the part of recommend.md below the mark: every rule."""
    titles = {
        "method": "Methods",
        "setting": "Settings",
        "memory": "When memory is short, in this order",
        "note": "Notes",
    }
    lines: list[str] = []
    for part, title in titles.items():
        rows = [_rule(rule) for rule in RULES if rule.part == part]
        lines += [f"## {title}\n", *_table(("rule", "when", "does", "reason"), rows), ""]
    return "\n".join(lines)


def _rule(rule: Rule) -> tuple[str, ...]:
    """Returns the cells of a rule; a setting that depends on the rows is that of long rows."""
    when = f"`--want {' or '.join(rule.wants)}`: {rule.condition}" if rule.wants else rule.condition
    settings = rule.settings(Case("", longest_tokens=3000)).items()
    words = [
        f"`{key}={json.dumps(value)}`".replace(chr(34), "") for key, value in settings if value
    ]
    method = [f"`{rule.method}`"] if rule.method else []
    recipe = [f"recipe `zen-nano-{rule.recipe}.yaml`"] if rule.recipe else []
    names = {name: f"`{name}`" for name in (*Case.__dataclass_fields__, "model")}
    does = ", ".join([*method, *recipe, *words])
    return f"`{rule.name}`", when, does, rule.reason.format_map(names)


def refusals_page() -> str:
    """Returns the part of refusals.md below the mark: how often the rule on answers is wrong."""
    lines = LABELLED.read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    half = len(answers) // 2
    halves = (("the rule was tuned on", answers[:half]), ("kept from the tuning", answers[half:]))
    return "\n".join(
        [
            "## Error of the rule\n",
            *_table(
                ("answers", "of them refusals", "refusals missed", "others taken for one", "wrong"),
                [(f"{len(rows)} {name}", *_errors_of_rule(rows)) for name, rows in halves],
            ),
            "",
        ]
    )


def _errors_of_rule(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """Returns the number of refusals, of both kinds of error, and the share of errors."""
    wrong = [row for row in rows if is_refusal(row["answer"]) != row["refused"]]
    missed = sum(row["refused"] for row in wrong)
    counts = (sum(row["refused"] for row in rows), missed, len(wrong) - missed)
    low, high = wilson(len(wrong), len(rows))
    share = f"{len(wrong) / len(rows):.0%} (95 % interval {100 * low:.0f} to {high:.0%})"
    return (*map(str, counts), share)


def training_page() -> str:
    """Returns the part of training.md below the mark: what trains where, and measured figures."""
    return "\n".join(
        [
            "## Kinds of training and engines\n",
            *_table(
                ("trained", "settings", *PLACES),
                [
                    (name, _words(own), *(_mark(engine, own | base) for engine, base in _places()))
                    for name, own in KINDS.items()
                ],
            ),
            "\n## Optimizers\n",
            *_table(
                ("`optim`", "adapters", "weights in place", *DEVICES),
                [(f"`{name}`", *_of_optimizer(name)) for name in OPTIMIZERS],
            ),
            "\n## Settings of single devices\n",
            *_table(
                ("setting", *DEVICES),
                [
                    (name, *(_mark(device, own) for device in DEVICES.values()))
                    for name, own in OTHERS.items()
                ],
            ),
            "\n## Memory of zen-nano, measured\n",
            *_table(
                ("training", "settings", "peak", "measured by", "on"),
                [_measured(*row) for row in MEASURED],
            ),
            "\n## Adapters and optimizers on zen-pico, measured\n",
            *_compared(),
            "",
        ]
    )


def _places() -> Iterable[tuple[str, dict[str, Any]]]:
    return PLACES.values()


def _words(settings: Mapping[str, Any]) -> str:
    """Returns settings as they are given."""
    words = (f"{key}={json.dumps(value).strip(chr(34))}" for key, value in settings.items())
    return f"`{' '.join(words)}`" if settings else ""


def _of_optimizer(name: str) -> list[str]:
    given = {"optim": name}
    kinds = [
        any(trains(device, given | kind) for device in DEVICES.values()) for kind in ({}, FULL)
    ]
    cells = [
        any(trains(device, given | kind) for kind in ({}, FULL)) for device in DEVICES.values()
    ]
    return ["yes" if cell else "" for cell in (*kinds, *cells)]


def _mark(device: str, settings: Mapping[str, Any]) -> str:
    return "yes" if trains(device, settings) else ""


def trains(device: str, settings: Mapping[str, Any]) -> bool:
    """Returns whether settings are accepted and zen-pico can be loaded as they say.

    Args:
        device: its engine is asked; the device itself need not be there.
        settings: those that are not at their defaults.
    """
    needed = {"model_name_or_path": "zen-pico", "dataset": "rows", "gradient_checkpointing": True}
    try:
        config = TrainConfig.model_validate({**needed, **settings})
    except InputError:
        return False
    spec = load_method(config.stage).load_spec(config)
    if device != "mlx":
        return not list(faults(pico_folder(), device, spec))
    return not mlx_engine().faults(pico_folder(), spec)


@cache
def mlx_engine() -> Any:  # noqa: ANN401 - a Backend
    """Returns MLX's engine, which is asked what it accepts."""
    from zoo.backends import load_backend

    return load_backend("mlx")


def _measured(what: str, settings: str, file: str, case: str) -> tuple[str, ...]:
    found = _results(file)
    value = next(one for one in found["cases"] if one["name"] == case)
    peak = f"{value['value'] * (1 if value['unit'] == 'GB' else 1e-3):.2f} GB"
    machine = f"{found['processor']}, {found['date']}"
    return what, f"`{settings}`", peak, f"`python -m bench {file}`", machine


def _compared() -> list[str]:
    """Returns a row for each adapter and optimizer that `python -m bench optimizers` compared."""
    found = _results("optimizers")
    rows: dict[str, dict[str, str]] = {}
    for one in found["cases"]:
        name, _, what = one["name"].partition(": ")
        rows.setdefault(name, {})[what] = f"{one['value']:.4g} {one['unit']}"
    heads = ("held-out loss", "training", "peak")
    cells = [(name, *(row[head] for head in heads)) for name, row in rows.items()]
    source = (
        "30 steps of 16 words with one thread and the default rates; optimizers train all weights, "
        "adapters are trained by adamw: "
        f"`python -m bench optimizers`, {found['processor']}, {found['date']}\n"
    )
    return [source, *_table(("optimizer or adapter", *heads), cells)]


def _results(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def _options(items: list[Description]) -> list[str]:
    rows = [
        (f"`{one.key}`", one.kind.replace(" | ", ", "), " ".join(one.note.split()), one.text)
        for one in items
    ]
    return _table(("option", "kind", "range and default", "meaning"), rows) if rows else []


def made(page: str, text: str) -> str:
    """Returns a page with everything below its mark replaced."""
    head, _, _ = page.partition(MARK)
    return f"{head}{MARK}\n{text}"


def errors_page() -> str:
    """Returns the table of errors.md."""
    spec = spec_from_file_location("error_codes", FOLDER / "error_codes.py")
    assert spec is not None
    assert spec.loader is not None
    codes = module_from_spec(spec)
    spec.loader.exec_module(codes)
    return str(codes.page())


def main() -> None:
    """Writes the pages."""
    pages = {
        "cli.md": cli_page(),
        "config.md": config_page(),
        "errors.md": errors_page(),
        "recommend.md": recommend_page(),
        "refusals.md": refusals_page(),
        "rewards.md": rewards_page(),
        "training.md": training_page(),
    }
    for name, text in pages.items():
        path = FOLDER / name
        path.write_text(made(path.read_text(encoding="utf-8"), text), encoding="utf-8")


def _command(app: App, words: str) -> str:
    verb = next(verb for verb in VERBS if verb.words == words)
    found = app
    for word in words.split():
        found = found[word]
    rows = [
        (f"`{', '.join(option.names)}`", option.parameter.help or "")
        for option in found.assemble_argument_collection(parse_docstring=True)
        if option.show and option.names != ("*",) and option.parameter.group != (SETTINGS,)
    ]
    if words in {"train", "variants create"}:
        rows.append(("`--KEY`", "any setting of [config.md](config.md)"))
    usage = f"zoo-gym {words} {verb.usage}".strip()
    head = [f"## {words}\n", f"`{usage}`", f"\n{verb.summary}\n"]
    return "\n".join([*head, *_table(("option", "meaning"), rows), ""])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    cells = [[" ".join(cell.replace("|", " or ").split()) for cell in line] for line in lines]
    return [f"| {' | '.join(line)} |" for line in cells]


if __name__ == "__main__":
    main()
