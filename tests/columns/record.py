"""What column types decide, learn, compute and say about a small table of everyday columns, as values of JSON.

``python -m tests.columns.record`` writes the record anew. Only for a change that is meant to change what users get:
look at the differences in `record.json` one by one, and name them in CHANGELOG.md.
"""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import polars as pl

from dplan.columns import TYPES
from dplan.columns.dates import Date
from dplan.columns.deciding import understand, understand_frame
from dplan.columns.flags import Filled
from dplan.columns.frequencies import Frequency
from dplan.columns.preparer import TablePreparer
from dplan.exceptions import CellError
from dplan.tables.chunks import MISSING

RECORD = Path(__file__).with_name("record.json")

N = 48
_DEPTH = 3  # of the record, in lines

# Cells of a file; each list is repeated.
TEXTS = {
    "amount": ["1.234,50 €", "12,00 €", "-3,25 €", "0,99 €", ""],
    "rate": ["7.5 %", "12 %", "100 %", "0.25 %"],
    "weight": ["12 kg", "7,5 kg", "1.200 kg"],
    "points": ["1.234", "950", "12.100"],
    "either": ["1.234", "2.345", "3.456"],
    "cents": ["1,50", "2,25", "13,75", "n/a"],
    "plain": ["3", "-4.5", "1e3", "0.001", "12"],
    "day": ["31.01.2024", "15.02.2024", "28.02.2024", "01.12.2023"],
    "us day": ["12/31/2023", "01/13/2024", "02/28/2024"],
    "doubtful day": ["01/02/2024", "03/04/2024", "05/06/2024", "07/08/2024"],
    "moment": ["2024-01-31 23:59:58", "2024-02-01 00:00:00", "2023-12-24T18:30:00", "2024-06-15 12:00"],
    "named day": ["3 Mar 2024", "14. Dezember 2023", "29 février 2024"],
    "time": ["7:30", "23:59:59", "00:00", "12.15 Uhr"],
    "length": ["1h 30min", "45 min", "PT2H", "26:30:00"],
    "member": ["ja", "nein", "Ja", ""],
    "flag": ["TRUE", "FALSE"],
    "country": ["DE", "FR", "DE", "PL", "DE"],
    "zip": ["01067", "10115", "20095"],
    "account": ["DE89 3704 0044 0532 0130 00", "FR7630006000011234567890189"],
    "mail": ["a.b@example.com", "c@example.org", "d@example.com"],
    "page": ["https://a.example.com/x?y=1", "http://b.example.org/", "https://a.example.com/z"],
    "mostly numbers": ["12", "15", "17", "19", "25", "about 30"],
    "empty": ["", "-"],
    "one": ["x"],
}  # fmt: skip

# Cells that stop reading, or that people overrule.
ODD = {
    "one bad number": ([*(str(i) for i in range(40)), "1O"], {}),
    "one bad date": ([*(f"{i + 1:02}.03.2024" for i in range(30)), "31.02.2024"], {}),
    "mixed": ([*(str(i) for i in range(30)), *(f"about {i}" for i in range(10))], {}),
    "units": (["5 kg", "3 g", "7 kg"], {}),
    "given a number": (["1.234", "2.345"], {"kind": "number", "decimal": ","}),
    "given a category": (["1", "2"], {"kind": "category"}),
    "given a date": (["09/08/2024", "10/08/2024"], {"kind": "date", "order": "mdy"}),
    "given the calendar": (["2024-08-09", "2024-08-10"], {"kind": "date", "calendar": True}),
    "given flags": (["1", "0"], {"kind": "flag"}),
    "given wrong flags": (["1", "maybe"], {"kind": "flag"}),
    "given durations": (["1h", "2 min"], {"kind": "duration"}),
    "given filled": (["a", ""], {"kind": "filled"}),
    "given nothing": (["a", "b"], {"kind": "drop"}),
    "counted": ([str(1000 + i) for i in range(200)], {}),
    "codes": ([f"A-{i:04}" for i in range(200)], {}),
    "free text": ([f"the customer said {i * i} and then {i} more things" for i in range(200)], {}),
    "rare": (["x", *[""] * 150], {}),
    "many levels": ([f"level {i * i % 97}" for i in range(300)], {}),
}  # fmt: skip


