"""What the record contains, computed by the code as it is now.

Only public names, commands and requests are used, so that it can be computed whatever the modules are called.
"""

import functools
import hashlib
import importlib.metadata
import json
import platform
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import polars as pl
import threadpoolctl
from click.testing import CliRunner
from sklearn.base import clone

import dplan
from dplan.cli.main import main
from dplan.tables import fit_table, from_table
from tests.detectors.quick import QUICK
from tests.record import orders
from tests.serving.process import Running

HERE = Path(__file__).parent
RECORD, MODEL = HERE / "record.json", HERE / "orders.dplan"

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "polars", "rich", "onnx", "onnxruntime", "fastexcel")
_SHOWN = 3  # values that are recorded as they are, beside the digest of all

Record = dict[str, Any]


def environment() -> dict[str, str]:
    """Return what the last bits of a fit depend on: the processor, its BLAS kernels and versions of libraries."""
    kernels = {found.get("architecture", "") for found in threadpoolctl.threadpool_info()}
    return {
        "processor": llvmlite.binding.get_host_cpu_name(),
        "kernels": " ".join(sorted(filter(None, kernels))),
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def digest(content: bytes | str) -> str:
    """Return a digest, which is compared only where the environment is that of the record."""
    data = content.encode() if isinstance(content, str) else content
    return "sha256:" + hashlib.sha256(data).hexdigest()[:24]


def floats(values: Any) -> Record:
    """Return the digest of some numbers, and a few of them."""
    array = np.ascontiguousarray(values, dtype="<f8")
    return {"digest": digest(array.tobytes()), "n": len(array), "first": array.ravel()[:_SHOWN].tolist()}


def run(*arguments: object, code: int = 0, text: str | None = None) -> str:
    """Run a command; return what it prints, without seconds, sizes and folders."""
    found = CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)
    assert found.exit_code == code, (arguments, found.output, found.exception)
    return masked(found.output)


def masked(text: str) -> str:
    """Return a text without what differs between runs: seconds, folders, sizes of files and the version."""
    text = re.sub(r"(?<![\w/:])/(?:[^\s/'\"]+/)+", "", text)
    text = re.sub(r"seconds [\d.e-]+", "seconds …", text)
    text = re.sub(r"\d+\.\d s\b", "… s", text)
    text = re.sub(r"\([\d,.]+ kB", "(… kB", text)
    text = re.sub(r"Seconds: .*", "Seconds: …", text)
    return text.replace(dplan.__version__, "VERSION")


def model_bytes(path: Path) -> str:
    """Return the digest of a model file without its own digest, the version and the seconds that training took."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    described = json.loads(header["__metadata__"].pop("dplan"))
    del header["__metadata__"]["sha256"], described["package"]
    return digest(json.dumps([_without_seconds(described), header]).encode() + data[end:])


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_seconds(own) for name, own in value.items() if name != "seconds"}
    return [_without_seconds(own) for own in value] if isinstance(value, list) else value


# --- Arrays: every detector ---


def detectors(folder: Path) -> Record:
    """Scores and files of every detector, with labels of two classes, with checked rows, and updated."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 8)) * 10.0 ** rng.integers(-2, 3, 8)
    X[:, -1] = X[:, -1] > 0
    X[:24] += 3 * X.std(axis=0)
    y = np.zeros(300, dtype=int)
    y[:8], y[8:12] = 1, 2
    checked = y.copy()
    checked[40:60] = -1
    found: Record = {}
    for name, detector in QUICK.items():
        for which, labels in (("labels", y), ("verdicts", checked)):
            fitted = clone(detector).fit(X, labels)
            path = folder / "fitted.dplan"
            fitted.save(path)
            assert np.array_equal(dplan.load(path).anomaly_score(X), fitted.anomaly_score(X))
            found[f"{name}, {which}"] = {
                "scores": floats(fitted.anomaly_score(X)),
                "offset": float(fitted.offset_),
                "percentiles": floats(fitted.percentile(X)),
                "effects": floats(dplan.explain.effects(fitted, X[:5], X[60:110]).effects),
                "file": model_bytes(path),
            }
    assert {entry.name for entry in dplan.list_detectors()} <= set(QUICK)
    return found


# --- Tables: every type of column, every format ---


def _labels() -> list[str]:
    return [f"{option}={value}" for option, values in orders.LABELS.items() for value in values]


def _columns(names: Any) -> list[str]:
    return [f"--column={name}={kind}" for name, kind in orders.COLUMNS.items() if name in names]


