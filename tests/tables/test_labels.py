"""One's own table: which rows are known anomalies, which columns are features, which only identify."""

import datetime as dt
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from dplan import IForest, LogisticBaseline, ManyAnomaliesWarning, TableDetector
from dplan.cli.main import main
from dplan.exceptions import CellError
from dplan.tables import TablePreparer, fit_table, from_table
from dplan.tables.label_columns import combined, labels_in, labels_of
from dplan.tables.labels import Judged, LabelReader, read
from dplan.tables.summary import Summary
from dplan.tables.words import (
    Words,
    as_text,
    as_texts,
    described,
    has_verdict,
    is_reserved,
    listed,
    says_nothing,
    words_of,
)
from tests.tables.test_reading import FORMS, TABLE


def test_from_a_file(tmp_path):
    (tmp_path / "t.csv").write_bytes(FORMS["t.csv"])
    own = from_table(
        tmp_path / "t.csv",
        "checked",
        anomaly=["fraud", "chargeback"],
        normal=["ok"],
        id="payment",
        drop=["items"],
    )
    assert own.features.columns == ["amount", "new_customer", "day", "country"]
    assert own.y.tolist() == [-1, 1, 0, 2]
    assert own.classes == ("unlabelled", "fraud", "chargeback")
    assert own.ids.to_dict(as_series=False) == {"payment": ["p1", "p2", "p3", "p4"]}
    assert own.counts() == {"unlabelled": 1, "fraud": 1, "chargeback": 1}
    assert own.kinds() == {
        "number": ["amount"],
        "flag": ["new_customer"],
        "date": ["day"],
        "text": ["country"],
    }
    assert np.isfinite(TablePreparer().fit_transform(own.features)).all()


def labels(values, **options):
    own = from_table(pl.DataFrame({"x": range(len(values)), "l": values}, strict=False), "l", **options)
    return own.y.tolist(), own.classes[1:]


