"""The report: cells, ratios, marks, refusals, pictures."""

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import Report, write_report
from benchmarks.report import paper_values as paper
from benchmarks.report import results as results_module
from benchmarks.report.document import markdown
from benchmarks.report.results import in_order, read_all, read_results
from ditto.errors import SetupError

NETWORKS = {
    "loopback": {"name": "loopback", "backend": "loopback"},
    "lan": {"name": "lan", "backend": "tun", "rtt": 0.00041, "bandwidth": 4.1e9},
    "wan": {"name": "wan", "backend": "tun", "rtt": 0.0402, "bandwidth": 3.9e8},
}
COSTS = {
    # Profile, GeLU: bytes, rounds, seconds of bert-base at 128 tokens.
    ("spu", "stock"): (27_786_400_000, 7693, 381.2),
    ("puma", "puma"): (7_137_800_000, 5232, 170.0),
    ("mpcformer quad+softmax", "quad"): (6_900_000_000, 1900, 240.0),
    ("mpcformer quad+2relu", "quad"): (2_900_000_000, 1500, 110.0),
    ("paper", "quad"): (2_848_900_000, 4715, 94.4),
    ("ditto", "quad"): (893_300_000, 3640, 25.5),
}
PARTS = [
    # What of a layer's time and bytes, where, in which ring.
    ("attention", "linear", "32", 0.16, 0.10),
    ("attention", "max", "spu32", 0.32, 0.24),
    ("attention", "exp", "32", 0.09, 0.28),
    ("attention", "normalisation", "spu64", 0.05, 0.06),
    ("attention/bhqd,bhkd->bhqk", "scores", "32", 0.06, 0.06),
    ("attention", "reshape", "free", 0.01, 0.0),
    ("attention_norm", "layer norm", "32", 0.04, 0.04),
    ("attention_norm", "rsqrt", "spu64", 0.02, 0.01),
    ("feed_forward", "linear", "32", 0.19, 0.12),
    ("feed_forward", "gelu", "32", 0.03, 0.07),
    ("output_norm", "layer norm", "32", 0.02, 0.02),
    ("output_norm", "rsqrt", "spu64", 0.01, 0.0),
]


def row(
    profile: str = "ditto",
    gelu: str = "quad",
    *,
    model: str = "bert-base",
    seq: int = 128,
    batch: int = 1,
    network: str = "lan",
    **changes: Any,
) -> dict[str, Any]:
    """One run; cost grows with tokens and batch, and with the network's delay."""
    sent, rounds, seconds = COSTS.get((profile, gelu), COSTS["ditto", "quad"])
    share = seq * batch / 128
    slow = {"wan": 6.0, "lan": 1.0, "loopback": 0.8}[network]
    made = {
        "model": model,
        "seq": seq,
        "batch": batch,
        "profile": profile,
        "gelu": gelu,
        "network": NETWORKS[network],
        "layers": 12,
        "measured_layers": 12,
        "bytes": round(sent * share),
        "rounds": rounds,
        "seconds": seconds * share**0.8 * slow,
        "runs": [seconds * share**0.8 * slow * k for k in (0.98, 1.0, 1.03)],
        "cpu_seconds": [seconds * 0.6] * 3,
        "peak_rss_mb": 1524,
        "upload_bytes": 174_000,
        "mean_abs_error": 0.0003,
        "mean_abs_value": 0.42,
    }
    return made | changes


def parts(seconds: float, sent: float, layers: int = 12) -> list[dict[str, Any]]:
    """Steps by scope and kind, which come to a run's seconds and bytes."""
    found = [
        {
            "scope": f"encoder.layer.{k}/{scope}",
            "what": what,
            "ring": ring,
            "bytes": sent * 0.98 * size / layers,
            "rounds": 10,
            "seconds": seconds * 0.95 * time / layers,
        }
        for k in range(layers)
        for scope, what, ring, time, size in PARTS
    ]
    for scope, what, time, size in (
        ("embeddings", "lookup", 0.04, 0.015),
        ("classify", "linear", 0.01, 0.005),
    ):
        found.append(
            {
                "scope": scope,
                "what": what,
                "ring": "32",
                "bytes": sent * size,
                "rounds": 3,
                "seconds": seconds * time,
            }
        )
    return found


