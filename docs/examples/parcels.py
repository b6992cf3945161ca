"""A stand-in for a chat model, to try `zoo-gym experience` without a network or a model.

A clerk puts parcels on shelves and does not know which: he guesses, unless a lesson in his prompt
says it, which he follows nine times of ten. Asked to improve lessons he names the shelf of an
answer that was rewarded. It shows how the commands work, and nothing about any model.

usage: python docs/examples/parcels.py parcels.jsonl [PORT]

Writes the tasks to a new file and answers at http://127.0.0.1:8099/v1 until Ctrl-C.
"""

import hashlib
import json
import random
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SHELVES = "ABCDE"
PLACES = {
    "books": "C",
    "tools": "A",
    "toys": "D",
    "shoes": "B",
    "seeds": "E",
    "lamps": "C",
    "coats": "B",
    "plates": "D",
    "paints": "A",
    "cables": "E",
    "rugs": "D",
    "clocks": "A",
}
KINDS = list(PLACES)
TASKS = 120
PORT = 8099


def task(number: int) -> dict[str, str]:
    """Returns a task as a row: what is asked, and the answer that is rewarded."""
    kind = KINDS[number % len(KINDS)]
    prompt = f"A parcel with {kind}, number {number}. Which shelf?"
    return {"prompt": prompt, "answer": f"shelf {PLACES[kind]}"}


def answer(messages: list[dict[str, str]], seed: int) -> str:
    """Answers as the clerk does; the same messages and seed give the same answer."""
    text = "\n".join(turn["content"] for turn in messages)
    drawn = random.Random(hashlib.sha256(f"{seed} {text}".encode()).digest())  # noqa: S311
    if text.startswith("You improve"):
        return propose(text)
    kind = re.findall(r"A parcel with (\w+)", messages[-1]["content"])[-1]
    lessons = re.findall(rf"Parcels with {kind} go to shelf (\w)", text)
    known = lessons and drawn.random() < 0.9
    return f"shelf {lessons[-1] if known else drawn.choice(SHELVES)}"


def propose(text: str) -> str:
    """Returns an edit of the lessons: the shelf of an answer with reward 1, as JSON."""
    kind = re.findall(r"A parcel with (\w+)", text)[-1]
    shelf = re.findall(r"reward 1:\nshelf (\w)", text)[0]
    known = re.findall(rf"\[(\w+)\] Parcels with {kind} ", text)
    edit = {"op": "modify" if known else "add", "ids": known[:1]}
    return json.dumps({"edits": [edit | {"text": f"Parcels with {kind} go to shelf {shelf}."}]})


class Clerk(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Prints nothing."""

    def do_POST(self) -> None:
        """Answers one request."""
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = answer(body["messages"], body.get("seed", 0))
        words = sum(len(turn["content"].split()) for turn in body["messages"])
        usage = {"prompt_tokens": words, "completion_tokens": len(text.split())}
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        data = json.dumps({"model": "clerk", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Writes the tasks and serves."""
    path, port = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PORT
    rows = (json.dumps(task(number)) for number in range(TASKS))
    with path.open("x", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    server = ThreadingHTTPServer(("127.0.0.1", port), Clerk)
    where = f"http://127.0.0.1:{server.server_port}/v1"
    print(f"{path}: {TASKS} tasks; answering at {where}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