@pytest.mark.parametrize(
    ("values", "options", "y", "classes"),
    [
        ([0, 1, 2, None], {}, [0, 1, 2, 0], ("1", "2")),
        ([0, 5, 2, 5], {}, [0, 2, 1, 2], ("2", "5")),
        ([0.0, 1.0, None], {}, [0, 1, 0], ("1",)),
        ([False, True, None], {}, [0, 1, 0], ("1",)),
        (["0", "1", " 1 "], {}, [0, 1, 1], ("1",)),
        (["True", "False"], {}, [1, 0], ("1",)),
        (["a", "b", "c"], {"anomaly": ["c", "a"]}, [2, 0, 1], ("c", "a")),
        (["a", "b", "c"], {"anomaly": ["a", "a"]}, [1, 0, 0], ("a",)),
        (["a", "b", None, "c"], {"unlabelled": ["b"]}, [1, 0, 0, 2], ("a", "c")),
        (["a", "b", None], {"anomaly": ["a"], "unlabelled": ["b"]}, [1, 0, 0], ("a",)),
        ([7, 8, None], {"anomaly": ["7"]}, [1, 0, 0], ("7",)),
        ([7.0, 8.0, None], {"anomaly": [7]}, [1, 0, 0], ("7",)),
        ([True, False], {"anomaly": [True]}, [1, 0], ("true",)),
        (["1", "2"], {"anomaly": [1.0]}, [1, 0], ("1",)),
        ([0, 1, -1, None], {}, [0, 1, -1, 0], ("1",)),
        (["0", "1", "-1"], {}, [0, 1, -1], ("1",)),
        (["0", "1", " ", "", None], {}, [0, 1, 0, 0, 0], ("1",)),
        (["fraud", "ok", None, ""], {"anomaly": ["fraud"], "normal": ["ok"]}, [1, -1, 0, 0], ("fraud",)),
        (["fraud", "Fraud ", "FRAUD", "OK"], {"anomaly": ["fraud"]}, [1, 1, 1, 0], ("fraud",)),
        (["ok", "fraud"], {"anomaly": ["Fraud"]}, [0, 1], ("Fraud",)),
        (["a", "A", "b"], {"anomaly": ["a"], "normal": ["A"]}, [1, -1, 0], ("a",)),  # case matters here
        (["a", "A", "a ", "b"], {"anomaly": ["a", "A"]}, [1, 2, 1, 0], ("a", "A")),
        (["a", "b", "B", None], {"normal": ["B"]}, [1, -1, -1, 0], ("a",)),
        (
            ["a", "A", "a", "b"],
            {"unlabelled": ["B"]},
            [1, 1, 1, 0],
            ("a",),
        ),  # one class, by its usual spelling
    ],
)
def test_labels(values, options, y, classes):
    assert labels(values, **options) == (y, classes)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0, 0, None], {}, "label column 'l' contains no known anomalies"),
        ([None, None], {}, "label column 'l' contains no known anomalies"),
        ([1, 2], {}, "label column 'l' marks every row as an anomaly; unlabelled rows are required"),
        ([0, -2], {}, "row 2, column 'l': the label -2 is neither 0"),
        ([0, -1], {}, "label column 'l' contains no known anomalies"),
        ([0, 0.5], {}, "row 2, column 'l': the label 0.5 is neither 0"),
        (
            ["ok", "fraud", "ok"],
            {},
            r"contains 'ok' \(2 rows\), 'fraud' \(1 row\); specify which values mark",
        ),
        (["ok", "fraud"], {"anomaly": ["Frau"]}, "no anomaly value 'Frau'; did you mean 'fraud'?"),
        (
            ["ok", "fraud"],
            {"anomaly": ["fraud"], "normal": ["fine"]},
            r"no normal value 'fine'; its values are 'ok' \(1 row\), 'fraud' \(1 row\)",
        ),
        (["ok", "fraud"], {"anomaly": ["fraud"], "unlabelled": ["OK", "?"]}, r"no unlabelled value '\?'"),
        (
            ["ok", "fraud"],
            {"anomaly": ["ok"], "normal": ["Ok"]},
            "no normal value 'Ok'; did you mean 'ok'",
        ),
        (
            ["ok", "fraud"],
            {"anomaly": ["theft"]},
            r"no anomaly value 'theft'; its values are 'ok' \(1 row\)",
        ),
        (
            ["ok", "fraud", "?"],
            {"anomaly": ["fraud"], "unlabelled": ["ok"]},
            r"also contains '\?'; add each of them",
        ),
        (
            ["ok", "fraud"],
            {"anomaly": ["ok"], "unlabelled": ["ok"]},
            "'ok' cannot be both among the anomaly and the unlabelled values",
        ),
        (["ok", "ok"], {"unlabelled": ["ok"]}, "contains no known anomalies"),
        ([str(i) + "x" for i in range(30)], {}, "and 20 more"),
    ],
)
def test_bad_labels(values, options, message):
    with pytest.raises(ValueError, match=message):
        labels(values, **options)


WORDS = {
    # text: its label and class where people label a table, and where they answer
    "0": (0, -1), "false": (0, -1), "no": (0, -1), "Nein": (0, -1),
    "-1": (-1, -1), "-1.0": (-1, -1), "Normal": (-1, -1),
    "unlabelled": (0, 0), "unsure": (0, 0), "Unknown": (0, 0), "?": (0, 0),
    "1": ("1", "1"), "3.0": ("3", "3"), "true": ("anomaly", "anomaly"), "Yes": ("anomaly", "anomaly"),
    "ANOMALY": ("anomaly", "anomaly"),
    "ok": (None, -1), "false alarm": (None, -1), "1.50": (None, None), "-3": (None, None), "theft": (None, None),
}  # fmt: skip


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("text", WORDS)
def test_what_a_word_means_without_a_model(text, answers):
    expected, classes = WORDS[text][answers], ["unlabelled", "other"]
    found = words_of(None, answers=answers).code(text, classes)
    assert (classes[found] if found and found > 0 else found) == expected
    assert len(classes) == 2 + isinstance(expected, str)


def trained(labels, normal=None):
    values = None if normal is None else {"normal": normal}
    return SimpleNamespace(summary=Summary(labels={"unlabelled": 9, **labels}, label_values=values))


