"""The table of commands: words, function, usage and summary.

The parser, the help, the reference page and its test all use it.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A command: its words, `module:function`, its arguments, and a one-line summary."""

    words: str
    target: str
    usage: str
    summary: str


GROUPS = {
    "runs": "Lists, follows and controls training runs.",
    "delta": "Stores fine-tunes in small files, applies them.",
    "variants": "Keeps many people's fine-tunes of one base.",
    "data": "Inspects, repairs and makes files of examples.",
    "experience": "Learns lessons in text; no weights change.",
    "round": "Combines fine-tunes, some of them malicious.",
    "providers": "Names the servers of chat models, and tries them.",
    "models": "Lists, downloads and imports models.",
    "keys": "Makes your signing key, lists those you trust.",
}
"""Groups of commands."""

ROOT = (
    *("train", "chat", "inference", "eval", "serve", "runs", "delta", "variants", "data"),
    *("experience", "round", "export", "push", "models", "doctor", "demo"),
)
"""The first words of the commands that `zoo-gym --help` explains, in its order."""

FURTHER = (
    "recommend",
    "merge",
    "tune",
    "providers",
    "keys",
    "plan",
    "paths",
    "clean",
    "webui",
    "completion",
)
"""The first words of the others, which it lists."""

ALONE = {"models": "list"}
"""Groups that are a command as well: the second word that is meant without one."""

OTHER_NAMES = {"community": "round", "api": "serve", "evaluate": "eval"}
"""First words under a second name, which published texts use."""

OLD_VERBS = {("round", "take"): "sync"}
"""Second words that a command had before, by group."""

_SERVE = "expected zoo-gym serve --model MODEL, which speaks OpenAI's API"
_CHAT = "expected zoo-gym chat, which talks in the terminal and answers a pipe"
_RAY = (
    "there is no queue of tasks: expected zoo-gym round aggregate --ray CLUSTER, which needs none"
)

ABSENT = {
    "env": "expected zoo-gym doctor",
    "eval --harness": "tasks are measured without a harness: expected --tasks NAME --data FOLDER",
    "export --export_quantization_bit": "expected --quantization q4_k_m, or q8_0, for GGUF files",
    "export --imatrix": "importance matrices are not supported: expected --quantization q4_k_m",
    "export --infer_backend": "expected --format: gguf for llama.cpp, hf for vLLM",
    "round aggregate --queue": _RAY,
    "round attack": "attacks are tried in a clone of zoo-gym: expected python -m bench attack",
    "round work": _RAY,
    "serve --run": "expected zoo-gym serve --variant RUN",
    "start": _SERVE,
    "version": "expected zoo-gym --version",
    "webchat": _CHAT,
}
"""Commands and options of published texts and earlier versions, with the error message."""

