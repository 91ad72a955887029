"""A made-up table of a bank, as banks export them: German numbers and dates, currency, percent, IBANs, free text.

    python -m tests.datasets.bank

writes the tables of ``dplan example --messy`` into the package.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

_DOMAINS = ("gmx.de", "web.de", "gmail.com", "outlook.com", "t-online.de", "mail.ru", "proton.me")
_COUNTRIES = {"DE": 18, "AT": 16, "FR": 23, "NL": 14, "LT": 16, "CY": 24}
_WORDS = (
    "Rechnung",
    "Miete",
    "Danke",
    "Einkauf",
    "Geschenk",
    "Urlaub",
    "Strom",
    "Kurs",
    "Beitrag",
    "Rate",
    "Reise",
    "Auto",
)


def bank_table(n_rows: int = 6_000, *, seed: int = 0) -> pl.DataFrame:
    """Return clean transfers with their true class in the column ``fraud``.

    A fraud is a large transfer at night to a new recipient abroad, each of these more or less; about one row in fifty.

    Examples
    --------
    >>> bank_table(1000).filter("fraud").height
    20
    """
    rng = np.random.default_rng(seed)
    fraud = rng.permutation(n_rows) < n_rows // 50

    def either(of_fraud: NDArray[Any], of_others: NDArray[Any]) -> NDArray[Any]:
        return np.where(fraud, of_fraud, of_others)

    hour = either(rng.normal(3, 1.5, n_rows), rng.normal(14, 3.5, n_rows)) % 24
    day = rng.integers(0, 360, n_rows)
    booked = [
        datetime.datetime(2024, 1, 1) + datetime.timedelta(days=int(d), minutes=int(60 * h))
        for d, h in zip(day, hour, strict=True)
    ]
    opened = [
        moment.date() - datetime.timedelta(days=int(age))
        for moment, age in zip(
            booked, either(rng.integers(5, 900, n_rows), rng.integers(30, 9000, n_rows)), strict=True
        )
    ]
    shares = [0.62, 0.12, 0.1, 0.08, 0.05, 0.03]
    country = either(
        rng.choice(list(_COUNTRIES), n_rows, p=shares[::-1]), rng.choice(list(_COUNTRIES), n_rows, p=shares)
    )
    domain = either(rng.choice(_DOMAINS, n_rows), rng.choice(_DOMAINS[:5], n_rows))
    return pl.DataFrame(
        {
            "Nummer": [f"TX-{seed}{i:06}" for i in range(n_rows)],
            "Gebucht": booked,
            "Betrag": (rng.lognormal(4.2, 1.1, n_rows) * np.where(fraud, 6, 1)).round(2),
            "Kontostand": (rng.lognormal(8, 0.9, n_rows)).astype(np.int64),
            "Anteil am Limit": np.clip(
                either(rng.normal(80, 15, n_rows), rng.normal(35, 20, n_rows)), 0, 100
            ).astype(int),
            "Kunde seit": opened,
            "Neuer Empfänger": rng.random(n_rows) < np.where(fraud, 0.85, 0.2),
            "Land": country,
            "Anbieter": domain,
            "Filiale": [f"{code:04}" for code in rng.integers(1, 40, n_rows)],
            "Kanal": either(
                rng.choice(["Online", "App"], n_rows),
                rng.choice(["Online", "App", "Filiale", "Karte"], n_rows),
            ),
            "Storniert": rng.random(n_rows) < 0.004,
            "fraud": fraud,
        }
    )


def messy(clean: pl.DataFrame, *, seed: int = 0) -> pl.DataFrame:
    """Return the table as a bank would export it: text only, with more columns and with gaps."""
    rng = np.random.default_rng(seed + 1)
    n_rows = clean.height
    countries, domains = clean["Land"].to_list(), clean["Anbieter"].to_list()
    day = clean["Gebucht"].dt.strftime("%d.%m.%Y")
    words = [" ".join(rng.choice(_WORDS, rng.integers(2, 6))) for _ in range(n_rows)]
    return pl.DataFrame(
        {
            "Nummer": clean["Nummer"],
            "Gebucht am": clean["Gebucht"].dt.strftime("%d.%m.%Y %H:%M"),
            "Betrag": [f"{_german(f'{amount:,.2f}')} €" for amount in clean["Betrag"].to_list()],
            "Kontostand": [_german(f"{balance:,}") for balance in clean["Kontostand"].to_list()],
            "Anteil am Limit": [f"{share} %" for share in clean["Anteil am Limit"].to_list()],
            "Kunde seit": clean["Kunde seit"].dt.strftime("%d.%m.%Y"),
            "Neuer Empfänger": ["ja" if new else "nein" for new in clean["Neuer Empfänger"].to_list()],
            "IBAN": [_iban(country, rng) for country in countries],
            "E-Mail": [f"kunde{rng.integers(10_000)}@{domain}" for domain in domains],
            "Filiale": clean["Filiale"],
            "Kanal": clean["Kanal"],
            "Verwendungszweck": [f"{text} {number}" for number, text in enumerate(words)],
            "Storniert am": [
                d if cancelled else None for d, cancelled in zip(day, clean["Storniert"], strict=True)
            ],
        }
    )


def example_tables() -> dict[str, pl.DataFrame]:
    """Return a table with a few verdicts to learn from, and a table of new transfers with the truth."""
    clean, new = bank_table(seed=1), bank_table(3_000, seed=2)
    # One fraud in three is known, and one other row in twenty was checked.
    known = np.random.default_rng(0).random(clean.height) < np.where(clean["fraud"], 1 / 3, 1 / 20)
    verdict = np.where(known, np.where(clean["fraud"], "fraud", "ok"), "")
    truth = np.where(new["fraud"], "fraud", "ok")
    return {
        "bank_train": messy(clean).with_columns(pl.Series("Urteil", verdict).replace("", None)),
        "bank_new": messy(new).with_columns(pl.Series("Wahrheit", truth)),
    }


def _german(number: str) -> str:
    """Exchange commas and points."""
    return number.translate(str.maketrans(",.", ".,"))


def _iban(country: str, rng: np.random.Generator) -> str:
    digits = "".join(map(str, rng.integers(0, 10, _COUNTRIES[country])))
    letters = "".join(str(ord(letter) - 55) for letter in country)
    return f"{country}{98 - int(digits + letters + '00') % 97:02}{digits}"


if __name__ == "__main__":
    for name, table in example_tables().items():
        target = Path(__file__).parents[2] / "src" / "dplan" / "datasets" / f"{name}.parquet"
        table.write_parquet(target, compression="zstd", compression_level=19)