def test_given_words_come_before_trained_ones_and_these_before_built_in_ones():
    model = trained({"Fraud": 1, "theft": 2}, normal=["fine", "checked"])
    words = words_of(model, Words(("fraud", "new", "checked"), ("OK", "Theft"), ("open",)))
    assert words.anomaly == ("Fraud", "new", "checked")
    assert words.normal == ("OK", "Theft", "fine")
    assert words.unlabelled == ("open",)
    texts = ["FRAUD", "theft", "new", "checked", "open", "anomaly", "normal", "2", "yes", None, "what"]
    assert words.marks(pl.Series(texts), unknown=7).tolist() == [1, -1, 1, 1, 0, 1, -1, 7, 7, 0, 7]
    assert words.marks(pl.Series(["what"])).tolist() == [0]
    numbers = words_of(trained({"1": 4, "2": 4}))
    assert numbers.marks(pl.Series([0, 2, -1, 9, None])).tolist() == [0, 1, -1, 1, 0]
    # Two words that differ in nothing but case are two words.
    assert Words(("a", "A"), ("b",)).marks(pl.Series(["a", "A", "b", "B"]), unknown=7).tolist() == [
        1,
        1,
        -1,
        7,
    ]
    assert Words(("a",), ("A",), ("x",)).codes == {"x": 0, "A": -1, "a": 1}


def test_values_are_words_as_people_wrote_them():
    big = 2.0**53
    for values, texts in (
        ([1.0, None, float("nan"), -2.0], ["1", None, None, "-2"]),
        ([1.5, 2.0], ["1.5", "2.0"]),
        ([float("inf"), 1.0], ["inf", "1.0"]),
        ([big - 1, 1 - big], ["9007199254740991", "-9007199254740991"]),
        ([big, 1.0], ["9007199254740992.0", "1.0"]),
        ([" a ", "", "  ", None], ["a", None, None, None]),
        ([True, False], ["true", "false"]),
    ):
        assert as_texts(pl.Series(values)).to_list() == texts
    assert [as_text(value) for value in (2.0, 2.5, 2, True, False, " a ")] == [
        "2",
        "2.5",
        "2",
        "true",
        "false",
        "a",
    ]
    assert Words.of(None, None, None) is None
    assert Words.of([1.0, "1", "a"], None, []) == Words(("1", "a"), None, ())
    assert Words.of(None, ["ok"], None) == Words(None, ("ok",), None)
    assert [text for text in ("", "0", "False", "unlabelled", "unsure", "1", "ok") if not says_nothing(text)] == [
        "unsure", "1", "ok",
    ]  # fmt: skip
    assert [text for text in ("1,5", "-3", "+3.0", "OK", "yes", "a1", "1a", "") if not is_reserved(text)] == [
        "a1", "1a", "",
    ]  # fmt: skip


def test_rows_with_verdicts_are_identified_unless_it_is_said_that_they_are_not():
    assert Judged(
        np.ones((1, 1), dtype=np.float32), np.ones(1, dtype=int), ("unlabelled", "a"), ["p1"]
    ).identified


def test_long_lists_of_words_are_cut():
    assert listed([]) == "only missing values"
    assert listed({"a": 1, "b": 1200}) == "'a' (1 row), 'b' (1,200 rows)"
    assert listed([str(k) for k in range(10)]).endswith("'8', '9'")
    assert listed([str(k) for k in range(1012)]).endswith("'8', '9' and 1,002 more")
    assert listed({str(k): 2 for k in range(11)}).endswith("'9' (2 rows) and 1 more")
    assert described({"unlabelled": 5, "a": 1200, "b": 2}, 0) == "1,200 a, 2 b, 5 unlabelled"


