"""A verification as a picture: errors and headroom by layer."""

from importlib.util import find_spec
from pathlib import Path

from ditto.errors import SetupError
from ditto.evaluation.verification import Verification


def check_matplotlib() -> None:
    """Refuse before any work is done, if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise SetupError("A picture needs matplotlib: pip install 'ditto-mpc[bench]'.")


def plot(found: Verification, path: str | Path) -> None:
    """Write a PNG or an SVG, by the file's name; needs matplotlib."""
    check_matplotlib()
    from matplotlib.figure import Figure

    names = [part.name for part in found.parts]
    places = range(len(names))
    figure = Figure(figsize=(9, 6), layout="constrained")
    errors, rooms = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    errors.semilogy(places, [p.rms for p in found.parts], "k--", label="size (rms)")
    simulated = [p.simulated.mean if p.simulated else float("nan") for p in found.parts]
    errors.semilogy(places, simulated, "s-", label="simulator, mean error")
    parties = [p.parties.mean for p in found.parts]
    errors.semilogy(places, parties, "o-", label="parties, mean error")
    largest = [p.parties.largest for p in found.parts]
    errors.semilogy(places, largest, "o:", alpha=0.6, label="parties, largest error")
    errors.legend(loc="upper left", fontsize="small")
    errors.set_ylabel("difference to float")
    errors.set_title(
        f"profile {found.profile}, {found.texts} texts: {found.verdict}", loc="left"
    )
    bits = [p.headroom.bits if p.headroom else 0.0 for p in found.parts]
    rooms.bar(places, bits, color=["tab:red" if b < 0.5 else "tab:green" for b in bits])
    rooms.set_ylabel("headroom, bits")
    rooms.set_xticks(list(places), names, rotation=45, ha="right", fontsize="small")
    figure.savefig(path, dpi=120)