_SETTINGS = (
    "n_agents=1",
    "n_steps=300",
    "warmup_steps=100",
    "n_rounds=5",
    "n_trees=10",
    "tree_size=32",
    "n_jobs=1",
)


def write_model(folder: Path) -> None:
    """Write the model file of the record, which scores the same on every machine."""
    orders.write(folder)
    settings = [f"--set={setting}" for setting in _SETTINGS]
    table = folder / "orders.csv"
    run("fit", table, "--label=verdict", *_labels(), "--id=order", *_columns(orders.COLUMNS), *settings,
        "--overwrite", "-o", MODEL)  # fmt: skip


def formats(folder: Path) -> Record:
    """What fit, inspect and score make of the same table in every format."""
    orders.write(folder)
    found: Record = {}
    for name in ("orders.csv", "deutsch.csv", "orders.parquet", "orders.xlsx", "orders.jsonl", "orders.db"):
        table, model, out = folder / name, folder / f"{name}.dplan", folder / f"{name}.scored.parquet"
        given = _columns(orders.COLUMNS) if name != "deutsch.csv" else []
        fast = [] if name == "orders.csv" else ["--no-estimate"]
        fitted = run("fit", table, "--label=verdict", *_labels(), "--id=order", *given, *fast,
                     "--detector=LogisticBaseline", "-o", model)  # fmt: skip
        loaded = dplan.load(model)
        run("score", table, "-m", model, "-o", out, "--explain", "--budget=20")
        scored = pl.read_parquet(out)
        found[name] = {
            "inspect": run("inspect", table, *given).splitlines(),
            "fit": fitted.splitlines(),
            "model": run("inspect", model).splitlines(),
            "preparation": digest(json.dumps(loaded.preparation.to_state(), sort_keys=True, default=str)),
            "background": floats(loaded.background),
            "known": floats(loaded.known_anomalies),
            "scores": floats(scored["score"]),
            "percentiles": floats(scored["percentile"]),
            "reasons": scored["reasons"].drop_nulls().to_list()[:5],
            "file": model_bytes(model),
        }
    return found


def _with_nulls(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.all().replace(["", "n/a"], None))


def _new() -> pl.DataFrame:
    return _with_nulls(orders.new_orders())


def python(folder: Path) -> Record:
    """Models of frames in Python: typed columns, text, pandas; effects, reasons, ONNX, and an update."""
    table = orders.typed(orders.orders()).drop("verdict", "comment")
    y = (np.arange(table.height) % 40 == 0).astype(int)
    y[7::33] = -1
    found: Record = {}
    for name, frame in (("polars", table), ("pandas", table.drop("opened", "took").to_pandas())):
        fitted = dplan.TableDetector(clone(QUICK["IForest"])).fit(frame, y)
        fitted.save(folder / "m.dplan")
        found[name] = {
            "scores": floats(fitted.decision_function(frame)),
            "reasons": fitted.reasons(frame[:4]),
            "effects": floats(fitted.explain(frame[:4]).effects),
            "file": model_bytes(folder / "m.dplan"),
        }
    own = from_table(orders.orders(), label="verdict", anomaly=["fraud"], id="order")
    model = fit_table(own, clone(QUICK["BoostedBaseline"]), estimate=True)
    found["from_table"] = {
        "classes": list(own.classes),
        "labels": digest(own.y.tobytes()),
        "scores": floats(model.score(_new())),
        "prepared": floats(model.prepare(_new())),
        "summary": _without_seconds(model.summary.to_json()),
    }
    return found


# --- A model file that is part of the record: what follows from it is the same on every machine ---


@functools.cache
def _loaded() -> Any:
    return dplan.load(MODEL)


def model(folder: Path) -> Record:
    """What the model file of the record says about new rows in Python."""
    orders.write(folder)
    loaded, new = _loaded(), dplan.tables.read_table(folder / "new.csv", text=_loaded().columns)
    prepared, scores = loaded.prepare(new), loaded.score(new)
    loaded.save(folder / "again.dplan")
    explanation = loaded.explain(new[:10])
    return {
        "prepared": {"digest": digest(prepared.tobytes()), "row": [round(float(x), 6) for x in prepared[3]]},
        "scores": floats(scores),
        "percentiles": floats(loaded.percentile(scores)),
        "reasons": loaded.reasons(new)[:40],
        "effects": floats(explanation.effects),
        "threshold": loaded.threshold,
        "columns": loaded.columns,
        "file": model_bytes(folder / "again.dplan"),
        "inspect": run("inspect", MODEL).splitlines(),
    }


