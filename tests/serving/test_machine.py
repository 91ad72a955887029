"""Models are replaced, removed and broken: the service answers with the last good one of each name."""

import asyncio
import json
import os
import shutil
from hashlib import sha256

import polars as pl
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from dplan import LogisticBaseline
from dplan.persistence import model_file
from dplan.persistence.atomic import file_state
from dplan.serving.app import Service
from dplan.serving.models import Limits
from dplan.tables import TableModel, fit_table, from_table
from tests.machines import Machine, run, steps
from tests.serving.test_promises import asked

NAMES = st.sampled_from(["a", "b"])
ROWS = [{"amount": 3}, {"amount": 940}]


def crafted(content):
    """Return a whole file that no longer says what its label column is."""
    found = model_file.read(content)
    return model_file.packed({**found.description, "summary": {"label": 7}}, found.tensors)


BROKEN = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "another file": lambda content: b"amount\n7\n",
    "crafted": crafted,
}


class Serving(Machine):
    """A folder of models; `files` has what is there, `served` what was good when the service looked last."""

    models = scratch = None  # set by the test

    @initialize()
    def begin(self):
        self.folder = self.scratch / "models"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.files, self.served, self.looked = {}, {}, {}
        self.service = Service(self.folder, Limits())

    def put(self, name, content, good):
        """Replace a file as `dplan fit` does."""
        path, new = self.folder / f"{name}.dplan", self.folder / ".new"
        before = file_state(path)
        while file_state(path) == before:  # within one tick of the clock, nobody can notice
            new.write_bytes(content)
            os.replace(new, path)
        self.files[name] = (content, good)

    @rule(name=NAMES, which=st.integers(0, 2))
    def replace(self, name, which):
        self.put(name, self.models[which], True)

    @rule(name=NAMES, which=st.integers(0, 2), how=st.sampled_from(sorted(BROKEN)))
    def destroy(self, name, which, how):
        self.put(name, BROKEN[how](self.models[which]), False)

    @rule(name=NAMES)
    def remove(self, name):
        (self.folder / f"{name}.dplan").unlink(missing_ok=True)
        self.files.pop(name, None)

    @rule()
    def look(self):
        expected = []
        for name, file in sorted(self.files.items()):
            content, good = file
            if self.looked.get(name) is not file:  # every bad file is told once
                old = self.served.get(name)
                if not good:
                    expected.append((name, "model not loaded"))
                elif old != content:
                    expected.append((name, "model loaded" if old is None else "model replaced"))
            if good:
                self.served[name] = content
        for name in [name for name in self.looked if name not in self.files]:
            if self.served.pop(name, None):
                expected.append((name, "model removed"))
        self.looked = dict(self.files)
        found = [(event.name, event.event) for event in self.service.models.refresh()]
        assert sorted(found) == sorted(expected)

    @invariant()
    def each_model_that_was_good_answers(self):
        if not hasattr(self, "service"):
            return
        digests = {name: served.digest for name, served in self.service.models.current.items()}
        assert digests == {name: sha256(content).hexdigest() for name, content in self.served.items()}
        bad = {name for name, (_, good) in self.looked.items() if not good}
        assert set(self.service.models.problems) == bad

    @rule(name=NAMES)
    def ask(self, name):
        app, path = self.service.app, f"/models/{name}/score"
        status, _, found = asyncio.run(asked(app, json.dumps(ROWS).encode(), path))
        if name not in self.served:
            assert status == (404 if self.served else 503)
            return
        content = self.served[name]
        assert (status, found["digest"]) == (200, sha256(content).hexdigest())
        assert found["score"] == TableModel.load(content).score(pl.DataFrame(ROWS)).tolist()


@steps
def test_the_last_good_model_of_each_name_answers(steps, tmp_path):
    models = []
    for n in (80, 90, 100):
        table = pl.DataFrame({"amount": [*range(n), 900, 950], "fraud": [0] * n + [1, 1]})
        models.append(
            fit_table(
                from_table(table, label="fraud"), LogisticBaseline(random_state=0), estimate=False
            ).to_bytes()
        )
    run(Serving, steps, models=models, scratch=tmp_path)
