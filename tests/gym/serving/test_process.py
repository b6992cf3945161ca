"""The command: what it prints is enough to ask it, and a signal ends it."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.night import one_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM is POSIX's"),
]
SERVE = [sys.executable, "-m", "zoo.gym", "serve", "--model", "zen-pico", "--port", "0", "--json"]


@pytest.mark.parametrize("options", one_in(2, [[], ["--no-token"]]), ids=str)
def test_a_server_answers_and_ends_at_a_signal(
    variants: dict[str, Path], tmp_path: Path, options: list[str]
) -> None:
    command = [*SERVE, "--variant", f"ann={variants['ann']}", *options]
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        started = json.loads(next(line for line in server.stdout if line.startswith("{")))
        token = tmp_path / "home" / "data" / "serve.token"
        key = token.read_text().strip() if token.is_file() else "any"
        assert token.is_file() == (not options)
        client = OpenAI(base_url=started["url"], api_key=key, max_retries=0)
        assert [model.id for model in client.models.list()] == ["zen-pico", "zen-pico:ann"]
        stranger = OpenAI(base_url=started["url"], api_key="wrong", max_retries=0)
        if options:
            assert stranger.models.list().data
        else:
            with pytest.raises(openai.AuthenticationError):
                stranger.models.list()
        stream = client.completions.create(
            model="ann", prompt="ab", max_tokens=400, stream=True, temperature=1, n=8
        )
        next(iter(stream))
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


@pytest.mark.parametrize(
    "is_closed_early", one_in(2, [True, False]), ids=["while-loading", "listening"]
)
def test_a_server_ends_with_its_input_if_it_is_to(tmp_path: Path, is_closed_early: bool) -> None:
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*SERVE, "--end-with-input"], text=True, env=env, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        if not is_closed_early:
            json.loads(next(line for line in server.stdout if line.startswith("{")))
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(timeout=1)
        server.stdin.close()
        assert server.wait(timeout=60) == 0


def test_the_end_of_input_is_refused_where_nothing_is_served(tmp_path: Path) -> None:
    words = [*SERVE[:-3], "--end-with-input", "--print", "vllm", "--out", str(tmp_path / "x")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "--end-with-input: has no effect with --print" in done.stderr


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "use_it_from.md"


def test_the_lines_for_other_programs_answer(tmp_path: Path) -> None:
    texts = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (python,) = [text for language, text in texts if language == "python"]
    (curl,) = [text for _, text in texts if text.startswith("curl")]
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(SERVE, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        started = json.loads(next(line for line in server.stdout if line.startswith("{")))
        token = (tmp_path / "home" / "data" / "serve.token").read_text().strip()
        programs = [[sys.executable, "-c", python]]
        programs += [["sh", "-c", curl]] if shutil.which("curl") else []
        for words in programs:
            text = words[-1].replace("http://127.0.0.1:8000/v1", started["url"])
            words[-1] = text.replace("smollm2", "zen-pico")
            done = subprocess.run(
                words, capture_output=True, text=True, env=env | {"TOKEN": token}, check=True
            )
            assert done.stdout
            assert "error" not in done.stdout
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="a printed command is curl's")
def test_from_training_to_an_answer_each_command_prints_the_next(tmp_path: Path) -> None:
    rows = ({"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(8))
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gym = [sys.executable, "-m", "zoo.gym"]
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    words = ["train", str(tmp_path / "mine.jsonl"), "--model", "zen-pico", "--max_steps", "1"]
    trained = subprocess.run([*gym, *words], capture_output=True, text=True, env=env, check=True)
    serve = next(line for line in trained.stderr.splitlines() if "zoo-gym serve" in line)
    words = shlex.split(serve.partition("    ")[0])[1:]
    command = [*gym, *words, "--port", "0"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, env=env, **pipes) as server:
        assert server.stdout is not None
        lines = iter(server.stdout)
        assert "models: zen-pico, zen-pico:r0001\n" in lines
        curl = next(line for line in lines if line.startswith("try it: "))
        asked = ["sh", "-c", curl.removeprefix("try it: ")]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["model"] == "zen-pico:r0001"
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


def test_for_other_machines_it_prints_the_token_that_they_need(tmp_path: Path) -> None:
    words = [*SERVE, "--host", "0.0.0.0", "--allow-host", "gym.lan"]
    words.remove("--json")
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        printed = next(line for line in server.stdout if line.startswith("token: "))
        token = (tmp_path / "home" / "data" / "serve.token").read_text()
        server.terminate()
    assert printed.split()[1] == token.strip() != ""