def scored(folder: Path) -> Record:
    """What ``dplan score`` writes and prints."""
    orders.write(folder)
    new, bad, parts = folder / "new.csv", folder / "errors.csv", folder / "parts"
    ways: dict[str, tuple[Path | str, str, list[str]]] = {
        "csv": (new, "csv", ["--explain"]),
        "chunks": (new, "csv", ["--explain", "--chunk-rows=37", "--jobs=2"]),
        "budget": (new, "csv", ["--explain", "--budget=7", "--keep=segment"]),
        "top": (new, "csv", ["--explain", "--top=9", "--keep=amount"]),
        "threshold": (new, "csv", ["--explain", f"--threshold={_loaded().threshold - 0.1}"]),
        "separator": (new, "csv", ["--separator=;", "--decimal=,"]),
        "skip labelled": (new, "csv", ["--skip-labelled"]),
        "skip": (bad, "csv", ["--on-error=skip", "--explain"]),
        "null": (bad, "csv", ["--on-error=null", "--explain"]),
        "parquet": (new, "parquet", ["--explain"]),
        "arrow": (new, "arrow", ["--explain"]),
        "jsonl": (new, "jsonl", ["--explain", "--budget=3"]),
        "folder": (parts, "csv", ["--explain", "--budget=5"]),
        "folder to folder": (parts, "", ["--budget=5"]),
    }
    found: Record = {}
    for name, (table, suffix, options) in ways.items():
        out = folder / (name.replace(" ", "-") + (f".{suffix}" if suffix else ""))
        said = run("score", table, "-m", MODEL, "-o", out, *options).splitlines()
        found[name] = {"said": said, **_written(out, suffix)}
        errors = sorted(folder.glob(f"{out.stem}*errors*"))
        if errors:
            found[name]["errors"] = {path.name: _lines(path.read_text()) for path in errors}
    assert {path.name for path in folder.glob(".*")} == set()
    found["fail"] = run("score", bad, "-m", MODEL, "-o", folder / "no.csv", code=1).splitlines()
    found["follow"] = {}
    for form in ("csv", "jsonl"):
        few = orders.with_errors()[:24]
        rows = few.write_csv() if form == "csv" else _with_nulls(few).write_ndjson()
        said = run("score", "-", "-m", MODEL, "-o", "-", "--follow", "--explain", f"--format={form}", code=1,
                   text=rows)  # fmt: skip
        found["follow"][form] = _lines(said)
    found["standard input"] = _lines(run("score", "-", "-m", MODEL, "-o", "-", text=new.read_text()))
    return found


def _lines(text: str) -> Record:
    lines = text.splitlines()
    return {"digest": digest("\n".join(lines)), "n": len(lines), "first": lines[:_SHOWN]}


def _written(out: Path, suffix: str) -> Record:
    if not suffix:
        return {path.name: _written(path, path.suffix[1:]) for path in sorted(out.iterdir())}
    if suffix in ("csv", "jsonl"):
        return _lines(out.read_text())
    table = pl.read_parquet(out) if suffix == "parquet" else pl.read_ipc(out)
    types = {name: str(kind) for name, kind in table.schema.items()}
    return {
        "types": types,
        "rows": digest(json.dumps(table.rows(), default=str)),
        "score": floats(table["score"]),
    }


def parts(folder: Path) -> Record:
    """The names of the parts that a run leaves behind which an error in its last chunk ended."""
    new = pl.concat([orders.new_orders(), orders.with_errors()[50:51]])
    new.write_csv(folder / "new.csv")
    run("score", folder / "new.csv", "-m", MODEL, "-o", folder / "out.csv", "--chunk-rows=30", "--jobs=1",
        "--explain", code=1)  # fmt: skip
    left = [path for path in folder.rglob("*") if path.is_file() and re.search(r"-[0-9a-f]{16,}", path.name)]
    names = sorted(str(path.relative_to(folder)) for path in left)
    assert len(names) >= 4
    return {"names": digest("\n".join(names).replace(dplan.__version__, "")), "n": len(names)}


def queue(folder: Path) -> Record:
    """A review queue, and what an update makes of it."""
    orders.write(folder)
    out = folder / "queue.csv"
    said = run("score", folder / "new.csv", "-m", MODEL, "--review", out, "--review-rows=8")
    table = pl.read_csv(out, infer_schema=False)
    found: Record = {"said": said.splitlines(), "text": _lines(out.read_text("utf-8-sig"))}
    found["codes"] = table["dplan_row"].to_list()
    found["rows"] = table.select("order", "percentile", "reasons").rows()
    words = ["fraud", "normal", "theft", "", "ok", "no", "unsure", "yes"]
    table.with_columns(verdict=pl.Series([*words[:7], ""])).write_csv(folder / "filled.csv")
    updated = folder / "updated.dplan"
    said = run("update", MODEL, folder / "filled.csv", "-o", updated)
    found["verdicts"] = said.splitlines()[:2]
    return found


