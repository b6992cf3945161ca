"""Processes that answer requests."""

import sys

import pytest

from zoo.gym.rewards.processes.workers import Workers

ECHO = """
import os, sys, time
from zoo.gym.rewards.processes.serve import serve

def answer(request):
    if request["index"] == 5:
        time.sleep(60)
    return {"index": request["index"], "pid": os.getpid()}

serve(lambda: answer, 1.0)
"""


def test_replies_are_in_the_order_of_the_requests_whichever_process_answers() -> None:
    workers = Workers([sys.executable, "-c", ECHO], timeout_s=10.0, count=2)
    try:
        replies = workers.ask([{"index": index} for index in range(5)])
    finally:
        workers.close()
    assert [reply["index"] for reply in replies] == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_late_reply_is_never_taken_for_that_of_the_next_request() -> None:
    workers = Workers([sys.executable, "-c", ECHO], timeout_s=4.0)
    try:
        first, late, last = workers.ask([{"index": index} for index in (4, 5, 6)])
    finally:
        workers.close()
    assert (first["index"], last["index"]) == (4, 6)
    assert late == {"failed": "no result within 4 s"}
    assert first["pid"] != last["pid"]


def test_a_program_that_cannot_be_started_is_reported_with_every_request() -> None:
    workers = Workers(["/no/such/program"], timeout_s=1.0, count=2)
    replies = workers.ask([{}, {}])
    assert all(reply["unstarted"] for reply in replies)
    assert "cannot be started" in replies[0]["failed"]