def test_of_several_label_columns_the_first_that_marks_a_row_counts():
    table = pl.DataFrame({"leak": [1, 1, 0, -1, -1, 0], "noise": [1, -1, -1, 1, 0, 0]})
    expected = ["leak", "leak", "normal", "noise", "normal", None]
    assert combined(table, ["leak", "noise"]).to_list() == expected
    assert labels_in(table, "leak + noise").to_list() == expected
    assert labels_in(table, "leak").to_list() == table["leak"].to_list()
    assert (
        labels_in(table.rename({"leak": "leak + noise"}), "leak + noise").to_list() == table["leak"].to_list()
    )
    assert labels_in(table, "leak + dust") is None
    found, words = labels_of("t", table, ["leak", "noise"], None)
    assert (found.y.tolist(), found.classes) == ([1, 1, -1, 2, -1, 0], ("unlabelled", "leak", "noise"))
    assert words == Words(("leak", "noise"), ("normal",))
    found, words = labels_of("t", table.with_columns(leak=0), ["leak", "noise"], None)
    assert (found.classes, words) == (("unlabelled", "noise"), Words(("noise",), ("normal",)))
    checked = pl.DataFrame({"leak": [0, -1], "noise": [0, 0]})
    with pytest.raises(ValueError, match="contains no known anomalies"):
        labels_of("t", checked, ["leak"], None)
    for words in (None, Words(("leak", "noise"), ("normal",))):
        found, used = labels_of("t", checked, ["leak", "noise"], words, partial=True)
        assert (found.y.tolist(), used) == ([0, -1], Words(("leak", "noise"), ("normal",)))
    with pytest.raises(ValueError, match="can be given for one label column, not for several"):
        labels_of("t", table, ["leak", "noise"], Words(("leak",)))
    with pytest.raises(
        ValueError, match="label column 'leak' has several classes; use it as the only label column"
    ):
        combined(pl.DataFrame({"leak": [0, 1, 2], "noise": 0}), ["leak", "noise"])
    with pytest.raises(CellError, match="row 2, column 'noise'"):
        combined(pl.DataFrame({"leak": [0, 1], "noise": [0.0, 0.5]}), ["leak", "noise"])


def test_a_label_column_is_read_in_pieces():
    words = Words(("fraud",), ("ok",), (), built_in={"normal": "normal"})
    reader = LabelReader("verdict", words)
    assert reader.read(pl.Series(["ok", None, "Fraud", "fraud"])).tolist() == [-1, 0, 1, 1]
    reader.check()
    assert reader.read(pl.Series(["ok", "theft", "Theft", "theft", "arson"])).tolist() == [-1, 2, 2, 2, 3]
    assert reader.classes == ["unlabelled", "fraud", "theft", "arson"]
    assert reader.spellings["fraud"] == {"Fraud": 1, "fraud": 1}
    assert reader.read(pl.Series(["arson", "open"])).tolist() == [3, 4]
    with pytest.raises(
        CellError,
        match=r"row 6, column 'verdict': unknown labels 'theft' \(2 rows\), 'Theft' \(1 row\), 'arson' \(2 rows\), "
        r"'open' \(1 row\); known labels are 'fraud', 'ok', "
        r"'anomaly', 'normal'\. Say what they mean with --anomaly",
    ):
        reader.check()


