"""What a server counts and measures, in Prometheus' text; no names of users, and no contents."""

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from zoo.gym.serving.variants import Models

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from zoo.backends.batching import Request
    from zoo.backends.sampling import TokenEvent

FIRST_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
WHOLE_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""The upper ends of the classes of seconds."""


class Metrics:
    """The figures of one server, in a registry of its own.

    Args:
        models: its models; the answers of their engine are counted.
    """

    def __init__(self, models: Models) -> None:
        self.registry = CollectorRegistry()
        here = self.registry
        self._requests = Counter(
            "zoo_gym_requests", "Requests by route and status.", ("route", "status"), registry=here
        )
        self._waiting = Gauge(
            "zoo_gym_answers_waiting", "Answers without a token yet.", registry=here
        )
        self._running = Gauge("zoo_gym_answers_running", "Answers with some tokens.", registry=here)
        self._prompt = Counter("zoo_gym_prompt_tokens", "Tokens of prompts.", registry=here)
        self._generated = Counter("zoo_gym_generated_tokens", "Tokens of answers.", registry=here)
        self._first = Histogram(
            "zoo_gym_first_token_seconds",
            "From the request to the first token.",
            buckets=FIRST_S,
            registry=here,
        )
        self._whole = Histogram(
            "zoo_gym_answer_seconds",
            "From the request to the last token.",
            buckets=WHOLE_S,
            registry=here,
        )
        count = Gauge("zoo_gym_resident_variants", "Variants in memory.", registry=here)
        count.set_function(lambda: models.resident[0])
        size = Gauge(
            "zoo_gym_resident_variants_bytes", "Bytes of the variants in memory.", registry=here
        )
        size.set_function(lambda: models.resident[1])
        models.engine.watch = self._watch

    async def _watch(
        self, request: "Request", events: "AsyncGenerator[TokenEvent]"
    ) -> "AsyncGenerator[TokenEvent]":
        """Passes on the tokens of an answer, and counts them."""
        begun, stage = time.monotonic(), self._waiting
        stage.inc()
        try:
            async for event in events:
                if stage is self._waiting:
                    stage.dec()
                    stage = self._running
                    stage.inc()
                    self._prompt.inc(len(request.ids))
                    self._first.observe(time.monotonic() - begun)
                self._generated.inc()
                if event.finish is not None:
                    self._whole.observe(time.monotonic() - begun)
                yield event
        finally:
            stage.dec()
            await events.aclose()

    def count_request(self, route: str, status: int) -> None:
        """Counts a request.

        Args:
            route: its path as the routes have it, without names and ids.
            status: of the response.
        """
        self._requests.labels(route, status).inc()


class Counted:
    """An application whose requests are counted."""

    def __init__(self, app: "ASGIApp", metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answers a request, and counts it when its response starts."""

        async def counted(message: "Message") -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.count_request(route, message["status"])
            await send(message)

        await self._app(scope, receive, counted)


def add_metrics(owners: APIRouter, metrics: Metrics) -> None:
    """Adds the route; `owners` are those that need the owner's token."""

    @owners.get("/metrics")
    async def show_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
