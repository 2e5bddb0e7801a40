"""What a party counts, in vLLM's words. No label depends on a secret or on a client."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 150, 600)


class Metrics:
    """The counters of one party."""

    def __init__(self, peers: Sequence[str]) -> None:
        registry = self._registry = CollectorRegistry()
        self.running = Gauge(
            "ditto_num_requests_running", "Runs being executed.", registry=registry
        )
        self.waiting = Gauge(
            "ditto_num_requests_waiting", "Runs that wait.", registry=registry
        )
        self.latency = Histogram(
            "ditto_e2e_request_latency_seconds", "From arrival to answer.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.queue_time = Histogram(
            "ditto_request_queue_time_seconds", "From arrival to start.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.first_token = Histogram(
            "ditto_time_to_first_token_seconds", "Of runs that begin a text.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.token = Histogram(
            "ditto_inter_token_latency_seconds", "Of runs that continue a text.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.success = Counter(
            "ditto_request_success", "Runs that were answered.", registry=registry
        )
        self.failure = Counter(
            "ditto_request_failure", "Runs that were not, by kind of error.",
            ["code"], registry=registry,
        )  # fmt: skip
        self.link_bytes = Counter(
            "ditto_link_bytes", "Sent to a peer in runs.", ["peer"], registry=registry
        )
        self.rounds = Counter("ditto_rounds", "Of messages.", registry=registry)
        self.peer_up = Gauge(
            "ditto_peer_up", "Whether the links to a peer are up.",
            ["peer"], registry=registry,
        )  # fmt: skip
        for peer in peers:
            self.peer_up.labels(peer).set(0)
            self.link_bytes.labels(peer)
        self.ready = Gauge(
            "ditto_trio_ready", "Whether requests are taken.", registry=registry
        )
        self.states = Gauge(
            "ditto_num_states", "Conversations whose state is kept.", registry=registry
        )
        self._before: Callable[[], None] = lambda: None

    def before_reading(self, update: Callable[[], None]) -> None:
        """Have gauges set when somebody reads them."""
        self._before = update

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        self._before()
        return bytes(generate_latest(self._registry))
