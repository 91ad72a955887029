"""A column type that the package has never seen is one file and one line in the registry; everything else works."""

import importlib
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan.cli.main import main
from dplan.columns import TYPES
from dplan.serving.models import Limits
from dplan.serving.openapi import document
from dplan.serving.rows import RequestReader
from dplan.tables import TableModel

FILE = '''
"""Colours such as #ff8800: how much red, green and blue they have."""

import re
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from dplan.columns.column import Column
from dplan.columns.records import Condition, Counts, Histogram, Typical

_COLOUR = re.compile("#[0-9a-fA-F]{6}")
_LIGHTS = ("red", "green", "blue")


@dataclass(frozen=True, kw_only=True)
class Colour(Column):
    """A colour; its features are the shares of red, green and blue."""

    kind = "colour"
    words = ("colour", "color")

    brightest: str = ""

    @classmethod
    def propose(cls, values, hints):
        return cls(why=f"colours such as {values[0]}") if all(map(cls.recognises, values)) else None

    @classmethod
    def recognises(cls, text):
        return _COLOUR.fullmatch(text) is not None

    def described(self):
        return "a colour"

    def parse(self, texts):
        texts = texts.str.strip_chars().str.to_lowercase()
        found = pl.when(texts.str.contains("^#[0-9a-f]{6}$")).then(texts)
        return pl.select(found).to_series().alias(texts.name)

    def learn(self, series, training):
        lights = _lights(series.drop_nulls())
        brightest = series.drop_nulls()[int(lights.sum(axis=1).argmax())]
        return replace(self, name=series.name, fill=tuple(lights.mean(axis=0).tolist()), brightest=brightest)

    def output_names(self):
        return [f"{self.name} {light}" for light in _LIGHTS]

    def write(self, values, out):
        texts = values[self.name]
        out[:] = np.array(self.fill)
        out[texts.is_not_null().to_numpy()] = _lights(texts.drop_nulls())
        return Counts(texts.null_count())

    def restored(self, own):
        return "#" + bytes(np.rint(255 * own).astype(np.uint8).tolist()).hex()

    def typical(self, background):
        low, high = np.quantile(background[:, 0], [0.05, 0.95])
        return Typical(f"{100 * low:.0f}–{100 * high:.0f} % red", float(low), float(high))

    def conditions(self, found, own, background, known):
        light = int(own.argmax())
        return [Condition("mostly", _LIGHTS[light], background.argmax(axis=1) == light, known.argmax(axis=1) == light)]

    def histogram(self, parts):
        labels, shares = [f"much {light}" for light in _LIGHTS], [part.mean(axis=0) for part in parts]
        return Histogram(labels, None, [share.astype(np.float64) for share in shares])

    def picture(self, background, own, *, missing):
        means = background.mean(axis=0)
        return {"bars": [[light, float(share), False] for light, share in zip(_LIGHTS, means, strict=True)]}

    def spread(self, series):
        return f"{series.n_unique()} colours"

    def summary(self):
        return f"colours up to {self.brightest}"

    def schema(self):
        return {"type": ["string", "null"], "pattern": _COLOUR.pattern}

    def is_valid(self):
        return super().is_valid() and self.width == 3 and self.recognises(self.brightest)


def _lights(texts):
    return np.array([list(bytes.fromhex(text[1:])) for text in texts], dtype=np.float32).reshape(-1, 3) / 255
'''

REDS, GREENS = ("#A01010", "#b02018", "#c01828"), ("#10e010", "#18d820")


