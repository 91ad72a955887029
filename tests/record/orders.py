"""A made-up table with a column of every type, in every format that is read."""

import json
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

N_ROWS = 400

# What the values alone do not say.
COLUMNS = {
    "booked": "date,calendar",
    "shipped": "date,since=booked",
    "weight": "number,unit=kg",
    "took": "duration",
    "remark": "filled",
}
LABELS = {"--anomaly": ("fraud", "theft"), "--normal": ("checked",)}


def orders(n_rows: int = N_ROWS, seed: int = 0) -> pl.DataFrame:
    """Return orders as a file has them: every column is text, about three in a hundred cells are empty."""
    rng = np.random.default_rng(seed)
    row = np.arange(n_rows)
    odd = row % 20 == 0
    booked = [
        datetime(2024, 1, 1) + timedelta(minutes=int(m)) for m in np.sort(rng.integers(0, 500_000, n_rows))
    ]
    waiting = rng.integers(30, 9_000, n_rows)
    amount = np.round(rng.lognormal(5, 1, n_rows) * np.where(odd, 20, 1), 2)
    balance = np.round(rng.normal(0, 2_000, n_rows), 2)
    weight = np.round(rng.gamma(2, 3, n_rows), 1)
    seconds = rng.integers(20, 9_000, n_rows) * np.where(odd, 5, 1)
    opened = rng.integers(6 * 60, 21 * 60, n_rows)
    countries = np.where(odd, "NG", rng.choice(["DE", "FR", "PL"], n_rows))
    hosts = np.where(odd, "cheap.example", rng.choice(["shop.example", "www.shop.example"], n_rows))
    domains = rng.choice(["mail.example", "post.example", "firm.example"], n_rows)
    words = rng.choice(["late", "broken", "fine", "parcel", "again", "call", "door", "left"], (n_rows, 14))
    columns = {
        "order": [f"A-{10_000 + seed * 1_000 + i}" for i in row],
        "amount": [str(value) for value in amount],
        "items": [str(value) for value in rng.integers(1, 9, n_rows)],
        "balance": [f"{v:,.2f} €" if v >= 0 else f"({-v:,.2f} €)" for v in balance],
        "weight": [f"{value} kg" for value in weight],
        "gift": rng.choice(["yes", "no"], n_rows, p=[0.2, 0.8]).tolist(),
        "booked": [f"{moment:%Y-%m-%d %H:%M:%S}" for moment in booked],
        "shipped": [
            f"{m + timedelta(minutes=int(w)):%Y-%m-%d %H:%M:%S}" for m, w in zip(booked, waiting, strict=True)
        ],
        "born": [f"{d.day}/{d.month}/{d.year - 20 - i % 50}" for i, d in enumerate(booked)],
        "opened": [f"{m // 60:02}:{m % 60:02}" for m in opened],
        "took": [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in seconds],
        "segment": rng.choice(["retail", "business", "staff/family", "public"], n_rows).tolist(),
        "iban": [f"{c}{10 + i % 80}37040044{10_000_000 + i:010}" for i, c in enumerate(countries)],
        "email": [f"{chr(97 + i % 26)}{i}@{domain}" for i, domain in enumerate(domains)],
        "page": [f"https://{host}/{i}" for i, host in enumerate(hosts)],
        "remark": [f"note {i}" if keep else "" for i, keep in enumerate(rng.random(n_rows) < 0.3)],
        "comment": [" ".join(own) + f" {i}" for i, own in enumerate(words)],
        "constant": ["same"] * n_rows,
        "empty": [""] * n_rows,
    }
    gaps = ("amount", "items", "balance", "gift", "shipped", "born", "opened", "took", "segment", "email")
    for name in gaps:
        columns[name] = [
            "" if gap else text for text, gap in zip(columns[name], rng.random(n_rows) < 0.03, strict=True)
        ]
    verdict = np.where(odd & (row % 40 == 0), "fraud", np.where(odd & (row % 60 == 20), "theft", ""))
    columns["verdict"] = np.where(row % 33 == 7, "checked", verdict).tolist()
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def new_orders() -> pl.DataFrame:
    """Return other orders: new levels, missing values, and values beyond those of the training."""
    row = pl.int_range(pl.len())
    return orders(120, seed=1).with_columns(
        segment=pl.when(row % 10 == 3).then(pl.lit("never seen")).otherwise("segment"),
        page=pl.when(row % 15 == 4).then(pl.lit("http://new.example/x")).otherwise("page"),
        amount=pl.when(row == 5)
        .then(pl.lit("9999999"))
        .when(row == 6)
        .then(pl.lit("n/a"))
        .otherwise("amount"),
        gift=pl.when(row == 8).then(pl.lit("")).otherwise("gift"),
        booked=pl.when(row == 9).then(pl.lit("2031-12-24 23:59:00")).otherwise("booked"),
    )