def results(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "versions": {"ditto": "0.1.0", "spu": "0.10.0"},
        "cpu": "Imagined CPU | 3 GHz",
        "cores": 2,
        "command": "python -m benchmarks.inference --models bert-base",
        "rows": list(rows),
    } | changes


def everything() -> dict[str, Any]:
    """A file that every table and picture has rows in."""
    ditto = row()
    ditto |= {
        "parts": parts(25.5, 893_300_000),
        "spent": {"compute": 15.3, "waiting": 5.1, "copies": 2.55, "python": 2.55},
    }
    rows = [ditto, *(row(*series) for series in COSTS if series[0] != "ditto")]
    ours = [("puma", "puma"), ("paper", "quad"), ("ditto", "quad")]
    rows += [row(*s, network="wan") for s in ours]
    rows += [row(*s, seq=n) for s in ours for n in (32, 64, 256)]
    rows += [row(*s, batch=n) for s in ours for n in (2, 4)]
    further = {"bytes": 7_969_150, "rounds": 3615, "seconds": 9.491}
    for network in ("lan", "wan"):
        rows += [
            row(*s, model="gpt2-base", seq=32, network=network, next_token=further)
            for s in ours
        ]
    return results(*rows)


def written(folder: Path, found: Any, name: str = "results.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return path


def report(folder: Path, *files: dict[str, Any]) -> str:
    """The Markdown of files 0.json, 1.json, ..., without drawing."""
    paths = [written(folder, found, f"{k}.json") for k, found in enumerate(files)]
    read = read_all(paths)
    rows = in_order(r for found in read.values() for r in found.rows)
    return markdown(read, rows, [])


def cells(text: str, section: str, *beginning: str) -> list[str]:
    """The one line of a section's tables whose first cells these are."""
    found = []
    for part in text.split("\n## "):
        if not part.startswith(section):
            continue
        for line in part.splitlines():
            split = [cell.strip() for cell in line.strip("|").split(" | ")]
            if tuple(split[: len(beginning)]) == beginning:
                found.append(split)
    assert len(found) == 1, found
    return found[0]


def test_the_paper_is_transcribed() -> None:
    """Its printed ratios follow from its printed figures."""
    lengths = {
        "bert-base": [(3.00, 1.76), (2.77, 1.53), (2.43, 1.44), (2.04, 1.42)],
        "gpt2-base": [(2.40, 1.80), (2.31, 1.64), (2.13, 1.48), (1.89, 1.40)],
    }
    for model, printed in lengths.items():
        for seq, ratios in zip((32, 64, 128, 256), printed, strict=True):
            found = paper.compared(model, "Ditto", seq, 1, "lan")
            assert (found.less, found.faster) == pytest.approx(ratios, abs=0.0051)
    batches = [(2.43, 1.44), (2.44, 1.42), (2.44, 1.43), (2.42, 1.43)]
    for batch, ratios in zip((1, 2, 4, 8), batches, strict=True):
        found = paper.compared("bert-base", "Ditto", 128, batch, "lan")
        assert (found.less, found.faster) == pytest.approx(ratios, abs=0.0051)
    networks = {
        ("bert-base", 128, "lan"): 1.44,
        ("bert-base", 128, "wan"): 1.46,
        ("gpt2-base", 32, "lan"): 1.89,
        ("gpt2-base", 32, "wan"): 1.53,
    }
    for (model, seq, network), faster in networks.items():
        what = model, "Ditto", seq, 1, network
        found = paper.compared(*what, table=paper.NETWORKS)
        assert found.faster == pytest.approx(faster, abs=0.0051)
    by_table = 53.17 / 30.58
    assert paper.speedup("bert-base", "Ditto", 128, 1, "lan") == 1.74
    assert by_table == pytest.approx(1.74, abs=0.005)
    assert len(paper.VALUES) == 2 * 4 * 4 + 4 * 4 + 4 * 4
    assert paper.compared("bert-large", "Ditto", 128, 1, "lan").empty


@pytest.mark.parametrize(
    ("profile", "gelu", "method"),
    [
        ("spu", "stock", "Baseline"),
        ("puma", "puma", "PUMA"),
        ("paper", "quad", "Ditto"),
        ("ditto", "quad", "Ditto"),
        ("ditto", "accurate", "Ditto w/o {a}"),
        ("mpcformer quad+softmax", "quad", "MPCFormer"),
        ("mpcformer quad+2relu", "quad", None),
        ("mine", "quad", None),
    ],
)
def test_methods_of_the_paper(profile: str, gelu: str, method: str | None) -> None:
    assert paper.method_of(profile, gelu) == method


def test_cells_of_every_table(tmp_path: Path) -> None:
    text = report(tmp_path, everything())
    assert cells(text, "Where", "0.json", "Imagined CPU \\| 3 GHz")[2:] == [
        "ditto 0.1.0, spu 0.10.0",
        "2",
    ]
    assert cells(text, "Where", "0.json", "wan")[2:] == [
        "tun",
        "40.2 ms",
        "0.390 Gbit/s",
    ]
    assert "    python -m benchmarks.inference --models bert-base # 0.json\n" in text
    lan, wan = text.split("### wan\n")[0], text.split("### wan\n")[1]
    assert cells(lan, "Every", "bert-base", "128", "ditto")[3:] == [
        *("quad", "893.3 MB", "3640", "25.5", "7.99x", "6.67x"),
        *("4.35 GB", "30.58", "2.43x", "1.44x"),
    ]
    assert cells(lan, "Every", "bert-base", "128", "spu")[4:] == [
        *("27.79 GB", "7693", "381", "0.26x", "0.45x"),
        *("15.12 GB", "53.17", "0.70x", "0.83x"),
    ]
    assert cells(lan, "Every", "bert-base", "128", "mpcformer quad+2relu")[9:] == (
        ["-"] * 4
    )
    # In the WAN, the paper's seconds are of another table, its bytes are the same.
    wan = "## Every run\n" + wan
    first = next(line for line in wan.splitlines() if "128 | ditto" in line)
    assert first.endswith("| 1.46x |")
    assert "| 153 |" in first
    assert "| 4.35 GB | 303.50 |" in first
    assert cells(text, "Varying length", "ditto")[2:4] == [
        "223.3 MB (7.99x)",
        "8.41 (6.67x)",
    ]
    assert cells(text, "Varying length", "the paper's Ditto")[-2:] == [
        "12.78 GB (2.04x)",
        "62.48 (1.42x)",
    ]
    assert cells(text, "Varying batch", "the paper's PUMA")[-1] == "153.88"
    assert cells(text, "Networks", "bert-base", "128", "ditto")[4:] == [
        "25.5 (6.67x)",
        "153 (6.67x)",
    ]
    their = cells(text, "Networks", "gpt2-base", "32", "the paper's Ditto")[4:]
    assert their == ["20.30 (1.89x)", "233.32 (1.53x)"]
    chain = cells(text, "Ablation", "bert-base", "128", "lan", "ditto")[5:]
    assert chain == ["893.3 MB", "25.5", "3.19x", "3.70x", "31.11x", "14.95x"]
    without = ("bert-base", "128", "lan", "the paper's Ditto w/o {a}")
    assert cells(text, "Ablation", *without)[5:] == ["-"] * 5 + ["1.41x"]
    spu = cells(text, "By ring", "ditto", "quad", "SPU, 32 bits")[3:]
    assert spu == ["210.1 MB", "23.5 %", "120", "7.75", "30.4 %"]
    assert cells(text, "By ring", "ditto", "quad", "layer norm")[3] == "52.5 MB"
    assert cells(text, "By ring", "ditto", "quad", "attention")[-1] == "65.6 %"
    assert cells(text, "Where the time", "bert-base")[5:] == [
        *("15.3 (60.0 %)", "5.10 (20.0 %)", "2.55 (10.0 %)", "2.55 (10.0 %)"),
        *("25.5", "25.5"),
    ]
    others = cells(text, "Memory", "bert-base", "128", "lan", "ditto")[5:8]
    assert others == ["25.0 to 26.3 in 3", "45.9", "1524 MB"]


def test_first_and_further_tokens(tmp_path: Path) -> None:
    further = {"bytes": 58_372_056, "rounds": 5110, "seconds": 39.1}
    quick = {"bytes": 7_969_150, "rounds": 3615, "seconds": 9.491}
    gpt2 = {"model": "gpt2-base", "seq": 32}
    text = report(
        tmp_path,
        results(
            row("puma", "puma", **gpt2, next_token=further),
            row(**gpt2, next_token=quick),
        ),
    )
    after = "## Further" + text.split("Each further one")[1]
    assert cells(after, "## Further", "gpt2-base", "32", "ditto")[4:] == [
        *("8.0 MB", "3615", "9.49", "7.32x", "4.12x"),
    ]


def test_tables_without_rows_are_left_out(tmp_path: Path) -> None:
    text = report(tmp_path, results(row("puma", "puma")))
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Where it was measured",
        "## Every run",
        "## Memory, uploads and errors",
    ]
    assert "†" not in text
    assert "‡" not in text


