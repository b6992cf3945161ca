"""`zoo-gym completion`: a script with which a shell completes commands, options and values.

cyclopts writes it from the commands. Whatever else is completed as the name of a file: by what is
added for bash and zsh, and by fish and PowerShell themselves.
"""

import re
from typing import Literal

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output

Shell = Literal["bash", "zsh", "fish", "powershell"]

_BASH, _BASH_OR_FILES = "\ncomplete -F ", "\ncomplete -o bashdefault -o default -F "

_ZSH_ANY_TEXT = re.compile(
    r"""^(\s+'(?:(?:\*|\d+):(?:[^':\n]|'\\''|\\:)*|.*\]:\w+))('(?: \\)?)$""", re.MULTILINE
)
"""An argument or a value of an option for which zsh would only show a message."""

_ZSH_END = """
if [[ ${funcstack[1]-} == _zoo-gym ]]; then
  _cyclopts_zoo-gym "$@"
else
  compdef _cyclopts_zoo-gym zoo-gym
fi
"""
"""Registers the function where the script is read, and calls it as a file `_zoo-gym` of `fpath`."""


def completion(shell: Shell, /, *, as_json: Json = False) -> int:
    """Prints a script that completes commands, options and their values in a shell.

    It is made from the commands of this version: print it again after an update. bash and zsh read
    it by: source <(zoo-gym completion bash)

    Args:
        shell: the shell that reads it
        as_json: print one JSON object as stdout's last line
    """
    out, script = Output(as_json), completion_script(shell)
    if not as_json:
        out.answer(script)
    out.result({"shell": shell, "script": script})
    return 0


def completion_script(shell: Shell) -> str:
    """Returns the script of a shell."""
    from zoo.gym.cli.boundary import PROGRAM, build_app

    script = build_app().generate_completion(prog_name=PROGRAM, shell=shell)
    if shell == "bash":
        assert _BASH in script
        return script.replace(_BASH, _BASH_OR_FILES)
    if shell == "zsh":
        return _ZSH_ANY_TEXT.sub(r"\1:_files\2", script) + _ZSH_END
    return script