def updates(folder: Path) -> Record:
    """Updates with verdicts, from a queue and from a table: fits, which another processor rounds differently."""
    orders.write(folder)
    run("score", folder / "new.csv", "-m", MODEL, "--review", folder / "queue.csv", "--review-rows=8")
    table = pl.read_csv(folder / "queue.csv", infer_schema=False)
    words = ["fraud", "normal", "theft", "", "ok", "no", "unsure", ""]
    table.with_columns(verdict=pl.Series(words)).write_csv(folder / "filled.csv")
    found: Record = {}
    for name, source in (("queue", folder / "filled.csv"), ("table", folder / "new.csv")):
        out = folder / f"{name}.dplan"
        said = run("update", MODEL, source, "-o", out)
        loaded = dplan.load(out)
        found[name] = {
            "said": said.splitlines(),
            "scores": floats(loaded.score(_new())),
            "file": model_bytes(out),
        }
    return found


def report(folder: Path) -> Record:
    """The sections of the report."""
    orders.write(folder)
    found: Record = {}
    ways = {"plain": [], "labels": ["--label=verdict", "--anomaly=fraud", "--anomaly=theft", "--keep=segment"],
            "budget": ["--budget=6", "--top=4", "--skip-labelled"], "null": ["--on-error=null"]}  # fmt: skip
    for name, options in ways.items():
        table = folder / ("errors.csv" if name == "null" else "new.csv")
        out = folder / f"{name}.html"
        found[name] = {"said": run("report", MODEL, table, "-o", out, *options).splitlines()}
        page = masked(out.read_text("utf-8")).partition("<body")[2]
        assert page
        for section in re.split(r"(?=<h2)", page):
            title = re.sub(r"<.*?>", "", section.partition("</h2>")[0]).strip() if "<h2" in section else "top"
            text = re.sub(r"<(script|style).*?</\1>", "", section, flags=re.DOTALL)
            words = " ".join(re.sub(r"<[^>]*>", " ", text).split())
            found[name][title] = {"digest": digest(section), "text": words[:300]}
    return found


