"""A server process under load: swaps, disconnects, kills; its memory; clients that ask too much.

zen-pico with random deltas of 2 bits, of which one is replaced again and again, and a library of
lessons that changes. 200 clients ask at once, with streams and without, and go in
the middle of some answers; the process is killed twice and started again at the same port. Counted
are answers of another variant than was asked, each compared with its answer alone as `serve` does,
and uploads and jobs that were acknowledged and are not there in the end. Then the resident memory
after 10,000 requests, beside that after 1,000. Last, clients that read a byte a second or send too
much, beside one that asks as usual.

usage: python -m bench serve_load             ten minutes of two cores, 2 GB
"""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench import serve
from bench.measure import MB, Case, status_bytes

CLIENTS, REQUESTS, KILLS, VARIANTS = 200, 1000, 2, 6
FEW, MANY, AT_ONCE = 1000, 10_000, 16
NAME, SWAPPED, WORDS = "zen-pico", "swapped", ("Answer in one word.", "Write only capitals.")
QUESTION = {"role": "user", "content": serve.QUESTION}
GREEDY = {"temperature": 0, "max_tokens": 8, "logprobs": True}
PASSING = ("429", "503")
AGAIN = ("connection", *PASSING)


@dataclass
class Server:
    """A server process, which can be killed and started again at the same port.

    Attributes:
        folder: has its home and its variants.
        port: where it listens.
    """

    folder: Path
    port: int = 0
    process: "subprocess.Popen[str] | None" = None

    @property
    def headers(self) -> dict[str, str]:
        """What requests need."""
        token = (self.folder / "home" / "data" / "serve.token").read_text().strip()
        return {"Authorization": f"Bearer {token}"}

    @property
    def url(self) -> str:
        """The address of the routes."""
        return f"http://127.0.0.1:{self.port}/v1/"

    async def start(self) -> None:
        """Returns when it answers."""
        self.port = self.port or _free_port()
        words = ["serve", "--model", NAME, "--port", str(self.port), "--json"]
        words += ["--variants", str(self.folder / "people")]
        env = os.environ | {"ZOO_GYM_HOME": str(self.folder / "home"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "zoo.gym", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, "")
        await asyncio.to_thread(lambda: next(line for line in lines if line.startswith("{")))

    async def kill(self) -> None:
        """Ends it as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def resident_mb(self) -> float:
        """Returns its memory."""
        assert self.process is not None
        return status_bytes("VmRSS", self.process.pid) / MB


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class World:
    """What is asked, what is right, and what came of it.

    Attributes:
        server: the process.
        alone: the answers of each name; of those that change, one for each version.
        ends: until when each version of what changes could be read, its two contents in turns.
        is_up: whether the server runs.
        outcomes: how often requests ended how.
        uploads: the contents of the files that were acknowledged, by their ids.
        jobs: the ids of those that were acknowledged.
    """

    server: Server
    alone: dict[str, list[serve.Scored]]
    ends: list[float] = field(default_factory=lambda: [float("inf")])
    is_up: asyncio.Event = field(default_factory=asyncio.Event)
    outcomes: Counter[str] = field(default_factory=Counter[str])
    uploads: dict[str, bytes] = field(default_factory=dict[str, bytes])
    jobs: list[str] = field(default_factory=list[str])

    def is_right(self, name: str, answer: serve.Scored, begun: float) -> bool:
        """Returns whether an answer is of a version that was there since the request began."""
        versions = {index % 2 for index, end in enumerate(self.ends) if end >= begun}
        answers = self.alone[name]
        return any(serve.agree(answer, answers[version % len(answers)]) for version in versions)


class Ended(NamedTuple):
    """How a request ended.

    Attributes:
        status: of the response; 0 for an error in the middle of a stream.
        scored: the tokens of the answer; None if the client left.
        said: what was wrong.
    """

    status: int
    scored: serve.Scored | None
    said: str = ""


async def asked(client: Any, name: str, *, stream: bool, leaves_after: int = -1) -> Ended:  # noqa: ANN401
    """Returns how a request ends; the client may leave after some tokens of a stream."""
    body = {"model": name, "messages": [QUESTION], **GREEDY, "stream": stream}
    if not stream:
        response = await client.post("chat/completions", json=body)
        answer = response.json()
        if response.status_code != 200:
            return Ended(response.status_code, None, answer["error"]["message"])
        return Ended(200, _scored(answer["choices"][0]))
    scored: serve.Scored = []
    async with client.stream("POST", "chat/completions", json=body) as response:
        if response.status_code != 200:
            problem = json.loads(await response.aread())["error"]
            return Ended(response.status_code, None, problem["message"])
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                if "error" in chunk:
                    return Ended(0, None, chunk["error"]["message"])
                scored += _scored(chunk["choices"][0])
            if len(scored) == leaves_after:
                return Ended(200, None)
    return Ended(200, scored)


def _scored(choice: dict[str, Any]) -> serve.Scored:
    content = (choice["logprobs"] or {}).get("content") or ()
    return [(each["token"], each["logprob"]) for each in content]


async def _request(world: World, client: Any, draw: random.Random) -> str:  # noqa: ANN401
    """Sends one request; returns how it ended."""
    import httpx2

    if draw.random() < 0.02:
        return await _upload(world, client, draw)
    name, stream = draw.choice(sorted(world.alone)), draw.random() < 0.5
    leaves = draw.random() < 0.2
    begun = time.monotonic()
    try:
        limit = draw.random() / 2 if leaves and not stream else 120
        async with asyncio.timeout(limit):
            after = draw.randrange(4) if leaves else -1
            ended = await asked(client, name, stream=stream, leaves_after=after)
    except TimeoutError:
        ended = Ended(200, None) if leaves else Ended(0, None, "no answer in 120 s")
    except httpx2.TransportError:
        return "connection"
    status = str(ended.status)
    if status != "200":
        return status if status in PASSING else f"{status} {ended.said}"
    if ended.scored is None:
        return "left"
    return "right" if world.is_right(name, ended.scored, begun) else f"wrong: {name}"


async def _upload(world: World, client: Any, draw: random.Random) -> str:  # noqa: ANN401
    import httpx2

    content = draw.randbytes(draw.randrange(1, 20_000))
    file = {"file": ("rows.jsonl", content)}
    try:
        response = await client.post("files", files=file, data={"purpose": "fine-tune"})
    except httpx2.TransportError:
        return "connection"
    if response.status_code != 200:
        return str(response.status_code)
    world.uploads[response.json()["id"]] = content
    return "upload"


async def _swap(world: World, folder: Path) -> None:
    """Replaces the variant and the lessons again and again."""
    copy, file = folder / "copy", folder / "people" / f"{SWAPPED}.safetensors"
    while True:
        await asyncio.sleep(1)
        version = len(world.ends) % 2
        shutil.copy(folder / f"version{version}.safetensors", copy)
        world.ends.append(float("inf"))
        copy.replace(file)
        _save_lessons(version)
        world.ends[-2] = time.monotonic()


def _save_lessons(version: int) -> None:
    from zoo.gym.experience import store
    from zoo.gym.experience.library.item import Item
    from zoo.gym.experience.library.library import Library

    store.save("words", Library((Item(WORDS[version]),), NAME))


async def world_of(folder: Path) -> World:
    """Writes the variants, starts a server, and asks for each answer alone."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.models import pico_folder

    os.environ["ZOO_GYM_HOME"] = str(folder / "home")
    people = serve.write_variants(folder, VARIANTS + 2)
    policy = load_backend("cpu").load(pico_folder(), LoadSpec())
    files = [people / f"p{number}.safetensors" for number in range(VARIANTS + 2)]
    alone = {file.stem: [serve.alone(policy, file)] for file in files[:VARIANTS]}
    alone[SWAPPED] = [serve.alone(policy, file) for file in files[VARIANTS:]]
    for version, file in enumerate(files[VARIANTS:]):
        file.rename(folder / f"version{version}.safetensors")
    shutil.copy(folder / "version0.safetensors", people / f"{SWAPPED}.safetensors")
    world = World(Server(folder), alone)
    await world.server.start()
    async with client_of(world.server) as client:
        alone[NAME] = [(await asked(client, NAME, stream=False)).scored or []]
        lessons: list[serve.Scored] = []
        for version in (1, 0):
            _save_lessons(version)
            answer = await asked(client, f"{NAME}+words", stream=False)
            lessons.insert(0, answer.scored or [])
        alone[f"{NAME}+words"] = lessons
    world.is_up.set()
    return world


@asynccontextmanager
async def client_of(server: Server) -> AsyncGenerator[Any]:
    """Yields a client with as many connections as are needed."""
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(
        base_url=server.url, headers=server.headers, timeout=120, limits=limits
    ) as client:
        yield client


async def load(world: World, clients: int, requests: int, kills: int, jobs: int) -> float:
    """Sends requests from many clients at once; returns the seconds that it took.

    Args:
        world: what is asked.
        clients: how many ask at once.
        requests: how many they send together.
        kills: how often the server is killed meanwhile.
        jobs: how many fine-tuning jobs are started meanwhile.
    """
    left = iter(range(requests))
    started = time.monotonic()

    async def work(number: int) -> None:
        draw = random.Random(number)
        async with client_of(world.server) as client:
            for _ in left:
                while (outcome := await _request(world, client, draw)) in AGAIN:
                    world.outcomes[outcome] += 1
                    await asyncio.sleep(1)  # what Retry-After says
                    await world.is_up.wait()
                world.outcomes[outcome] += 1

    async def kill() -> None:
        for count in range(1, kills + 1):
            while _answered(world) < requests * count / (kills + 1):
                await asyncio.sleep(0.01)
            world.is_up.clear()
            await world.server.kill()
            await world.server.start()
            world.is_up.set()

    async def ask() -> None:
        await asyncio.gather(kill(), _start_jobs(world, jobs), *map(work, range(clients)))

    asking = asyncio.create_task(ask())
    swapping = asyncio.create_task(_swap(world, world.server.folder))
    await asyncio.wait({asking, swapping}, return_when=asyncio.FIRST_COMPLETED)
    swapping.cancel()
    await asyncio.wait({swapping})
    if not swapping.cancelled():
        swapping.result()  # an error of ours: without it nothing would be replaced
    await asking
    return time.monotonic() - started


def _answered(world: World) -> int:
    return sum(count for outcome, count in world.outcomes.items() if outcome not in AGAIN)


async def _start_jobs(world: World, jobs: int) -> None:
    import httpx2

    row = {"messages": [QUESTION, {"role": "assistant", "content": "cba"}]}
    content = (json.dumps(row) + "\n").encode() * 40
    while len(world.jobs) < jobs:
        try:
            async with client_of(world.server) as client:
                fields = {"files": {"file": ("a.jsonl", content)}, "data": {"purpose": "fine-tune"}}
                file = (await client.post("files", **fields)).json()["id"]
                world.uploads[file] = content
                settings = {"n_epochs": 1, "batch_size": 8}
                body = {"model": NAME, "training_file": file, "hyperparameters": settings}
                job = await client.post("fine_tuning/jobs", json=body)
                world.jobs.append(job.json()["id"])
        except httpx2.TransportError:
            await asyncio.sleep(1)


async def lost(world: World) -> list[str]:
    """Returns the uploads and jobs that were acknowledged, and are not as they were."""
    async with client_of(world.server) as client:
        missing: list[str] = []
        for id_, content in world.uploads.items():
            response = await client.get(f"files/{id_}/content")
            missing += [id_] * (response.content != content)
        listed = {job["id"] for job in (await client.get("fine_tuning/jobs")).json()["data"]}
        return missing + [job for job in world.jobs if job not in listed]


async def memory(world: World, few: int, many: int) -> tuple[float, float, float]:
    """Returns the resident memory after few and after many requests in MB, and requests/s."""
    before = Counter(world.outcomes)
    started = time.monotonic()
    await load(world, AT_ONCE, few, kills=0, jobs=0)
    first = world.server.resident_mb()
    await load(world, AT_ONCE, many - few, kills=0, jobs=0)
    rate = many / (time.monotonic() - started)
    print(dict(world.outcomes - before), flush=True)
    return first, world.server.resident_mb(), rate


TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
"""A schema that no answer can fulfil: it ends where `max_tokens` does."""


def _demanding() -> dict[str, dict[str, Any]]:
    """Returns requests that ask too much, by what is too much of them."""
    schema = {"type": "json_schema", "json_schema": {"name": "tree", "schema": TREE}}
    words = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "string"}}}
    chat = {"model": NAME, "messages": [QUESTION], "max_tokens": 64}
    return {
        "10 MB": chat | {"messages": [{"role": "user", "content": "a" * 10_000_000}]},
        "17 MB": chat | {"messages": [{"role": "user", "content": "a" * 17_000_000}]},
        "10,000 stops": chat | {"stop": [str(number) for number in range(10_000)]},
        "endless schema": chat | {"response_format": schema},
        "endless text": chat | {"response_format": words},
        "past the context": chat | {"messages": [{"role": "user", "content": "a b " * 2000}]},
    }