def with_errors() -> pl.DataFrame:
    """Return the new orders with cells that cannot be used in three rows."""
    row = pl.int_range(pl.len())
    return new_orders().with_columns(
        amount=pl.when(row.is_in([2, 50])).then(pl.lit("much")).otherwise("amount"),
        booked=pl.when(row == 20).then(pl.lit("soon")).otherwise("booked"),
    )


def typed(table: pl.DataFrame) -> pl.DataFrame:
    """Return the orders with types and missing values, as a database or a Parquet file has them."""
    table = table.with_columns(pl.all().replace(["", "n/a"], None))
    hours, minutes, seconds = (pl.col("took").str.split(":").list.get(i).cast(pl.Int64) for i in range(3))
    return table.with_columns(
        pl.col("amount").cast(pl.Float64),
        pl.col("items").cast(pl.Int64),
        pl.col("booked", "shipped").str.to_datetime(),
        gift=pl.col("gift") == "yes",
        opened=pl.col("opened").str.to_time("%H:%M"),
        segment=pl.col("segment").cast(pl.Categorical),
        took=pl.duration(hours=hours, minutes=minutes, seconds=seconds),
    )


def german(table: pl.DataFrame) -> pl.DataFrame:
    """Return a few of the columns as a German spreadsheet writes them."""
    flags = {"yes": "ja", "no": "nein"}
    balance = pl.col("balance").str.replace_many([",", "."], [".", ","])
    booked = pl.col("booked").str.to_datetime().dt.strftime("%d.%m.%Y %H:%M")
    return table.select(
        "order",
        pl.col("amount").str.replace(".", ",", literal=True).alias("Betrag"),
        balance.alias("Saldo"),
        pl.col("gift").replace(flags).alias("Geschenk"),
        booked.alias("gebucht"),
        pl.col("segment").replace("public", "Öffentlich").alias("Größe"),
        "verdict",
    )


def write(folder: Path) -> None:
    """Write the orders in every format, and the new orders in some."""
    table = orders()
    table.write_csv(folder / "orders.csv")
    (folder / "deutsch.csv").write_bytes(german(table).write_csv(separator=";").encode("cp1252"))
    typed(table).write_parquet(folder / "orders.parquet")
    simple = typed(table).with_columns(pl.col("segment").cast(pl.String), pl.col("took").dt.total_seconds())
    simple.drop("empty").write_excel(folder / "orders.xlsx", worksheet="orders", autofit=False)
    lines = typed(table).with_columns(
        pl.col("booked", "shipped", "opened", "segment").cast(pl.String), pl.col("took").dt.total_seconds()
    )
    lines.write_ndjson(folder / "orders.jsonl")
    with sqlite3.connect(folder / "orders.db") as database:
        database.execute(
            f"CREATE TABLE orders ({', '.join(f'{json.dumps(name)}' for name in lines.columns)})"
        )
        marks = ", ".join("?" * lines.width)
        database.executemany(f"INSERT INTO orders VALUES ({marks})", lines.rows())
    database.close()
    new_orders().write_csv(folder / "new.csv")
    with_errors().write_csv(folder / "errors.csv")
    (folder / "parts").mkdir()
    for k in range(3):
        new_orders()[40 * k : 40 * (k + 1)].write_csv(folder / "parts" / f"{k}.csv")