def exported(folder: Path) -> Record:
    """The ONNX graph: its inputs and its scores, which another runtime computes."""
    import onnxruntime

    path = folder / "m.onnx"
    plain = orders.typed(orders.orders()).select("order", "amount", "items", "gift", "segment", "booked")
    new = orders.typed(orders.new_orders()).select(plain.columns)
    own = from_table(
        plain.with_columns(verdict=orders.orders()["verdict"]), "verdict", anomaly=["fraud"], id="order"
    )
    fit_table(own, clone(QUICK["IForest"]), estimate=False).save(folder / "m.dplan")
    run("export", folder / "m.dplan", "--onnx", path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = session.get_modelmeta().custom_metadata_map
    inputs = {}
    for entry in session.get_inputs():
        columns = new.select(names[entry.name].split("\n"))
        if entry.name == "numbers":
            temporal = pl.selectors.temporal().cast(pl.Datetime("us")).cast(pl.Int64)
            inputs["numbers"] = columns.with_columns(temporal).cast(pl.Float64).fill_null(np.nan).to_numpy()
        else:
            texts = columns.select(pl.all().cast(pl.String).fill_null(""))
            inputs["texts"] = texts.to_numpy().astype(object)
    version = dplan.__version__.encode()
    said = run("export", MODEL, "--onnx", folder / "all.onnx")
    return {
        "inputs": names,
        "file": digest(path.read_bytes().replace(version, b"")),
        "scores": floats(session.run(["score"], inputs)[0]),
        "all types": [said, digest((folder / "all.onnx").read_bytes().replace(version, b""))],
    }


def served(folder: Path) -> Record:
    """What the service answers."""
    rows = _new().drop("verdict", "comment", "empty")[:30].to_dicts()
    (folder / "orders.dplan").write_bytes(MODEL.read_bytes())
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    tensors = [
        {"name": name, "datatype": "BYTES", "shape": [len(rows)], "data": values}
        for name, values in columns.items()
    ]
    asked: dict[str, tuple[str, Any]] = {
        "score": ("/score", rows),
        "one": ("/score", rows[:1]),
        "columns": ("/score", {"columns": columns}),
        "explain": ("/explain", rows[:12]),
        "invocations": ("/invocations", {"dataframe_records": rows}),
        "infer": ("/v2/models/orders/infer", {"id": "7", "inputs": tensors}),
        "metadata": ("/v2/models/orders", None),
        "models": ("/models", None),
        "bad cell": ("/score", [{**rows[0], "amount": "much"}]),
        "missing column": ("/score", [{"amount": 1}]),
    }
    with Running(folder, folder / "orders.dplan") as running:
        answers = {name: running.ask(*question)[:2] for name, question in asked.items()}
        schema = running.ask("/openapi.json")[1]
    found: Record = {}
    for name, (status, content) in answers.items():
        text = masked(json.dumps(content, ensure_ascii=False))
        text = re.sub(r'"(loaded|digest)": "[^"]*"', r'"\1": "…"', text)
        found[name] = {"status": status, "digest": digest(text), "start": text[:400]}
    found["openapi"] = {"digest": digest(masked(json.dumps(schema))), "paths": sorted(schema["paths"])}
    return found


def reviewed(folder: Path) -> Record:
    """The review page: its queue, a row in full, thresholds, and the lines of its log; and labels made of it."""
    orders.write(folder)
    log, table = folder / "verdicts.jsonl", folder / "new.csv"
    found: Record = {}
    with dplan.review(MODEL, table, log=log, model_out=folder / "new.dplan", browser=False, refit_every=0,
                      who="me") as page:  # fmt: skip
        address, _, token = page.url.partition("/?token=")
        port = address.rpartition(":")[2]

        def ask(path: str, body: Any = None) -> Any:
            data = None if body is None else json.dumps({"window": "w", **body}).encode()
            headers = {"Cookie": f"dplan-review-{port}={token}", "Content-Type": "application/json"}
            request = urllib.request.Request(address + path, data, headers)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=120) as answer:
                return json.loads(answer.read())

        while not ask("/api/state")["opened"]:
            time.sleep(0.05)
        rows = ask("/api/queue")["rows"]
        found["queue"] = {"digest": digest(json.dumps(rows)), "rows": [(r["id"], r["digest"]) for r in rows]}
        details = [ask(f"/api/row/{row['row']}") for row in rows[:4]]  # whose reasons are then in the log
        found["rows"] = [{"digest": digest(json.dumps(row)), "reasons": row["reasons"]} for row in details]
        found["thresholds"] = digest(json.dumps(ask("/api/threshold")))
        verdicts = (("anomaly", "fraud"), ("normal", ""), ("unsure", ""), ("anomaly", "new kind"))
        for row, (verdict, name) in zip(rows, verdicts, strict=False):
            ask(
                "/api/verdict",
                {"row": row["row"], "digest": row["digest"], "verdict": verdict, "class": name},
            )
        ask("/api/undo", {})
        state = ask("/api/state")
        found["state"] = sorted(state)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found["log"] = [
        {k: v for k, v in line.items() if k not in ("time", "seconds", "model")} for line in lines
    ]
    run("labels", "export", log, table, "-o", folder / "labels.csv", "--only-reviewed")
    found["labels"] = _lines((folder / "labels.csv").read_text())
    found["replay"] = run("labels", "replay", log).splitlines()
    return found


def simulated(folder: Path) -> Record:
    """A simulated review with refits: its lines, its log and its model."""
    orders.write(folder)
    table = orders.new_orders()
    truth = pl.when(pl.int_range(pl.len()) % 20 == 0).then(pl.lit("fraud")).otherwise(pl.lit("normal"))
    table.with_columns(truth=truth).write_csv(folder / "new.csv")
    log = folder / "v.jsonl"
    said = run("review", MODEL, folder / "new.csv", "--simulate=truth", "--verdicts=14", "--every=6", "--log", log,
               "--model-out", folder / "m.dplan", "--labels-out", folder / "l.csv")  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k not in ("time", "seconds", "who", "model")} for line in lines]
    return {
        "said": said.splitlines(),
        "log": digest(json.dumps(kept)),
        "order": [line["row"] for line in lines if line["kind"] == "verdict"],
        "labels": _lines((folder / "l.csv").read_text()),
        "file": model_bytes(folder / "m.dplan"),
    }


# Fits are promised for one processor and one set of libraries; what a model file says, for every machine.
FITTED: dict[str, Callable[[Path], Record]] = {
    "detectors": detectors,
    "formats": formats,
    "python": python,
    "updates": updates,
    "exported": exported,
    "simulated": simulated,
}
PROMISED: dict[str, Callable[[Path], Record]] = {
    "model": model,
    "scored": scored,
    "parts": parts,
    "queue": queue,
    "report": report,
    "served": served,
    "reviewed": reviewed,
}
GROUPS = {**FITTED, **PROMISED}