@pytest.mark.parametrize(
    ("values", "y", "classes"),
    [
        ([2, -1, 0], [1, -1, 0], ("2",)),
        (["2", " -1", "", None], [1, -1, 0, 0], ("2",)),
        (["True", "false ", None], [1, 0, 0], ("1",)),
        (["2", "normal", "unsure", None], [2, -1, 0, 0], ("1", "2")),
        (["anomaly", "7", "0"], [4, 3, 0], ("1", "2", "7", "anomaly")),
    ],
)
def test_a_model_that_was_trained_with_numbers_reads_words_too(values, y, classes):
    words = words_of(trained({"1": 4, "2": 4}))
    found = read(pl.Series("l", values), words, partial=True)
    assert (found.y.tolist(), found.classes[1:]) == (y, classes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "check"}, "the table has no column 'check'; did you mean 'checked'?"),
        ({"label": "zzz"}, "has no column 'zzz'; available columns: 'payment', 'amount'"),
        ({"id": "paymnt"}, "has no column 'paymnt'; did you mean 'payment'?"),
        ({"drop": ["nothing"]}, "has no column 'nothing'"),
        ({"text": ["nothing"]}, "has no column 'nothing'"),
        ({"id": ["checked"]}, "column 'checked' cannot be the label and an id"),
        ({"id": [c for c in TABLE.columns if c != "checked"]}, "no feature columns left"),
    ],
)
def test_bad_columns(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_table(TABLE, **{"label": "checked", "anomaly": ["fraud"], **arguments})


def test_a_label_column_may_mix_numbers_and_texts(tmp_path):
    (tmp_path / "t.csv").write_text("id,x,l\n007,1,0\n008,2,0\n009,3,0\n010,4,bad\n")
    own = from_table(tmp_path / "t.csv", "l", anomaly=["bad"], id="id")
    assert own.y.tolist() == [0, 0, 0, 1]
    assert own.ids["id"].to_list() == ["007", "008", "009", "010"]


def test_pandas():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "s": ["a", None, "b"], "l": [0, 1, 0]})
    own = from_table(frame, "l")
    assert_frame_equal(own.features, pl.DataFrame({"x": [1.0, None, 3.0], "s": ["a", None, "b"]}))
    mixed = pd.DataFrame({"x": pd.Series([1, None, dt.date(2024, 1, 31)], dtype=object), "l": [0, 1, 0]})
    with pytest.raises(ValueError, match=r"row 3, column 'x': .* has a different type from 1 in row 1"):
        from_table(mixed, "l")
    twice = pd.DataFrame([[1, 2, 0]], columns=["x", "x", "l"])
    with pytest.raises(ValueError, match="duplicate column 'x'"):
        from_table(twice, "l")


def test_what_is_no_table():
    with pytest.raises(TypeError, match="expected a polars or pandas frame or an Arrow table, got int"):
        from_table(7, "l")
    with pytest.raises(ValueError, match="the table has no rows"):
        from_table(TABLE.clear(), "checked")
    with pytest.raises(TypeError, match="column 'x' has the unsupported type List"):
        from_table(pl.DataFrame({"x": [[1], [2]], "l": [0, 1]}), "l")


def test_how_many_rows_each_value_matched():
    column = ["fraud"] * 3 + ["Fraud"] + ["ok"] * 2 + [None]
    table = pl.DataFrame({"x": range(7), "l": column})
    own = from_table(table, "l", anomaly=["fraud"], normal=["ok"])
    assert own.labels.matches() == "'fraud' matched 4 rows ('fraud' 3, 'Fraud' 1); 'ok' matched 2 rows"
    assert own.counts() == {"unlabelled": 1, "fraud": 4}
    assert own.n_checked == 2


def test_rows_that_add_to_a_model_need_only_a_verdict():
    table = pl.DataFrame({"x": range(3), "l": ["ok", None, None]})
    own = from_table(table, "l", anomaly=["fraud"], normal=["ok"], partial=True, id="payment")
    assert own.y.tolist() == [-1, 0, 0]
    assert own.ids.width == 0
    assert own.labels.spellings["fraud"] == {}
    with pytest.raises(ValueError, match="contains no verdict"):
        from_table(table, "l", anomaly=["fraud"], partial=True)


# Labels of scikit-learn


def test_labels_as_scikit_learn_writes_them_are_a_warning():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.where(np.arange(300) < 20, -1, 1)  # as from IsolationForest().fit_predict(X)
    cause = "280 of 300 rows as anomalies, and it has -1 and 1 but no 0, and in scikit-learn, 1 means normal"
    with pytest.warns(ManyAnomaliesWarning, match=cause) as found:
        LogisticBaseline().fit(X, y)
    assert len(found) == 1
    assert found[0].filename == __file__
    with pytest.warns(ManyAnomaliesWarning, match=f"y labels {cause}") as found:
        TableDetector(LogisticBaseline()).fit(pl.DataFrame(X), y)
    assert len(found) == 1
    assert found[0].filename == __file__
    table = pl.DataFrame(X).with_columns(label=y)
    with pytest.warns(ManyAnomaliesWarning, match=f"label column 'label' labels {cause}.*anomaly=") as found:
        fit_table(from_table(table, "label"), LogisticBaseline(), estimate=False)
    assert len(found) == 1
    assert from_table(table, "label", anomaly=[-1]).counts() == {"unlabelled": 280, "-1": 20}
    LogisticBaseline().fit(X, -y)  # 20 known anomalies, all other rows checked
    IForest().fit(X, y)  # does not look at labels