def test_ratios_stay_within_a_file_and_a_network(tmp_path: Path) -> None:
    puma, ditto = row("puma", "puma"), row()
    text = report(tmp_path, results(puma), results(ditto))
    assert cells(text, "Every", "bert-base", "128", "ditto")[7:9] == ["-", "-"]
    assert "### lan, 0.json" in text
    assert "## Ablation" not in text

    away = row("puma", "puma", network="wan")
    text = report(tmp_path, results(away, ditto))
    assert cells(text, "Every", "bert-base", "128", "ditto")[7:9] == ["-", "-"]
    assert cells(text, "Networks", "bert-base", "128", "ditto")[4:] == ["-", "25.5"]

    other = row("puma", "puma", seq=64)
    text = report(tmp_path, results(other, ditto))
    assert cells(text, "Every", "bert-base", "128", "ditto")[7:9] == ["-", "-"]

    # Side by side from two files: each ratio is of its own.
    slow = [row("puma", "puma", network="wan"), row(network="wan")]
    text = report(tmp_path, results(puma, row(seconds=85.0)), results(*slow))
    side = cells(text, "Networks", "bert-base", "128", "ditto")[4:]
    assert side == ["85.0 (2.00x)", "153 (6.67x)"]
    assert "lan, 0.json: seconds | wan, 1.json: seconds" in text


