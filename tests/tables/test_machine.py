"""Any sequence of updates in place, undos, new fits and kills: the file has the verdicts that it should have."""

import shutil

import numpy as np
import polars as pl
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from dplan import DPLAN
from dplan.persistence.claim import claimed
from dplan.persistence.previous import previous
from dplan.tables import TableModel, fit_table, from_table, undo_update, update_model
from dplan.tables.updating import replace_model
from tests.machines import Machine, killed_at, run, steps

VERDICTS = st.dictionaries(st.integers(0, 9), st.sampled_from([1, -1]), min_size=1, max_size=4)
MOMENTS = st.sampled_from([1, 2, 3, 4, 5, 6, 100, 100, 100])


class Version:
    """What one version of the file knows, and which version it was made from."""

    def __init__(self, verdicts, made_from=None):
        self.verdicts, self.made_from = verdicts, made_from


class Updating(Machine):
    """A model file and the one that is kept beside it."""

    fitted = scratch = None  # set by the test

    @initialize()
    def begin(self):
        self.folder = self.scratch / "models"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.path = self.folder / "m.dplan"
        self.path.write_bytes(self.fitted)
        self.first = self.now = Version({})
        self.kept = None

    def in_place(self, change, moment):
        """Return whether a change of the file took place before the process was killed."""
        before = self.path.read_bytes()
        with killed_at(moment, self.folder), claimed(self.path):
            change()
        return self.path.read_bytes() != before

    def is_kept_twice(self):
        """Return whether the old file was kept already when the process was killed."""
        kept = previous(self.path)
        return kept.exists() and kept.read_bytes() == self.path.read_bytes()

    @rule(verdicts=VERDICTS, moment=MOMENTS)
    def update(self, verdicts, moment):
        rows = {"id": [f"r{i}" for i in verdicts], "amount": [500 + i for i in verdicts]}
        table = pl.DataFrame({**rows, "fraud": list(verdicts.values())})
        old = TableModel.load(self.path)
        new = update_model(old, from_table(table, label="fraud", id="id", partial=True))
        done = self.in_place(lambda: replace_model(self.path, old, new), moment)
        assert done or moment < 100
        if done:
            self.now, self.kept = Version({**self.now.verdicts, **verdicts}, self.now), self.now
        elif self.is_kept_twice():
            self.kept = self.now

    @rule(moment=MOMENTS)
    def undo(self, moment):
        now, kept = self.now, self.kept
        if kept is None or kept is now or not (now.made_from is kept or kept.made_from is now):
            with pytest.raises(ValueError, match="there is no update to undo"):
                undo_update(self.path)
            return
        if self.in_place(lambda: undo_update(self.path), moment):
            self.now, self.kept = kept, now
        else:
            assert moment < 100

    @rule()
    def fit_again(self):
        TableModel.load(self.fitted).save(self.path)
        self.now = self.first  # to the byte

    @invariant()
    def both_files_know_what_they_should(self):
        if not hasattr(self, "now"):
            return
        for version, path in ((self.now, self.path), (self.kept, previous(self.path))):
            assert path.exists() == (version is not None)
            if version is not None:
                summary = TableModel.load(path).summary
                values = list(version.verdicts.values())
                assert summary.checked_normal == values.count(-1)
                assert summary.labels["1"] == 3 + values.count(1)


@steps
def test_an_update_in_place_can_always_be_undone(steps, tmp_path):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"id": [f"t{i}" for i in range(60)], "amount": rng.integers(0, 100, 60)})
    table = table.with_columns(fraud=pl.Series([1, 1, 1] + [0] * 57))
    quick = DPLAN(n_steps=20, warmup_steps=10, n_trees=3, subsample_size=20, random_state=0)
    own = from_table(table, label="fraud", id="id")
    run(Updating, steps, fitted=fit_table(own, quick, estimate=False).to_bytes(), scratch=tmp_path)