def test_mostly_anomalies_are_a_warning():
    table = pl.DataFrame({"x": range(100), "verdict": ["ok"] * 40 + ["fraud"] * 60})
    with pytest.warns(
        ManyAnomaliesWarning, match="'verdict' labels 60 of 100 rows .* expected to be rare"
    ) as found:
        from_table(table, "verdict", anomaly=["fraud"])
    assert found[0].filename == __file__
    from_table(table, "verdict", anomaly=["ok"])


def test_rows_that_somebody_calls_normal_are_not_taken_as_unlabelled_without_a_word():
    table = pl.DataFrame({"x": range(100), "verdict": ["fraud"] * 5 + ["OK"] * 3 + [None] * 92})
    with pytest.warns(
        UserWarning, match="'OK' .3 rows. is taken as unlabelled.*--normal 'OK', in Python"
    ) as found:
        assert from_table(table, "verdict", anomaly=["fraud"]).counts() == {"unlabelled": 95, "fraud": 5}
    assert found[0].filename == __file__
    from_table(table, "verdict", anomaly=["fraud"], normal=["ok"])
    from_table(table, "verdict", anomaly=["fraud"], unlabelled=["ok"])
    # Where no cell is empty, somebody knows of all rows which are anomalies, and says only some of it.
    from_table(table.with_columns(pl.col("verdict").fill_null("ok")), "verdict", anomaly=["fraud"])


def machines(n=400):
    rng = np.random.default_rng(0)
    leak, noise = rng.random(n) < 0.05, rng.random(n) < 0.05
    return pl.DataFrame(
        {
            "pressure": rng.normal(size=n) + 4 * leak * (rng.random(n) < 0.8),
            "level": rng.normal(size=n) + 4 * noise * (rng.random(n) < 0.8),
            "leak": leak.astype(int),
            "noise": np.where(noise, "yes", "no"),
            "never": [0] * n,
        }
    )


def test_a_label_column_of_yes_and_no_needs_no_words():
    table = machines()
    for words in (("yes", "no"), ("Ja", "Nein"), ("TRUE", "FALSE")):
        column = table["noise"].replace({"yes": words[0], "no": words[1]})
        own = from_table(table.drop("leak", "never").with_columns(column), "noise")
        assert own.y.tolist() == (table["noise"] == "yes").cast(int).to_list()
    with pytest.raises(ValueError, match=r"contains 'no' .*, 'perhaps' \(1 row\); specify which values"):
        from_table(pl.DataFrame({"x": [1, 2, 3], "l": ["no", "no", "perhaps"]}), "l")


@pytest.mark.parametrize("words", [("no", "yes"), ("0", "1"), ("false", "true")])
@pytest.mark.parametrize("dtype", [pl.Categorical, "enum", "pandas"])
def test_labels_may_be_categories(words, dtype):
    table = pl.DataFrame({"amount": range(6), "bad": [*words[:1] * 4, words[1], words[1]]})
    if dtype == "pandas":
        table = table.to_pandas().astype({"bad": "category"})
    else:
        table = table.with_columns(pl.col("bad").cast(pl.Enum(words) if dtype == "enum" else dtype))
    assert from_table(table, label="bad").y.tolist() == [0, 0, 0, 0, 1, 1]


