"""Compiles the C kernels into the wheel; without a compiler XLA serves in their place.

``CC`` names the compiler. A wheel for old systems is built with
``CC="python -m ziglang cc -target x86_64-linux-gnu.2.17"`` and is tagged manylinux2014.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = "-O3 -std=gnu11 -Wall -Wextra -shared -fPIC -fvisibility=hidden -pthread"
SOURCES = (
    "aes.c",
    "flags.c",
    "galois.c",
    "packing.c",
    "products.c",
    "recast.c",
    "tables.c",
)
OLD_GLIBC = "linux-gnu.2.17"


class KernelHook(BuildHookInterface[Any]):
    """A shared library that ctypes loads: one wheel serves every Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Called just before a wheel is built, editable or not."""
        compiler = _compiler()
        if compiler is None:
            self.app.display_warning("No C compiler for x86-64: XLA will multiply.")
            return
        folder = Path(self.root, "src", "ditto", "native")
        sources = [str(folder / name) for name in SOURCES]
        library = folder / "libditto.so"
        made = library.with_name(f"{library.name}.{os.getpid()}")
        command = [*compiler, *FLAGS.split(), "-o", str(made), *sources]
        try:
            done = subprocess.run(command, check=False).returncode == 0  # noqa: S603
        except OSError:
            done = False
        if not done:
            made.unlink(missing_ok=True)
            self.app.display_warning("The C kernels do not compile: XLA will multiply.")
            return
        made.replace(library)  # a process that has the old one loaded keeps it
        build_data["artifacts"].append(str(library.relative_to(self.root)))
        build_data["pure_python"] = False
        old = any(OLD_GLIBC in part for part in compiler)
        platform_tag = "manylinux2014_x86_64" if old else "linux_x86_64"
        build_data["tag"] = f"py3-none-{platform_tag}"


def _compiler() -> list[str] | None:
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return None
    chosen = os.environ.get("CC")
    if chosen:
        return shlex.split(chosen)
    found = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    return [found] if found else None
