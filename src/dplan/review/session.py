"""A review session: what is open, what was decided, and when the detector learns from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from dplan.exceptions import VerdictLogError
from dplan.query import duplicates_first
from dplan.review.log import Decision, Record, Standing, VerdictLog, key_of, label_of
from dplan.review.rounds import Round, RoundMaker
from dplan.tables.row_keys import Key, keys_of
from dplan.tables.words import class_names, general_class

__all__ = ["Refused", "Session"]

_CONFIRMED = 2  # rows of a group with the same verdict, before the others can get it with one key
VERSION = 1  # of the log


class Refused(Exception):
    """A request that conflicts with what is known now; nothing was saved.

    Attributes
    ----------
    current : dict or None
        The verdict that counts for the row, if that is the conflict.
    """

    def __init__(self, message: str, current: Record | None = None) -> None:
        super().__init__(message)
        self.current = current


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
    on_refit : callable, optional
        Called with each new round, to save its model.
    """

    def __init__(
        self,
        maker: RoundMaker,
        log: VerdictLog,
        *,
        refit_every: int = 10,
        who: str = "",
        on_refit: Callable[[Round], None] | None = None,
    ) -> None:
        self.maker, self.log, self.refit_every, self.who = maker, log, refit_every, who
        self._on_refit = on_refit
        self.lock = threading.RLock()
        self.version = 0  # changes whenever something that a page shows has changed
        self.stage: tuple[str, int, int | None] | None = ("Starting", 0, None)
        self.error = ""
        self.refitting = False
        self.stage_since = time.monotonic()
        self._keys: dict[int, Key] = {}
        self._rows: dict[Key, int] = {}
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
        sessions = [record for record in self.log.records if record["kind"] == "session"]
        ids = list(self.maker.table.ids)
        if sessions and sessions[-1]["ids"] != ids:
            used = " ".join(f"--id {name}" for name in sessions[-1]["ids"]) or "row numbers"
            raise VerdictLogError(
                f"{self.log.path} identifies rows by {used}; use the same ids, or another log (--log)"
            )
        judged = self.log.verdicts.current
        opened = self.maker.open([key.ids for key in judged], self._progress)
        self.base = opened
        if judged:
            every = self._keys_at(opened, range(len(opened.rows)), judged)
            for key, row in zip(every, opened.rows.tolist(), strict=True):
                if key in judged:
                    self._rows[key], self._keys[row] = row, key
        refits = [record for record in self.log.records if record["kind"] == "refit"]
        self.log.append(
            {
                "kind": "session",
                "version": VERSION,
                "table": self.maker.table.path.name.encode(errors="replace").decode(),
                "model": opened.digest,
                "ids": ids,
                "columns": self._columns(opened),
                "who": self.who,
            }
        )
        current = opened
        if refits:
            self._used = refits[-1]["upto"]
            then = Standing(record for record in self.log.records if record["n"] <= self._used)
            current = self.maker.refit(self._classes(then.current), len(refits), self._progress)
        current.ready()
        with self.lock:
            self._round, self.stage = current, None
            self.version += 1

    @property
    def unmatched(self) -> int:
        """Verdicts of earlier sessions about rows that are not in the table, or have other values now."""
        return sum(key not in self._rows for key in self.log.verdicts.current)

    def key(self, row: int) -> Key:
        """Return the key of a row of the pool."""
        if row not in self._keys:
            # A window may still show a row of the last round.
            shown = self.round if row in self.round.places or self.previous is None else self.previous
            if row not in shown.places:
                raise Refused("this row is not open for review")
            (self._keys[row],) = self._keys_at(shown, [shown.places[row]])
        return self._keys[row]

    def judged(self) -> dict[int, Record]:
        """Return the verdict that counts for each row, by row number, the oldest first."""
        with self.lock:
            current = self.log.verdicts.current
            return {self._rows[key]: record for key, record in current.items() if key in self._rows}

    def queue(self) -> list[int]:
        """Return the numbers of the rows to ask about, in order."""
        with self.lock:
            current = self.round
            judged = self.judged()
            first = [row for row in self._returned if row not in judged and row in current.places]
            rows = [row for row in current.order.tolist() if row not in judged and row not in first]
            decisions = {row: record["verdict"] for row, record in judged.items()}
            return first + duplicates_first(rows, current.group_of, decisions)

    def group(self, row: int) -> list[int]:
        """Return the near duplicates of a row, itself included."""
        current = self.round
        if row not in current.group_of:
            return [row]
        alike: list[int] = current.rows[current.groups == current.group_of[row]].tolist()
        return alike

    def confirmed(self, row: int) -> Record | None:
        """Return the verdict that several near duplicates of a row have in common, if no other one contradicts."""
        judged = self.judged()
        given = [judged[other] for other in self.group(row) if other in judged]
        decisions = {(record["verdict"], record["class"]) for record in given}
        return given[-1] if len(given) >= _CONFIRMED and len(decisions) == 1 else None

    def judge(
        self,
        rows: Sequence[int],
        verdict: Decision,
        name: str = "",
        *,
        digests: Sequence[str] | None = None,
        replaces: int | None = None,
        seconds: float = 0.0,
        window: str = "",
        who: str = "",
        reasons: Mapping[int, Sequence[str]] | None = None,
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
        seconds, window, who, reasons
            Recorded with the verdict.
        """
        with self.lock:
            current = self.round
            keys = [self.key(row) for row in rows]
            records = []
            for i, (row, key) in enumerate(zip(rows, keys, strict=True)):
                if digests is not None and digests[i] != key.digest:
                    raise Refused("this row is not the one that was shown; reload the page")
                before = self.log.verdicts.current.get(key)
                if before is not None and before["n"] != replaces:
                    if len(rows) == 1 and (before["verdict"], before["class"]) == (verdict, name):
                        return [before]
                    raise Refused("this row already has another verdict", before)
                records.append(
                    {
                        "kind": "verdict",
                        "row": list(key.ids),
                        "digest": key.digest,
                        "number": row,
                        "model": current.digest,
                        "round": current.number,
                        "score": float(current.scores[row]),
                        "rank": current.rank(row),
                        "reasons": list((reasons or {}).get(row, ())),
                        "verdict": verdict,
                        "class": name,
                        "who": who or self.who,
                        "window": window,
                        "seconds": round(float(seconds), 1),
                        "together": len(rows),
                    }
                )
            saved = self.log.append(*records)
            self._rows.update(zip(keys, rows, strict=True))
            self._returned = [row for row in self._returned if row not in rows]
            self.version += 1
            self._maybe_refit()
            return saved

    def undo(self, window: str = "", who: str = "") -> list[Record]:
        """Withdraw the last verdict that this window gave, of all rows that got it together; return it."""
        with self.lock:
            mine = (record for record in self.log.verdicts.standing() if record["window"] == window)
            last = next(mine, None)
            if last is None:
                raise Refused("there is nothing to undo in this window")
            undone = [last]
            for record in mine:
                if len(undone) == last["together"]:
                    break
                undone.append(record)
            self.log.append(
                {
                    "kind": "undo",
                    "of": [record["n"] for record in undone],
                    "who": who or self.who,
                    "window": window,
                }
            )
            rows = [self._rows[key_of(r)] for r in undone if key_of(r) in self._rows]
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
            new = self.maker.refit(classes, number, self._progress).ready()
            if self._on_refit is not None:
                self._on_refit(new)
            seconds = round(time.monotonic() - started, 2)
            line = {"kind": "refit", "round": number, "model": new.digest, "seconds": seconds, "upto": upto}
            with self.lock:
                self.log.append(line)
                self.previous, self._round, self._used = self._round, new, upto
        except Exception as error:  # whatever happens in training must not stop the review
            self.error = " ".join(str(error).split()) or type(error).__name__
        with self.lock:
            self.refitting, self.stage = False, None
            self.version += 1
            if not self.error:
                self._maybe_refit()  # of verdicts that came meanwhile

    def _maybe_refit(self) -> None:
        if self.refit_every and self.since_refit >= self.refit_every:
            self.refit()

    def _classes(self, current: Mapping[Key, Record]) -> dict[int, str]:
        """Return the class of each row with a verdict that the detector can learn from, "" for a normal row."""
        return {
            self._rows[key]: label_of(record, self.default_class) if record["verdict"] == "anomaly" else ""
            for key, record in current.items()
            if record["verdict"] != "unsure" and key in self._rows
        }

    @property
    def default_class(self) -> str:
        """The class of an anomaly without a class."""
        base = self.base or self._round
        return general_class(class_names(None if base is None else base.model))

    def _keys_at(self, current: Round, places: Sequence[int], known: Collection[Key] = ()) -> list[Key]:
        rows, ids = current.rows[list(places)].tolist(), self.maker.table.ids
        return keys_of(current.pool[list(places)], ids, self._columns(current), rows, known)

    def _columns(self, current: Round) -> list[str]:
        """Return the columns that the digest of a row is about."""
        return list(dict.fromkeys([*self.maker.table.ids, *current.model.columns]))

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        with self.lock:
            if self.stage is None or self.stage[0] != stage:
                self.stage_since = time.monotonic()
            self.stage = (stage, done, total)
            self.version += 1