async def demanding(server: Server, seconds: int) -> tuple[dict[str, str], list[float]]:
    """Returns how demanding requests ended, and the seconds of each ordinary one meanwhile."""
    ended: dict[str, str] = {}
    usual: list[float] = []

    async def send(name: str, body: dict[str, Any]) -> None:
        async with client_of(server) as client:
            response = await client.post("chat/completions", json=body)
            content = response.json()
            said = content["error"]["message"] if "error" in content else "an answer"
            ended[name] = f"{response.status_code} {said:.100}"

    async def as_usual(work: "asyncio.Future[Any]") -> None:
        async with client_of(server) as client:
            while not work.done():
                started = time.monotonic()
                assert (await asked(client, NAME, stream=False)).status == 200
                usual.append(time.monotonic() - started)

    slow = [_read_slowly(server, seconds) for _ in range(20)]
    work = asyncio.gather(*slow, *(send(*each) for each in _demanding().items()))
    await asyncio.gather(work, as_usual(work))
    return ended, usual


async def _read_slowly(server: Server, seconds: int) -> None:
    """Reads a byte a second of a stream, then leaves."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=64)
    body = json.dumps({"model": NAME, "messages": [QUESTION], "max_tokens": 256, "stream": True})
    head = {"Host": "localhost", "Content-Length": str(len(body)), **server.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{lines}\r\n{body}".encode())
    for _ in range(seconds):
        assert await reader.read(1)
        await asyncio.sleep(1)
    writer.close()


def run() -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as name:
        yield from asyncio.run(_cases(Path(name)))


async def _cases(folder: Path) -> list[Case]:
    world = await world_of(folder)
    try:
        seconds = await load(world, CLIENTS, REQUESTS, KILLS, jobs=2)
        await asyncio.sleep(5)
        cases = [*_of_load(world, seconds), _count("acknowledged and lost", len(await lost(world)))]
        few, many, rate = await memory(world, FEW, MANY)
        print(f"{few:.0f} MB after {FEW}, {many:.0f} after {MANY} requests, {rate:.1f} a second")
        name = f"resident after {MANY} requests"
        cases.append(Case(name, many, "MB", f"that after {FEW}", many / few, "<= 1.05"))
        ended, usual = await demanding(world.server, 10)
        print(json.dumps(ended, indent=2), flush=True)
        return [
            *cases,
            Case("the slowest beside demanding ones", max(usual), "s", "itself", 1.0, ""),
        ]
    finally:
        await world.server.kill()


def _of_load(world: World, seconds: float) -> Iterator[Case]:
    print(dict(world.outcomes.most_common()), flush=True)
    usual = {"right", "left", "upload", *AGAIN}
    others = sum(count for name, count in world.outcomes.items() if name not in usual)
    wrong = sum(count for name, count in world.outcomes.items() if name.startswith("wrong"))
    yield _count(f"{CLIENTS} clients: of another variant", wrong)
    yield _count(f"{CLIENTS} clients: other errors", others - wrong)
    rate = world.outcomes["right"] / seconds
    yield Case(f"{CLIENTS} clients: right answers", rate, "a second", "itself", 1.0, "")


def _count(name: str, count: int) -> Case:
    return Case(name, count, "requests", "none", count, "<= 0")
