"""Which extra of the package brings what is missing.

A client installs little. Whoever computes, trains or serves installs an extra, and is
told which one when something of it is not there.
"""

from importlib.util import find_spec

from ditto.errors import SetupError

_EXTRA_OF = {
    "jax": "local",
    "jaxlib": "local",
    "safetensors": "local",
    "spu": "local",
    "grpc": "client",
    "grpc_health": "serve",
    "prometheus_client": "serve",
    "jinja2": "gateway",
    "starlette": "gateway",
    "uvicorn": "gateway",
    "optax": "train",
    "yaml": "train",
    "matplotlib": "bench",
}


def require(*packages: str) -> None:
    """Raise SetupError for the first of our packages that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise _missing(package)


def explained(error: ModuleNotFoundError) -> Exception:
    """The way out, if a package of ours is missing; else the error itself."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRA_OF:
        return error
    return _missing(package)


def _missing(package: str) -> SetupError:
    return SetupError(
        f"This needs {package}, which is not installed: pip install "
        f"'ditto-mpc[{_EXTRA_OF[package]}]'."
    )
