"""A review session: what is open, what was decided, and when the detector learns from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from dplan.arrays import highest_first
from dplan.query import duplicates_first
from dplan.review.log import (
    Decision,
    Record,
    Refused,
    Standing,
    VerdictLog,
    chosen_threshold,
    key_of,
    label_of,
)
from dplan.review.rounds import KindFile, KnownRows, Round, RoundMaker
from dplan.review.table import TableRows
from dplan.rules.file import RuleFile
from dplan.tables.row_keys import Key
from dplan.tables.words import class_names, general_class

__all__ = ["Session"]

VERSION = 1  # of the log


class Session:
    """The verdicts about one table, and the detector that learns from them.

    All methods may be called from several threads.

    Parameters
    ----------
    maker : RoundMaker
        Opens the table and learns from verdicts.
    log : VerdictLog
        Where verdicts are saved.
    refit_every : int
        Verdicts between two refits; 0 to refit on request only.
    who : str
        Name of the reviewer.
    kinds : KindFile, optional
        The kinds of rows; those that are muted are not asked about.
    save_model : callable, optional
        Called with a round and the threshold that the reviewer chose, or None, whenever one of them is new.
    """

    def __init__(
        self,
        maker: RoundMaker,
        log: VerdictLog,
        *,
        refit_every: int = 10,
        who: str = "",
        kinds: KindFile | None = None,
        save_model: Callable[[Round, float | None], None] | None = None,
    ) -> None:
        self.maker, self.log, self.refit_every, self.who = maker, log, refit_every, who
        self.kinds, self._save_model = kinds or KindFile(), save_model
        self.lock = threading.RLock()
        self.version = 0  # changes whenever something that a page shows has changed
        self.stage: tuple[str, int, int | None] | None = ("Starting", 0, None)
        self.error = ""
        self.refitting = False
        self.target = 0  # rows to decide per day
        self.stage_since = time.monotonic()
        self._known = KnownRows(maker.table.ids)
        self.rows = TableRows(maker.table)
        self._returned: list[int] = []  # rows whose verdict was undone, to be shown next
        self.base: Round | None = None
        self.previous: Round | None = None
        self._round: Round | None = None
        self._used: int = 0  # the last line of the log that the detector has learned from

    @property
    def round(self) -> Round:
        """The current round."""
        if self._round is None:
            raise Refused("the table is still being opened")
        return self._round

    def open(self) -> None:
        """Open the table, and learn again what was learned in earlier sessions."""
        ids = list(self.maker.table.ids)
        self.log.check_ids(ids)
        judged = self.log.verdicts.current
        opened = self.maker.open([key.ids for key in judged], self._progress)
        self.base = current = opened
        self._known.recognise(opened, judged)
        refits = [record for record in self.log.records if record["kind"] == "refit"]
        self.log.append(
            {
                "kind": "session",
                "version": VERSION,
                "table": self.maker.table.path.name.encode(errors="replace").decode(),
                "model": opened.digest,
                "ids": ids,
                "columns": self._known.columns(opened),
                "who": self.who,
            }
        )
        if refits:
            self._used = refits[-1]["upto"]
            then = Standing(record for record in self.log.records if record["n"] <= self._used)
            if classes := self._classes(then.current):  # not all are about another table
                current = self.maker.refit(classes, len(refits), self._progress)
        current = current.ready().with_rules(self.kinds.rules)
        with self.lock:
            self._round, self.stage = current, None
            self.version += 1

    @property
    def unmatched(self) -> int:
        """Verdicts about rows that have other values now, or are gone from a table of the same name."""
        name = self.maker.table.path.name.encode(errors="replace").decode()
        return self._known.unmatched(self.log.records, self.log.verdicts.current, name)

    def key(self, row: int) -> Key:
        """Return the key of a row of the table."""
        return self._known.key(row, self.frame(row), self.round)

    def frame(self, row: int) -> pl.DataFrame:
        """Return a row of the table with all its columns."""
        # A window may still show a row of the last round.
        for one in (self.round, self.previous):
            if one is not None and row in one.places:
                return one.pool[[one.places[row]]]
        found = self.rows.row(row)
        if found is None:
            raise Refused("there is no such row")
        return found

    def judged(self) -> dict[int, Record]:
        """Return the verdict that counts for each row, by row number, the oldest first."""
        with self.lock:
            current, rows = self.log.verdicts.current, self._known.rows
            return {row: record for key, record in current.items() for row in rows(key)}

    def queue(self) -> list[int]:
        """Return the numbers of the rows to ask about, in order."""
        with self.lock:
            current, judged = self.round, self.judged()
            waiting = current.places.keys() - judged.keys() - current.muted
            first = [row for row in self._returned if row in waiting]
            waiting -= set(first)
            rows = [row for row in current.order.tolist() if row in waiting]
            decisions = {row: record["verdict"] for row, record in judged.items()}
            return first + duplicates_first(rows, current.group_of, decisions)

    def beyond(self) -> list[int]:
        """Return the rows without a verdict that are not in the queue, the highest scores first."""
        with self.lock:
            left = np.ones(len(self.round.scores), np.bool_)
            left[[*self.judged(), *self.queue(), *self.round.muted]] = False
            rows = np.flatnonzero(left)
            ordered: list[int] = rows[highest_first(self.round.scores[rows])].tolist()
            return ordered

    def judge(
        self,
        rows: Sequence[int],
        verdict: Decision,
        name: str = "",
        *,
        digests: Sequence[str] | None = None,
        replaces: int | None = None,
        shown: int | None = None,
        seconds: float = 0.0,
        window: str = "",
        who: str = "",
        reasons: Mapping[int, Sequence[str]] | None = None,
        comment: str = "",
    ) -> list[Record]:
        """Save a verdict about one or several rows; when this returns, it is on disk.

        Parameters
        ----------
        rows : sequence of int
            Row numbers.
        verdict : {"anomaly", "normal", "unsure"}
            The decision.
        name : str
            The class of an anomaly.
        digests : sequence of str, optional
            Digests of the rows as they were shown.
        replaces : int, optional
            The number of the verdict that is to be changed; a verdict that the reviewer did not see is never replaced.
        shown : int, optional
            The number of the round in which the reviewer saw the rows; what was seen is recorded.
        seconds, window, who, reasons, comment
            Recorded with the verdict.
        """
        with self.lock:
            current, before_it = self.round, self.previous
            seen = before_it if before_it is not None and before_it.number == shown else current
            keys = [self.key(row) for row in rows]
            for other in {other for row in rows for other in current.group(row)}:
                self.key(other)  # a row that is there twice, with its ids, is decided once
            records, same = [], []
            for i, (row, key) in enumerate(zip(rows, keys, strict=True)):
                if digests is not None and digests[i] != key.digest:
                    raise Refused("this row is not the one that was shown; reload the page")
                before = self.log.verdicts.current.get(key)
                if before is not None and before["n"] != replaces:
                    if (before["verdict"], before["class"]) != (verdict, name):
                        raise Refused("this row already has another verdict", before)
                    if before["window"] == window:  # sent again, because the answer was lost
                        same.append(before)
                        continue
                records.append(
                    {
                        "kind": "verdict",
                        "row": list(key.ids),
                        "digest": key.digest,
                        **seen.as_shown(row),
                        "reasons": list((reasons or {}).get(row, ())),
                        "verdict": verdict,
                        "class": name,
                        "who": who or self.who,
                        "window": window,
                        "seconds": round(float(seconds), 1),
                        "comment": comment,
                    }
                )
            if not records:
                return same
            # A log that ends within a group has lost a part of it, so the number is that of the lines.
            saved = self.log.append(*({**record, "together": len(records)} for record in records))
            self._known.numbers.update(zip(keys, rows, strict=True))
            self._returned = [row for row in self._returned if row not in rows]
            self.version += 1
            self._maybe_refit()
            return saved

    def undo(self, window: str = "", who: str = "") -> list[Record]:
        """Withdraw the last verdict of this window, or of whoever says who they are in any window; return it.

        All rows that got the verdict together lose it together.
        """
        with self.lock:
            standing = self.log.verdicts.standing()
            mine = (one for one in standing if one["window"] == window or (who and one["who"] == who))
            last = next(mine, None)
            if last is None:
                raise Refused("there is nothing to undo in this window, nor under this name")
            undone = [last]
            for record in mine:
                if len(undone) == last["together"]:
                    break
                undone.append(record)
            line = {"of": [record["n"] for record in undone], "who": who or self.who, "window": window}
            self.log.append({"kind": "undo", **line})
            numbers = self._known.numbers
            rows = [numbers[key_of(r)] for r in undone if key_of(r) in numbers]
            self._returned = rows + [row for row in self._returned if row not in rows]
            self.version += 1
            return undone

    @property
    def since_refit(self) -> int:
        """Verdicts, and undone ones, that the detector has not learned from yet."""
        return sum(r["n"] > self._used and r["kind"] in ("verdict", "undo") for r in self.log.records)

    def refit(self, *, wait: bool = False) -> bool:
        """Begin to learn from the verdicts so far, unless that is under way; return whether it has begun."""
        with self.lock:
            current = self.round
            classes = self._classes(self.log.verdicts.current)
            if self.refitting or not classes:
                return False
            self.refitting, self.error = True, ""
            self._used_next = len(self.log.records)
            self._progress("Learning from your verdicts", 0, None)
        job = threading.Thread(target=self._refit, args=(classes, current.number + 1), daemon=True)
        job.start()
        if wait:
            while job.is_alive():
                # In short waits: with polars' handler of Ctrl-C, it is heeded between two waits only.
                job.join(0.2)
            if self.error:
                raise RuntimeError(self.error)
        return True

    def _refit(self, classes: dict[int, str], number: int) -> None:
        started, upto = time.monotonic(), self._used_next
        try:
            new = self.maker.refit(classes, number, self._progress).ready().with_rules(self.kinds.rules)
            self.save(new)
            seconds = round(time.monotonic() - started, 2)
            line = {"kind": "refit", "round": number, "model": new.digest, "seconds": seconds, "upto": upto}
            with self.lock:
                self.log.append(line)
                self.previous, self._used = self._round, upto
                self._round = new.with_rules(self.kinds.rules)  # a kind may have been muted meanwhile
        except Exception as error:  # whatever happens in training must not stop the review
            self.error = " ".join(str(error).split()) or type(error).__name__
        with self.lock:
            self.refitting, self.stage = False, None
            self.version += 1
            if not self.error:
                self._maybe_refit()  # of verdicts that came meanwhile

    def use_kinds(self, rules: RuleFile) -> None:
        """Go on with other kinds."""
        with self.lock:
            self.kinds.rules, self._round = rules, self.round.with_rules(rules)
            self.version += 1

    def save(self, current: Round) -> None:
        """Save the model of a round, with the threshold that the reviewer chose."""
        if self._save_model is not None:
            self._save_model(current, self.threshold(current))

    def threshold(self, current: Round) -> float | None:
        """Return the threshold of a round that gives as many alerts as the reviewer chose; None if they did not."""
        return chosen_threshold(self.log.records, current.ascending)

    def _maybe_refit(self) -> None:
        if self.refit_every and self.since_refit >= self.refit_every:
            self.refit()

    def _classes(self, current: Mapping[Key, Record]) -> dict[int, str]:
        """Return the class of each row that the detector can learn from, "" for a normal row."""
        rows = self._known.numbers
        return {
            rows[key]: label_of(record, self.default_class) if record["verdict"] == "anomaly" else ""
            for key, record in current.items()
            if record["verdict"] != "unsure" and key in rows
        }

    @property
    def default_class(self) -> str:
        """The class of an anomaly without a class."""
        base = self.base or self._round
        return general_class(class_names(None if base is None else base.model))

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        with self.lock:
            if self.stage is None or self.stage[0] != stage:
                self.stage_since = time.monotonic()
            self.stage = (stage, done, total)
            self.version += 1