VERBS = (
    Verb("train", "train:train", "[ITEM ...]", "Trains a model on files of examples."),
    Verb("runs list", "runs:list_runs", "", "Lists the runs, newest first."),
    Verb("runs show", "runs:show", "RUN", "Shows a run's state, settings and result."),
    Verb("runs tail", "runs:tail", "RUN", "Prints a run's events until it ends."),
    Verb("runs pause", "runs:pause", "RUN", "Pauses a run, or with --park saves and ends it."),
    Verb("runs resume", "runs:resume", "RUN", "Resumes a paused, stopped or failed run."),
    Verb("runs retry", "retry:retry", "RUN [KEY=VALUE ...]", "Starts a run again as a new one."),
    Verb("runs stop", "runs:stop", "RUN", "Saves a run and ends its process."),
    Verb("runs finish", "runs:finish_run", "RUN", "Ends a run early and keeps its best step."),
    Verb("runs rename", "runs:rename", "RUN NAME", "Gives a run a name."),
    Verb("runs diff", "diff:diff", "RUN RUN", "Compares two runs: settings, figures, data."),
    Verb("runs clean", "clean:clean", "", "Deletes old checkpoints and temporary files."),
    Verb("runs plot", "plot:plot", "RUN", "Draws a run's figures, or writes them as a table."),
    Verb("runs remove", "runs:remove", "RUN", "Deletes a run with everything in it."),
    Verb(
        "delta create", "delta.create:create", "SOURCE", "Compresses a fine-tune to a small file."
    ),
    Verb("delta apply", "delta.apply:apply", "FILE", "Rebuilds the fine-tune from base and delta."),
    Verb("delta info", "delta.apply:info", "FILE", "Shows the header of a delta file."),
    Verb("delta check", "delta.check:check", "FILE", "Checks a delta file and measures it again."),
    Verb("variants create", "variants.create:create", "[ITEM ...]", "Trains a user's variant."),
    Verb("variants list", "variants.manage:list_variants", "", "Lists the variants."),
    Verb("variants show", "variants.manage:show", "NAME", "Shows a variant."),
    Verb("variants rename", "variants.manage:rename", "NAME NEW", "Renames a variant."),
    Verb("variants remove", "variants.manage:remove", "NAME", "Deletes a variant."),
    Verb("variants export", "variants.manage:export", "NAME", "Copies a variant to a delta file."),
    Verb("variants import", "variants.create:import_file", "FILE", "Stores a delta as a variant."),
    Verb("data inspect", "data:inspect", "FILE ...", "Shows what training would learn."),
    Verb("data show", "data_rows:show", "FILE", "Shows rows as a model reads them."),
    Verb("data fix", "data_rows:fix", "FILE", "Copies a file without its bad and repeated rows."),
    Verb("data make", "make_data:make", "ENVIRONMENT", "Writes tasks of an environment as rows."),
    Verb("experience train", "experience:train", "TASKS ...", "Learns lessons from answers."),
    Verb("experience estimate", "experience:estimate", "TASKS ...", "Shows what that would need."),
    Verb("experience replay", "experience:replay", "RUN", "Repeats a run from its journal."),
    Verb("experience infer", "lessons:infer", "QUERY", "Answers with lessons in the prompt."),
    Verb("experience gate", "gates:gate", "LIBRARY TASKS ...", "Measures lessons on tasks."),
    Verb("experience prune", "gates:prune", "NAME TASKS ...", "Drops lessons of no help."),
    Verb(
        "experience keep",
        "keep:keep",
        "LIBRARY MEASURED ...",
        "Keeps what trusted keys found good.",
    ),
    Verb("experience distill", "distill:distill", "LIBRARY TASKS ...", "Turns lessons to weights."),
    Verb("experience trial", "trial:trial", "", "Tries lessons on fresh tasks, for 1 USD."),
    Verb("experience import", "lessons:import_lessons", "FILE", "Reads lessons from a file."),
    Verb("experience export", "lessons:export", "LIBRARY", "Writes lessons to a file."),
    Verb("experience list", "libraries:list_libraries", "", "Lists the libraries of lessons."),
    Verb("experience show", "libraries:show", "LIBRARY", "Shows the lessons of a library."),
    Verb("experience diff", "libraries:diff", "LIBRARY LIBRARY", "Compares two libraries."),
    Verb("experience rollback", "libraries:rollback", "NAME VERSION", "Uses an earlier version."),
    Verb("experience remove", "libraries:remove", "NAME", "Deletes a library or a version of it."),
    Verb("round create", "round.create:create", "NAME", "Starts a round."),
    Verb("round list", "round.show:list_rounds", "", "Lists the rounds seen here."),
    Verb("round show", "round.show:show", "[ROUND]", "Shows what a round waits for."),
    Verb("round contribute", "round.contribute:contribute", "SOURCE", "Commits to a fine-tune."),
    Verb("round reveal", "round.contribute:reveal", "[ROUND]", "Sends what you committed to."),
    Verb("round sync", "round.sync:sync", "[ROUND]", "Adds what others left to your round's log."),
    Verb("round measure", "round.measure:measure", "", "Measures what was revealed, as a gate."),
    Verb(
        "round aggregate",
        "round.aggregate:aggregate",
        "[ROUND]",
        "Publishes the result.",
    ),
    Verb("round void", "round.sync:void", "[ROUND]", "Makes your round void for good."),
    Verb("round verify", "round.verify:verify", "[ROUND]", "Computes a round again and compares."),
    Verb("round rewards", "round.aggregate:rewards", "[ROUND]", "Shows who gets how many points."),
    Verb("round ledger", "round.show:ledger", "", "Shows what private rounds have spent."),
    Verb("round apply", "round.apply:apply", "[ROUND]", "Makes a result a base to train on."),
    Verb("round undo", "round.apply:undo", "[BASE]", "Goes back to the result before."),
    Verb("round serve", "round.server:serve", "FOLDER", "Serves rounds to others."),
    Verb("round witness", "round.server:witness", "[ROUND]", "Signs a log as a witness."),
    Verb(
        "round anchor",
        "round.server:anchor",
        "-- COMMAND ...",
        "Passes the signed head to a command.",
    ),
    Verb("round token", "round.server:token", "ADDRESS", "Keeps a server's token."),
    Verb("experience pin", "libraries:pin", "NAME ID ...", "Keeps lessons in every prompt."),
    Verb("providers list", "providers:list_providers", "", "Lists the servers of chat models."),
    Verb("providers set", "providers:set_provider", "NAME KEY=VALUE ...", "Changes a server."),
    Verb("providers remove", "providers:remove", "NAME", "Removes a server from your settings."),
    Verb("providers check", "providers:check", "MODEL", "Asks a model on a server for one word."),
    Verb("keys show", "keys:show", "", "Shows your public key."),
    Verb("keys create", "keys:create", "", "Makes your key."),
    Verb("keys list", "keys:list_keys", "", "Lists the keys that you trust."),
    Verb("keys trust", "keys:trust_key", "NAME KEY", "Trusts a key of somebody else."),
    Verb("keys distrust", "keys:distrust_key", "NAME", "Trusts a key no more."),
    Verb("chat", "chat:chat", "", "Chats with a model, or answers a pipe's prompts."),
    Verb("inference", "inference:inference", "FILE", "Answers every row of a data file."),
    Verb("eval", "eval:evaluate", "SOURCE ...", "Measures models on the same rows, side by side."),
    Verb("serve", "serve:serve", "", "Serves a model and variants to OpenAI clients."),
    Verb("merge", "merge:merge", "SOURCE ...", "Merges models and fine-tunes of one base."),
    Verb("tune", "tune:tune", "[ITEM ...]", "Searches settings of training by held-out rows."),
    Verb("push", "push:push", "SOURCE REPO", "Uploads a fine-tune to the Hub, once you agree."),
    Verb("export", "export:export", "[SOURCE]", "Writes GGUF files and other formats."),
    Verb("recommend", "recommend:recommend", "[FILE ...]", "Says how to train on your rows."),
    Verb("plan", "plan:plan", "", "Shows sizes of deltas, for one user and many."),
    Verb("models list", "models:models", "", "Lists the models, as `models` alone does."),
    Verb("models get", "models:get", "NAME", "Downloads a model after you agree."),
    Verb("models import", "models:import_model", "FILE", "Makes a GGUF file a base model."),
    Verb("demo", "demo:demo", "", "Runs the whole workflow on the built-in model."),
    Verb("doctor", "doctor:doctor", "", "Tests this machine and what fits in its memory."),
    Verb(
        "completion",
        "completion:completion",
        "SHELL",
        "Prints a script that completes commands in your shell.",
    ),
    Verb("clean", "clean:clean_all", "", "Deletes all that zoo-gym wrote on this machine."),
    Verb("paths", "paths:paths", "", "Shows the folders that zoo-gym uses."),
    Verb("webui", "webui:webui", "", "Shows the app in a browser of this machine."),
)
"""Every command."""


def children(group: str) -> list[str]:
    """Returns the second words of a group, or the first words of all when `group` is empty."""
    if group:
        return [verb.words.split()[1] for verb in VERBS if verb.words.startswith(f"{group} ")]
    return list(dict.fromkeys(verb.words.split()[0] for verb in VERBS))


def known_words(words: list[str]) -> str:
    """Returns the command or group that `words` start with: `runs list`, `runs`, or ``."""
    two = " ".join(words[:2])
    if any(verb.words == two for verb in VERBS):
        return two
    return words[0] if words and words[0] in children("") else ""
