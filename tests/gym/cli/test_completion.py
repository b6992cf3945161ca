"""`zoo-gym completion`: shells complete commands, options and values with what it prints."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call
from zoo.gym.cli.completion import Shell, completion_script
from zoo.gym.cli.verbs import VERBS

CASES = [
    ("zoo-gym reco", "recommend"),
    ("zoo-gym runs cl", "clean"),
    ("zoo-gym recommend --wa", "--want"),
    ("zoo-gym recommend --want st", "style"),
    ("zoo-gym train --lora_r", "--lora_rank"),
    ("zoo-gym completion z", "zsh"),
    ("zoo-gym train my-r", "my-rows.jsonl"),
]
"""What is typed, and what it becomes; `my-rows.jsonl` is a file."""

BASH = """
source "$1"
read -ra COMP_WORDS <<< "$2"
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
registered=$(complete -p zoo-gym)
function=$(sed 's/.*-F \\([^ ]*\\).*/\\1/' <<< "$registered")
$function zoo-gym "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
if [[ ${#COMPREPLY[@]} -eq 0 && $registered == *"-o default"* ]]; then
  COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
fi
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Does what readline does: calls the registered function, then completes files by `-o default`."""

ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
setup="PS1=; cd ${(q)3}; autoload -U compinit; compinit -D -u; source ${(q)1}; "
setup+='save() { print -r -- "$BUFFER" > typed }; zle -N save; bindkey "^X" save; echo rea""dy'
zpty -w shell "$setup"
zpty -r shell got '*ready*'
sleep 0.5
zpty -w -n shell "$2"$'\\t'
sleep 1
zpty -w -n shell $'\\C-x'
sleep 0.5
cat typed
"""
"""Types into an interactive shell, which then saves its line."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "my-rows.jsonl").touch()
    return folder


def script(shell: Shell, folder: Path) -> Path:
    path = folder / f"completion.{shell}"
    if not path.exists():
        path.write_text(completion_script(shell), encoding="utf-8")
    return path


def output_of(shell: str, *arguments: str, folder: Path) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    command = [program, *arguments]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return found.stdout


@pytest.mark.parametrize(("typed", "completed"), CASES)
def test_bash_completes(scripts: Path, typed: str, completed: str) -> None:
    path = str(script("bash", scripts))
    found = output_of("bash", "--norc", "-c", BASH, "bash", path, typed, folder=scripts)
    assert found.split() == [completed]


@pytest.mark.parametrize(("typed", "completed"), CASES)
def test_fish_completes(scripts: Path, typed: str, completed: str) -> None:
    run = 'source $argv[1]; complete -C "$argv[2]"'
    path = str(script("fish", scripts))
    found = output_of("fish", "-c", run, path, typed, folder=scripts)
    assert completed in [line.partition("\t")[0] for line in found.splitlines()]


@pytest.mark.parametrize(("typed", "completed"), CASES)
def test_zsh_completes(scripts: Path, typed: str, completed: str) -> None:
    path = str(script("zsh", scripts))
    found = output_of("zsh", "-f", "-c", ZSH, "zsh", path, typed, str(scripts), folder=scripts)
    assert found.split() == [*typed.split()[:-1], completed]


def test_the_script_of_powershell_has_every_command() -> None:
    text = completion_script("powershell")
    assert "Register-ArgumentCompleter -Native -CommandName 'zoo-gym'" in text
    assert [verb.words for verb in VERBS if f"'{verb.words.split()[-1]}'" not in text] == []


def test_an_unknown_shell_is_refused(call: Call) -> None:
    found = call("completion", "tcsh")
    assert (found.code, "bash, zsh, fish" in found.stderr) == (2, True)


def test_it_prints_the_script(call: Call) -> None:
    assert call("completion", "bash").stdout.strip() == completion_script("bash").strip()