def plain(value):
    """Return a value as JSON has it, with numbers that do not depend on the processor."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") + 0.0 if np.isfinite(value) else str(value)
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def table_of_texts():
    return [pl.Series(name, [cells[i % len(cells)] for i in range(N)]) for name, cells in TEXTS.items()]


def table_with_types():
    rng = np.random.default_rng(0)
    first = dt.datetime(2024, 1, 1, 9)
    frame = pl.DataFrame(
        {
            "number": np.append(rng.normal(100, 20, N - 1).round(2), 500.0),
            "whole": [i % 7 - 2 for i in range(N)],
            "ordered": [dt.date(2023, 11, 20) + dt.timedelta(days=2 * i - i % 5) for i in range(N)],
            "paid": [first + dt.timedelta(days=2 * i, hours=i % 3, minutes=7 * i % 60) for i in range(N)],
            "at": [dt.time(8 + i % 4, 5 * i % 60) for i in range(N)],
            "due": [dt.datetime(2024, 1, 5) + dt.timedelta(days=30 * (i % 11)) for i in range(N)],
            "card": ["a", "a", "b", "a", "c", "a"] * (N // 6),
            "shop": [f"s{int(i**0.6)}" for i in range(N)],
            "note": [None, "x", None, None] * (N // 4),
            "new": [False, False, True] * (N // 3),
            "all the same": [3.5] * N,
            "as text": ["1.5", "n/a", "2.5", "4"] * (N // 4),
        }
    )
    gaps = {"number": 5, "paid": 11, "at": 13, "card": 17, "new": 19}
    return frame.with_columns(
        pl.when(pl.int_range(N) != row).then(pl.col(name)).alias(name) for name, row in gaps.items()
    )


def decided(column):
    """Return what is said about a column before training."""
    return {
        "type": column.type, "why": column.why, "sure": column.sure, "decided": column.decided,
        "described": [column.described(), column.described_briefly(), column.understood()],
        "votes": dict(column.votes()), "stored as read": column.is_as_stored, "untidied": column.reads_untidied,
        "settings": {name: getattr(column, name) for name in sorted(column._stored())},
    }  # fmt: skip


def learned(column, series, background, new):
    """Return what a column says of its own and of new rows."""
    if not column.is_used:
        return {"stored": column.to_json(), "summary": column.summary()}
    typical = column.typical(background)
    quantiles = np.quantile(background, [0.1, 0.5, 0.9], axis=0)
    bins, rows = column.bins(quantiles), [0, 5, 7, N - 1]
    histogram = column.histogram([background, new])
    counts = [column.counts(part, bins) for part in (background, new)]
    known = background[[3, 7, N - 1]]
    return {
        "stored": column.to_json(),
        "summary": column.summary(),
        "spread": column.spread(column.read(series)),
        "schema": column.schema(),
        "typical": [typical.text, typical.low, typical.high, typical.levels],
        "includes": [typical.includes(own) for own in new],
        "bins": [[len(b), *np.ravel(b)[:3]] for b in bins],
        "counts": counts,
        "distances": [
            column.distance(np.array(b) / sum(b) - np.array(a) / sum(a)) for a, b in zip(*counts, strict=True)
        ],
        "histogram": [list(part) if isinstance(part, tuple) else part for part in histogram],
        "rows": [
            {
                "restored": column.restored(own),
                "new": column.is_new(own),
                "close": [column.is_close(own, known, within=share) for share in (0.0, 0.1)],
                "picture": column.picture(background, own, missing=own[0] == background[0, 0]),
                "conditions": [
                    [condition[0], condition[1], *(int(np.sum(part)) for part in condition[2:])]
                    for condition in column.conditions("value", own, background, known)
                ],
            }
            for own in (*background[rows], *new[:3], new[-1])
        ],
    }


def of_table(frame, meanings):
    """Return what is learned from a table and said about rows of it that were changed."""
    preparer = TablePreparer(meanings=meanings).fit(frame)
    changed = frame[::-1][:9].with_columns(
        pl.col(pl.Float64, pl.Int64) * 3 + 1,
        pl.col(pl.Date, pl.Datetime).dt.offset_by("3mo13d"),
        pl.when(pl.int_range(9) % 2 == 0).then(pl.col(pl.String)).otherwise(pl.lit("never seen")),
    )
    changed = pl.concat([changed, frame.clear(1)])
    found = {}
    features, report = preparer.transform_with_report(changed)
    groups, background = preparer.feature_groups(), preparer.transform(frame)
    for j, column in enumerate(preparer.columns_):
        own = groups == j
        found[column.name] = learned(column, frame[column.name], background[:, own], features[:, own])
    return {
        "columns": found,
        "names": preparer.get_feature_names_out(),
        "features": features,
        "report": report._asdict() if hasattr(report, "_asdict") else vars(report),
        "cells": [preparer.number_columns, preparer.text_columns],
    }


def everything():
    """Return the whole record."""
    problems: list[CellError] = []
    texts, meanings = understand(table_of_texts(), {}, MISSING, problems=problems)
    typed, typed_meanings = understand_frame(table_with_types(), {}, MISSING)
    odd = {}
    for name, (cells, given) in ODD.items():
        try:
            frame, own = understand([pl.Series(name, cells)], {name: given} if given else {}, MISSING)
            odd[name] = [frame.to_series().to_list()[:12], decided(own[name])]
        except CellError as error:
            odd[name] = str(error)
    asked = {"shop": Frequency(), "note": Filled(), "due": Date(calendar=True, asked="ordered")}
    return plain(
        {
            "deciding": {name: decided(column) for name, column in meanings.items()},
            "deciding with types": {name: decided(column) for name, column in typed_meanings.items()},
            "values": {column.name: [str(value) for value in column.head(6)] for column in texts},
            "problems": [str(problem) for problem in problems],
            "odd": odd,
            "texts": of_table(texts, meanings),
            "types": of_table(typed, {**typed_meanings, **asked}),
            "takes": {
                kind.__name__: [
                    [str(dtype), kind().accepts(dtype), kind().takes(dtype), kind.holds(dtype)]
                    for dtype in (pl.String, pl.Float32, pl.Int8, pl.Boolean, pl.Date, pl.Duration, pl.Null)
                ]
                for kind in TYPES
            },
        }
    )


def as_lines(content, path=""):
    """Return a flat form of the record, so that a difference is a line."""
    lines = {}
    for name, value in content.items():
        own = f"{path}{name}"
        deeper = isinstance(value, dict) and own.count(" / ") < _DEPTH
        lines |= as_lines(value, f"{own} / ") if deeper else {own: value}
    return lines


if __name__ == "__main__":
    rows = [json.dumps([path, value], ensure_ascii=False) for path, value in as_lines(everything()).items()]
    RECORD.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
