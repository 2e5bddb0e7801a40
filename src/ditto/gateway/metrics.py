"""Figures for operators, under vLLM's names. No label depends on what is asked."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Of one gateway."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def seconds(name: str, text: str) -> Histogram:
            return Histogram(
                f"ditto_{name}_seconds", text, registry=registry, buckets=_SECONDS
            )

        self.running = Gauge(
            "ditto_num_requests_running", "Requests at the parties.", registry=registry
        )
        self.waiting = Gauge(
            "ditto_num_requests_waiting", "Requests that wait.", registry=registry
        )
        self.first_token = seconds("time_to_first_token", "Until a text begins.")
        self.between_tokens = seconds("inter_token_latency", "From token to token.")
        self.whole = seconds("e2e_request_latency", "Of a request, from end to end.")
        self.queue_time = seconds("request_queue_time", "That a request waits.")
        self.prompt_tokens = Counter(
            "ditto_prompt_tokens", "Tokens of texts asked about.", registry=registry
        )
        self.generated_tokens = Counter(
            "ditto_generation_tokens", "Tokens generated.", registry=registry
        )
        self.answered = Counter(
            "ditto_request_success", "Requests answered.", ["route"], registry=registry
        )
        self.failed = Counter(
            "ditto_request_failure",
            "Requests that ended with an error.",
            ["route", "status"],
            registry=registry,
        )

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)