def test_scaled_rows_are_marked_everywhere(tmp_path: Path) -> None:
    found = everything()
    for one in found["rows"]:
        if one["profile"] == "puma":
            one["measured_layers"] = 2
    text = report(tmp_path, found)
    sections = text.split("\n## ")[2:]
    for section in sections:
        if "| puma" in section:
            assert "† Measured on 2 of 12 layers and scaled to all." in section
            assert "puma †" in section or " † |" in section
    assert cells(text, "Ablation", "bert-base", "128", "lan", "puma †")
    ditto = cells(text, "Ablation", "bert-base", "128", "lan", "paper")
    assert ditto[7:] == ["2.51x†", "1.80x†", "9.75x", "4.04x"]
    assert cells(text, "Varying length", "ditto")[2] == "223.3 MB (7.99x†)"
    assert cells(text, "Varying length", "puma")[2] == "1.78 GB †"

    # A whole run is compared with before a scaled one.
    both = [row("puma", "puma", seconds=300.0, measured_layers=2), row("puma", "puma")]
    text = report(tmp_path, results(*both, row()))
    assert cells(text, "Every", "bert-base", "128", "ditto")[8] == "6.67x"


def test_a_network_that_the_paper_has_not(tmp_path: Path) -> None:
    rows = [row(*s, network="loopback") for s in (("puma", "puma"), ("ditto", "quad"))]
    text = report(tmp_path, results(*rows))
    beside = cells(text, "Every", "bert-base", "128", "ditto")[9:]
    assert beside == ["4.35 GB", "30.58 ‡", "2.43x", "1.44x ‡"]
    assert "‡ In the paper's LAN: it has no network loopback." in text
    assert cells(text, "Where", "0.json", "loopback")[3:] == ["-", "-"]


def test_a_baseline_says_what_it_does_otherwise(tmp_path: Path) -> None:
    name = "mpcformer quad+2relu"
    other = row(name, setting="two parties", input="embedded already")
    text = report(tmp_path, results(row("puma", "puma"), other))
    assert f"\n{name}: two parties; embedded already.\n" in text


def test_two_gelus_stand_side_by_side(tmp_path: Path) -> None:
    accurate = row("ditto", "accurate", seconds=51.0)
    text = report(tmp_path, results(row("puma", "puma"), accurate, row()))
    found = cells(text, "Every", "bert-base", "128", "ditto", "accurate")
    assert found[8:] == ["3.33x", "-", "-", "-", "-"]
    chain = cells(text, "Ablation", "bert-base", "128", "lan", "ditto", "accurate")
    assert chain[-1] == "3.33x"


