"""Any sequence of verdicts, groups, undos, names, kinds, refits, kills, tables: the log has what was displayed."""

import polars as pl
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from dplan.review.details import group_view
from dplan.review.engine import Engine
from dplan.review.history import class_name, known_classes, rename_class
from dplan.review.kinds import lift, mute, unmute
from dplan.review.log import Refused, Standing, VerdictLog, read_log
from dplan.review.rounds import KindFile
from dplan.review.session import Session
from dplan.review.table import as_file
from dplan.rules.file import RuleFile
from tests.machines import Machine, run, steps
from tests.review.test_kinds import rule_file

PEOPLE = st.sampled_from(["anna", "ben"])
VERDICTS = st.sampled_from(
    [("anomaly", ""), ("anomaly", "theft"), ("anomaly", "Card\xa0test"), ("normal", ""), ("unsure", "")]
)
MEETS = (lambda row: row["country"] == "XX", lambda row: int(row["items"]) >= 5)  # the rules of `rule_file`


class Review(Machine):
    """Two people with a row each on their screens; what they decide is kept by id, beside the session."""

    folder = scratch = None  # set by the test

    @initialize()
    def begin(self):
        self.path = self.scratch / "verdicts.jsonl"
        self.path.unlink(missing_ok=True)
        self.table = self.scratch / "june.csv"
        pl.read_csv(self.folder / "june.csv")[:400].write_csv(self.table)
        rule_file().save(self.scratch / "kinds.json")
        self.rows = {(row["payment"],): row for row in pl.read_csv(self.table).to_dicts()}
        self.muted = set()  # numbers of kinds
        self.gone = set()  # ids that are in the table no more
        self.given = []  # (lines of the log, person, {id: label}), as they stand
        self.open()

    def open(self):
        self.log = VerdictLog(self.path)
        engine = Engine(as_file(self.table, ("payment",), None, self.scratch), self.folder / "fraud.dplan")
        kinds = KindFile(self.scratch / "kinds.json")
        self.session = Session(engine, self.log, refit_every=0, who="me", kinds=kinds)
        self.session.open()
        self.screens = {}

    def look(self, who, place):
        """Put a row on somebody's screen, where it stays."""
        if who not in self.screens:
            row = self.session.queue()[place]
            self.screens[who] = row, self.session.key(row), self.session.round.number
        return self.screens[who]

    def label(self, verdict, name):
        return (verdict, class_name(name, known_classes(self.session)) if name else "")

    @rule(who=PEOPLE, place=st.integers(0, 5))
    def walk(self, who, place):
        self.screens.pop(who, None)
        self.look(who, place)

    @rule(who=PEOPLE, decision=VERDICTS, insist=st.booleans())
    def decide(self, who, decision, insist):
        row, key, number = self.look(who, 0)
        label = self.label(*decision)
        about = {"digests": [key.digest], "shown": number, "window": who, "who": who}
        try:
            saved = self.session.judge([row], *label, **about)
        except Refused as refused:
            if not insist:
                return
            saved = self.session.judge([row], *label, replaces=refused.current["n"], **about)
        if saved[0]["n"] == len(self.log.records):  # not one that was there before
            self.given.append(([saved[0]["n"]], who, {key.ids: label}))
        del self.screens[who]
        if label[0] == "anomaly":
            lift(self.session, [row], who=who, window=who)
            self.muted -= {number for number in self.muted if MEETS[number](self.rows[key.ids])}

    @rule(who=PEOPLE)
    def wrong_row(self, who):
        row, _, _ = self.look(who, 0)
        other = self.session.key(next(other for other in self.session.queue() if other != row))
        with pytest.raises(Refused, match="not the one that was shown"):
            self.session.judge([row], "normal", digests=[other.digest], window=who)

    @rule(
        who=PEOPLE,
        decision=VERDICTS,
        by=st.sampled_from(["duplicates", "kind"]),
        place=st.integers(0, 3),
        left_out=st.sets(st.integers(0, 4)),
        wait=st.booleans(),
    )
    def decide_group(self, who, decision, by, place, left_out, wait):
        """Check some rows of the table of a group; meanwhile, somebody else may decide one of them."""
        label, row = self.label(*decision), self.session.queue()[place]
        table = group_view(self.session, row, by, ["payment", "amount"])["rows"]
        checked = [one for i, one in enumerate(table) if i not in left_out]
        about = {"digests": [one["digest"] for one in checked], "window": who, "who": who}
        rows = [one["row"] for one in checked]
        if wait and rows:
            other = "ben" if who == "anna" else "anna"
            key = self.session.key(rows[0])
            (saved,) = self.session.judge(rows[:1], "unsure", window=other, who=other)
            self.given.append(([saved["n"]], other, {key.ids: ("unsure", "")}))
            if label != ("unsure", ""):
                with pytest.raises(Refused, match="already has another verdict"):
                    self.session.judge(rows, *label, **about)
                return
        if rows:
            saved = self.session.judge(rows, *label, **about)
            assert [record["number"] for record in saved] == rows
            shown = {tuple(record["row"]): label for record in saved}
            assert [", ".join(ids) for ids in shown] == [one["id"] for one in checked]
            self.given.append(([record["n"] for record in saved], who, shown))

    @rule(who=PEOPLE, elsewhere=st.booleans())
    def undo(self, who, elsewhere):
        mine = [one for one in self.given if one[1] == who]
        window = "phone" if elsewhere else who  # of the same person
        if mine:
            self.session.undo(window, who)
            self.given.remove(mine[-1])
        else:
            with pytest.raises(Refused, match="nothing to undo"):
                self.session.undo(window, who)

    @rule(after=st.sampled_from(["theft", "loss"]))
    def rename(self, after):
        named = [name for name in known_classes(self.session) if name != "fraud"]
        if named:
            new = rename_class(self.session, named[0], after)
            for _, _, rows in self.given:
                rows |= {ids: (v, new) for ids, (v, name) in rows.items() if name == named[0]}

    @rule(who=PEOPLE, number=st.sampled_from(range(len(MEETS))))
    def mute_or_unmute(self, who, number):
        rule = self.session.round.rules.kinds[number].rule.id
        found = [
            ids
            for ids, (verdict, _) in self.expected().items()
            if verdict == "anomaly" and ids not in self.gone
        ]
        if number in self.muted:
            unmute(self.session, rule, who=who, window=who)
            self.muted.remove(number)
        elif any(MEETS[number](self.rows[ids]) for ids in found):
            with pytest.raises(Refused, match="known anomal"):
                mute(self.session, rule, "harmless", who=who, window=who)
        else:
            mute(self.session, rule, "harmless", who=who, window=who)
            self.muted.add(number)

    @precondition(lambda self: any(v != "unsure" for _, _, rows in self.given for v, _ in rows.values()))
    @rule()
    def learn(self):
        self.session.refit(wait=True)

    @rule(reverse=st.booleans(), shorter=st.booleans())
    def killed(self, reverse, shorter):
        """Start again, perhaps with the table in another order, or without a decided row: row numbers mean others."""
        self.log.close()
        table = pl.read_csv(self.table)
        if reverse:
            table = table.reverse()
        if shorter:
            self.gone |= {ids for ids in list(self.expected())[:1] if ids not in self.gone}
            table = table.filter(~pl.col("payment").is_in([name for (name,) in self.gone]))
        table.write_csv(self.table)
        self.open()

    def expected(self):
        """Return the label of each row, the latest verdicts last."""
        expected = {}
        for _, _, rows in sorted(self.given):
            for ids, label in rows.items():
                expected.pop(ids, None)
                expected[ids] = label
        return expected

    @invariant()
    def nobody_is_asked_about_a_muted_kind(self):
        file = RuleFile.load(self.scratch / "kinds.json").kinds
        assert {number for number, kind in enumerate(file) if kind.about.get("muted")} == self.muted
        current = self.session.round
        asked = current.pool[[current.places[row] for row in self.session.queue()]]
        assert not any(MEETS[number](row) for number in self.muted for row in asked.to_dicts())

    @invariant()
    def log_has_what_was_displayed(self):
        expected = self.expected()
        current = Standing(read_log(self.path)).current
        assert {key.ids: (record["verdict"], record["class"]) for key, record in current.items()} == expected
        assert self.session.unmatched == len(expected.keys() & self.gone)
        assert {self.session.key(row).ids for row in self.session.judged()} == expected.keys() - self.gone

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close()


@steps
def test_the_log_has_what_was_displayed_whatever_happens(folder, tmp_path, steps):
    run(Review, steps, per_example=30, folder=folder, scratch=tmp_path)