def test_every_command_reads_a_label_column_of_yes_and_no(tmp_path):
    noise = pl.col("noise").replace({"yes": "sí", "no": "não"})
    table = machines().select("pressure", "level", noise)
    table.write_csv(tmp_path / "t.csv")
    model = fit_table(from_table(tmp_path / "t.csv", "noise"), LogisticBaseline(), estimate=False)
    model.save(tmp_path / "m.dplan")
    assert has_verdict(table["noise"], model).tolist() == (table["noise"] == "sí").to_list()
    own = from_table(tmp_path / "t.csv", "noise", words=words_of(model), partial=True)
    assert own.y.tolist() == (table["noise"] == "sí").cast(int).to_list()
    run = CliRunner().invoke
    done = run(
        main, ["report", str(tmp_path / "m.dplan"), str(tmp_path / "t.csv"), "-o", str(tmp_path / "r.html")]
    )
    assert done.exit_code == 0, done.output
    assert words_of(model, answers=True).marks(pl.Series(["Sí", "não", "0", "1"])).tolist() == [1, -1, -1, 1]


def test_a_large_table_of_yes_and_no_is_sampled(tmp_path):
    labels = ["yes"] * 30 + ["no"] * 2_970
    pl.DataFrame({"x": range(3_000), "l": labels}).write_csv(tmp_path / "t.csv")
    own = from_table(tmp_path / "t.csv", "l", sample=1_000)
    assert (len(own.y), int(own.y.sum())) == (1_030, 30)


@pytest.mark.parametrize("sample", [None, 1000])
@pytest.mark.parametrize("source", ["file", "frame"])
def test_several_label_columns_are_classes(source, sample, tmp_path):
    table = machines()
    table.write_csv(tmp_path / "t.csv")
    given = {"sample": sample} if source == "file" else {}
    names = ["leak", "noise", "never"]
    own = from_table(tmp_path / "t.csv" if source == "file" else table, names, **given)
    assert own.features.columns == ["pressure", "level"]
    assert own.classes == ("unlabelled", "leak", "noise")
    assert own.label == "leak + noise + never"
    leak, noise = (table["leak"] == 1).to_numpy(), (table["noise"] == "yes").to_numpy()
    np.testing.assert_array_equal(own.y, np.where(leak, 1, np.where(noise, 2, 0)))
    with pytest.raises(ValueError, match="can be given for one label column, not for several"):
        from_table(table, names, anomaly=["yes"])
    with pytest.raises(
        ValueError, match=r"'noise' contains 'loud' .*; of several label columns, each must be 0 and"
    ):
        from_table(table.with_columns(noise=pl.lit("loud")), names)
    with pytest.raises(ValueError, match="has no column 'leaks'; did you mean 'leak'"):
        from_table(table, ["leaks", "noise"])


def test_the_commands_take_several_label_columns(tmp_path):
    machines().write_csv(tmp_path / "t.csv")
    run = CliRunner().invoke
    few = [f"--set={name}" for name in ("n_agents=1", "n_steps=2000", "warmup_steps=500", "n_rounds=20")]
    labels = ["--label", "leak", "--label", "noise", "--drop", "never", "--no-estimate"]
    table, model, new = (str(tmp_path / name) for name in ("t.csv", "m.dplan", "n.dplan"))
    done = run(main, ["inspect", table, *labels[:-1]])
    assert done.exit_code == 0, done.output
    assert "Labels: " in done.output
    assert " leak" in done.output
    assert " noise" in done.output
    for word in (["--label", "unknown"], ["--anomaly", "1"]):
        assert run(main, ["inspect", table, *labels[:-1], *word]).exit_code == 1
    done = run(main, ["fit", table, *labels, *few, "-o", model])
    assert done.exit_code == 0, done.output
    assert "Column leak + noise: 'leak' matched" in done.output
    done = run(main, ["update", model, table, "-o", new, "--no-estimate"])
    assert done.exit_code == 0, done.output
    assert run(main, ["score", table, "-m", model, "-o", str(tmp_path / "s.csv")]).exit_code == 0
    done = run(main, ["score", table, "-m", model, "-o", str(tmp_path / "n.csv"), "--skip-labelled"])
    known = from_table(table, ["leak", "noise"]).y > 0
    assert f"Scored {400 - known.sum()} rows" in done.output
    page = tmp_path / "r.html"
    done = run(main, ["report", model, table, "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "rows are known already" in page.read_text()