def changed(**changes: Any) -> dict[str, Any]:
    return results(row() | changes)


def without(name: str) -> dict[str, Any]:
    found = row()
    del found[name]
    return results(row(), found)


@pytest.mark.parametrize(
    ("found", "match"),
    [
        ([row()], r"bad\.json is no results file: it holds no JSON object"),
        ({"rows": [row()]}, r"bad\.json is no results file: versions is missing\.$"),
        (results(), r"in rows, .*at least 1 item"),
        (without("bytes"), r"bad\.json is no results file: rows\[1\]\.bytes is miss"),
        (without("measured_layers"), r"rows\[1\]\.measured_layers is missing"),
        (changed(network={"rtt": 1.0}), r"rows\[0\]\.network\.name is missing"),
        (changed(seconds=0), r"in rows\[0\]\.seconds, input should be greater than 0"),
        (changed(seconds=float("nan")), r"in rows\[0\]\.seconds, .*finite"),
        (changed(seconds="fast"), r"in rows\[0\]\.seconds, .*number"),
        (changed(bytes=-1), r"in rows\[0\]\.bytes, "),
        (changed(measured_layers=13), r"measured_layers is 13, more than the 12 "),
        (changed(parts=[{"scope": "a"}]), r"rows\[0\]\.parts\[0\]\.what is missing"),
        (changed(next_token={}), r"rows\[0\]\.next_token\.bytes is missing"),
    ],
)
def test_refusals(tmp_path: Path, found: Any, match: str) -> None:
    path = written(tmp_path, found, "bad.json")
    with pytest.raises(SetupError, match=match) as caught:
        read_results(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b"1" * 9999]
)
def test_what_is_not_json(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(SetupError, match=r"bad\.json is no results file: it "):
        read_results(path)


def test_files_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SetupError, match=r"none\.json cannot be read: No such file"):
        read_results(tmp_path / "none.json")
    path = written(tmp_path, results(row()))
    with pytest.raises(SetupError, match="given twice"):
        read_all([path, tmp_path / "." / path.name])
    with pytest.raises(SetupError, match="at least one"):
        read_all([])
    monkeypatch.setattr(results_module, "MAX_FILE", 100)
    with pytest.raises(SetupError, match=r"results\.json is larger than"):
        read_results(path)


def test_same_names_in_two_folders(tmp_path: Path) -> None:
    paths = [written(tmp_path / name, results(row())) for name in ("a", "b")]
    assert list(read_all(paths)) == [str(path) for path in paths]


def test_a_plain_network_is_its_name(tmp_path: Path) -> None:
    found = read_results(written(tmp_path, changed(network="lan")))
    assert found.rows[0].network.name == "lan"


def test_pictures(tmp_path: Path) -> None:
    made = write_report([written(tmp_path, everything())], tmp_path / "new" / "folder")
    names = ["scatter.png", "lengths.png", "batches.png", "breakdown.png"]
    assert isinstance(made, Report)
    assert [path.name for path in made.pictures] == names
    assert made.paths == (tmp_path / "new" / "folder" / "report.md", *made.pictures)
    text = made.markdown.read_text()
    for path in made.pictures:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(content) > 10_000
        assert f"]({path.name})" in text


def test_pictures_of_odd_rows(tmp_path: Path) -> None:
    """Two files, missing panels, names with dollars, a profile nobody knows."""
    deep = {"scope": "/".join("abcdefghij"), "what": "$x$", "ring": "spu128"}
    deep |= {"bytes": 1, "rounds": 0, "seconds": 3.0}
    many = [row(f"mine {k}", "$a$", seconds=k + 1.0) for k in range(6)]
    one = results(row(parts=[deep], measured_layers=2), *many)
    two = results(row(model="folder/$m$", network="loopback", seq=7))
    paths = [written(tmp_path, one, "1.json"), written(tmp_path, two, "2.json")]
    made = write_report(paths, tmp_path)
    assert [path.name for path in made.pictures] == ["scatter.png", "breakdown.png"]


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.delitem(sys.modules, "benchmarks.report.figures", raising=False)
    monkeypatch.delattr("benchmarks.report.figures", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SetupError, match=r"pip install 'ditto-mpc\[bench\]'"):
        write_report([written(tmp_path, everything())], tmp_path / "made")
    assert not (tmp_path / "made").exists()