def run(*arguments):
    """Run a command; return what it printed."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the same table in three formats and a model, while the registry has the new type."""
    folder = tmp_path_factory.mktemp("colours")
    (folder / "colours_of_cars.py").write_text(FILE, encoding="utf-8")
    rng = np.random.default_rng(0)
    fraud = rng.random(400) < 0.1
    colours = [rng.choice(GREENS if one else REDS) for one in fraud]
    colours[7] = None
    table = pl.DataFrame({"price": rng.normal(100, 9, 400), "paint": colours, "fraud": fraud.astype(int)})
    table.write_csv(folder / "cars.csv")
    table.write_parquet(folder / "cars.parquet")
    table.write_ndjson(folder / "cars.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        colour = importlib.import_module("colours_of_cars").Colour
        TYPES.insert(0, colour)  # the line in the registry
        options = ("--label", "fraud", "--detector", "LogisticBaseline", "--no-estimate")
        for form in ("csv", "parquet", "jsonl"):
            run("fit", folder / f"cars.{form}", *options, "-o", folder / f"{form}.dplan")
        yield folder
        TYPES.remove(colour)


@pytest.fixture(scope="module")
def model(folder):
    return TableModel.load(folder / "csv.dplan")


def test_it_is_found_fitted_saved_and_loaded(model):
    paint = model.preparation.columns_[1]
    assert (type(paint).__name__, paint.brightest, paint.why) == (
        "Colour",
        "#18d820",
        "colours such as #c01828",
    )
    assert model.preparation.get_feature_names_out().tolist()[1:] == [
        "paint red",
        "paint green",
        "paint blue",
    ]
    assert paint.restored(
        model.preparation.transform(pl.DataFrame({"price": [1.0], "paint": [REDS[0]]}))[0, 1:]
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_it_is_scored_with_reasons_in_every_format(form, folder, model):
    output = folder / f"scored-{form}.csv"
    run("score", folder / f"cars.{form}", "-m", folder / f"{form}.dplan", "-o", output, "--explain")
    found = pl.read_csv(output)
    expected = model.score(pl.read_csv(folder / "cars.csv").drop("fraud"))
    np.testing.assert_allclose(found["score"], expected, rtol=1e-5)
    assert found["reasons"].drop_nulls().str.contains("`paint` = #1[08].*% red").any()


def test_what_is_not_of_the_type_is_named(folder, tmp_path):
    (tmp_path / "new.csv").write_text("price,paint\n1,#102030\n2,mauve\n")
    done = CliRunner().invoke(
        main,
        ["score", str(tmp_path / "new.csv"), "-m", str(folder / "csv.dplan"), "-o", str(tmp_path / "s.csv")],
    )
    assert done.exit_code == 1
    assert "new.csv, line 3, column 'paint': 'mauve' is not a colour" in done.output


def test_it_is_reported_and_inspected(folder):
    run("report", folder / "csv.dplan", folder / "cars.csv", "-o", folder / "report.html")
    assert "much green" in (folder / "report.html").read_text(encoding="utf-8")
    assert "paint: colours up to #18d820 (colours such as #c01828)" in run("inspect", folder / "csv.dplan")
    shown = run("inspect", folder / "cars.csv")
    assert "6 colours" in shown
    assert "colours such as #c01828" in shown


def test_it_can_be_asked_for_and_overruled(folder):
    assert "as specified" in run("inspect", folder / "cars.csv", "--column", "paint=color")
    assert "category" in run("inspect", folder / "cars.csv", "--column", "paint=category")
    done = CliRunner().invoke(main, ["inspect", str(folder / "cars.parquet"), "--column", "price=colour"])
    assert done.exit_code == 1
    assert "column 'price' has the type Float64, so it cannot be read as colour" in done.output


def test_it_is_served(model):
    found = document({"cars": SimpleNamespace(model=model)}, Limits())
    assert found["components"]["schemas"]["cars.Row"]["properties"]["paint"]["pattern"] == "#[0-9a-fA-F]{6}"
    reader = RequestReader(model, 10)
    rows = reader.read([{"price": 90.0, "paint": GREENS[0]}, {"price": 90.0, "paint": None}])
    table = pl.DataFrame({"price": [90.0, 90.0], "paint": [GREENS[0], None]})
    assert (reader.scorer.score(reader.together([rows])).prepared == model.preparation.transform(table)).all()


def test_it_is_exported_or_refused_clearly(folder):
    done = CliRunner().invoke(main, ["export", str(folder / "csv.dplan"), "--onnx", str(folder / "m.onnx")])
    assert done.exit_code == 1
    assert "columns of the type 'colour' cannot be exported to ONNX ('paint')" in done.output
    assert not (folder / "m.onnx").exists()
