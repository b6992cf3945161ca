"""OpenAI's fine-tuning jobs, which are runs: a job starts one, and is read from its folder."""

import asyncio
import json
import time
from typing import Any

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.jobs import EventReader, Run, rename, run_folders, stop
from zoo.gym.jobs.command import ask_command
from zoo.gym.jobs.state import Status, reconcile
from zoo.gym.serving.tuning.files import Files
from zoo.gym.serving.tuning.requests import JobBody, settings_of
from zoo.gym.serving.variants import Models
from zoo.gym.serving.wire import RequestError

JOB_FILE = "openai_job.json"
"""What a client asked for, in the folder of the run."""

_STATES = {"queued": "queued", "running": "running", "paused": "paused", "done": "succeeded"}

Json = dict[str, Any]


class Jobs:
    """The fine-tuning jobs of a server.

    Args:
        files: what they train on.
        models: the base that they train, and the names of its variants.
        runs_graders: whether a job may bring a grader in Python.
    """

    def __init__(self, files: Files, models: Models, *, runs_graders: bool = False) -> None:
        self._files, self._models, self._runs_graders = files, models, runs_graders

    async def create(self, body: JobBody) -> Json:
        """Starts a run.

        Raises:
            RequestError: a field is wrong, or the run is refused.
            NotAvailableError: there is no such model or file.
        """
        if body.model != self._models.name:
            raise NotAvailableError(
                f"model: expected {self._models.name}, the base of this server, got "
                f"{body.model!r:.100}",
                code="serving.other_base",
            )
        settings = settings_of(body, runs_graders=self._runs_graders)
        rows = str(self._files.content(body.training_file))
        held_out = None
        if body.validation_file is not None:
            held_out = settings["eval_dataset"] = str(self._files.content(body.validation_file))
        words = ["train", rows]
        words += [f"{key}={json.dumps(value)}" for key, value in settings.items()]
        words += ["--model", str(self._models.base), "--offline", "--detach"]
        try:
            answer = await ask_command(words, finish=True)
        except GymError as error:
            # a client knows files by their ids
            message = error.message.replace(rows, body.training_file)
            if held_out is not None and held_out in message:
                message = message.replace(held_out, str(body.validation_file))
                raise RequestError(message, param="validation_file") from None
            raise RequestError(message, param="training_file") from None
        run = next(run for run in run_folders() if run.id == answer["run"])
        write_beside(run.folder / JOB_FILE, body.model_dump_json(exclude_none=True))
        if body.suffix is not None:
            try:
                rename(run, body.suffix)
            except InputError:  # taken, or like an id
                rename(run, f"{body.suffix[:50]}-{run.id}")
        return self._job(run)

    def all(self) -> list[Json]:
        """Returns all jobs, the latest first."""
        runs = [run for run in run_folders() if (run.folder / JOB_FILE).is_file()]
        return [self._job(run) for run in sorted(runs, key=lambda run: run.id, reverse=True)]

    def get(self, id_: str) -> Json:
        """Returns a job.

        Raises:
            NotAvailableError: there is none of this id.
        """
        return self._job(self._run(id_))

    async def cancel(self, id_: str) -> Json:
        """Stops a job's run, which can be resumed with `zoo-gym runs resume`.

        Raises:
            NotAvailableError: there is none of this id.
            InputError: it has ended.
        """
        run = self._run(id_)
        await asyncio.to_thread(stop, run)
        for _ in range(100):
            if not reconcile(run).live:
                break
            await asyncio.sleep(0.1)
        return self._job(run)

    def events(self, id_: str) -> list[Json]:
        """Returns what happened in a job, the latest first.

        Raises:
            NotAvailableError: there is none of this id.
        """
        events: list[Json] = []
        for event in EventReader(self._run(id_).events.path).read():
            kind = event["kind"]
            if kind in ("state", "end"):
                text = f"the run is {event['state']}"
            elif kind in ("warn", "error"):
                text = event["message"]
            elif kind in ("step", "eval"):
                text = f"step {event['step']}: {kind} loss {event['loss']}"
            else:
                continue
            is_figure = kind in ("step", "eval")
            numbers = {key: value for key, value in event.items() if key not in ("v", "t", "kind")}
            events.append(
                {
                    "id": f"ftevent-{id_.removeprefix('ftjob-')}-{event['seq']}",
                    "object": "fine_tuning.job.event",
                    "created_at": int(event["t"]),
                    "level": kind if kind in ("warn", "error") else "info",
                    "message": text,
                    "type": "metrics" if is_figure else "message",
                    "data": numbers if is_figure else {},
                }
            )
        return events[::-1]

    def checkpoints(self, id_: str) -> list[Json]:
        """Returns the checkpoints of a job, the latest first; they are not served.

        Raises:
            NotAvailableError: there is none of this id.
        """
        run = self._run(id_)
        folders = sorted((run.folder / "checkpoints").glob("step-*"), reverse=True)
        return [
            {
                "id": f"ftckpt-{run.id}-{folder.name}",
                "object": "fine_tuning.job.checkpoint",
                "created_at": int(folder.stat().st_mtime),
                "fine_tuned_model_checkpoint": None,
                "fine_tuning_job_id": id_,
                "metrics": {"step": int(folder.name.removeprefix("step-"))},
                "step_number": int(folder.name.removeprefix("step-")),
            }
            for folder in folders
        ]

    def _run(self, id_: str) -> Run:
        for run in run_folders():
            if id_ == f"ftjob-{run.id}" and (run.folder / JOB_FILE).is_file():
                return run
        raise NotAvailableError(
            f"job: expected the id of one of this server, got {id_!r:.60}",
            code="serving.no_such_job",
        )

    def _model_of(self, run: Run) -> str:
        """Returns what the result is asked as: the run's name, unless a variant answers to it."""
        name = run.name
        if name is None or self._models.is_variant(name):
            name = run.id
        return f"{self._models.name}:{name}"

    def _job(self, run: Run) -> Json:
        body = JobBody.model_validate(read_json_object(run.folder / JOB_FILE) or {})
        status = reconcile(run)
        ended = int(status.updated or time.time())
        method = body.used
        done = status.state == "done"
        error: Json | None = None
        if status.state == "failed":
            error = {"code": status.code or "failed", "message": status.message, "param": None}
        return {
            "id": f"ftjob-{run.id}",
            "object": "fine_tuning.job",
            "created_at": int(status.created),
            "error": error,
            "fine_tuned_model": self._model_of(run) if done else None,
            "finished_at": None if status.live else ended,
            "hyperparameters": method.tuning.hyperparameters.model_dump(exclude={"beta"}),
            "metadata": body.metadata,
            "method": method.model_dump(exclude_none=True),
            "model": body.model,
            "organization_id": "zoo-gym",
            "result_files": [],
            "seed": body.seed or 0,
            "status": _state(status),
            "trained_tokens": None,
            "training_file": body.training_file,
            "validation_file": body.validation_file,
            "integrations": [],
            "estimated_finish": None,
        }


def _state(status: Status) -> str:
    if status.state == "interrupted":  # a killed run, and a parked one, can be resumed
        return "cancelled" if status.request == "stop" else "paused"
    return _STATES.get(status.state, "failed")
