"""The report: right numbers, safe text, and a page that a real browser opens without a word or a request."""

import gzip
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import wilcoxon

from experiments.pages import report_blocks, write_report
from experiments.paper import published
from experiments.results import Results
from experiments.suites import PAPER_SUITES, SUITES
from tests.browser import needs_browser, visit
from tests.experiments.made_up import ATTACK, write_journal


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    cells = write_journal(folder)
    html, markdown = write_report(folder)
    return cells, html, markdown


def rows(markdown, first):
    """The rows of every Markdown table whose head begins with `first`."""
    tables = re.findall(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", markdown, re.MULTILINE)
    return [
        [[entry.strip() for entry in line.strip("|").split(" | ")] for line in table.splitlines()]
        for table in tables
    ]


def test_table_2_shows_mean_deviation_paper_and_difference(written):
    cells, _, markdown = written
    values = [
        cell["auc_pr"]
        for cell in cells
        if (cell["suite"], cell["dataset"], cell["method"], cell["protocol"])
        == ("table2", "dos", "DevNet", "fixed")
        and cell["status"] == "done"
    ]
    assert len(values) == 2
    mean, deviation = np.mean(values), np.std(values)
    table = rows(markdown.read_text(), "AUC-PR")[0]  # table2, fixed
    entry = next(row for row in table if row[0] == "DoS")[2]
    difference = f"{mean - 0.718:+.3f}".replace("-", "−")
    assert entry.replace("*", "") == f"{mean:.3f} ± {deviation:.3f} (paper 0.718, {difference})"


def test_average_p_values_and_counts_follow_from_the_cells(written):
    cells, _, markdown = written
    means = {}
    for method in ("DPLAN", "REPEN"):
        means[method] = np.array(
            [
                np.mean(
                    [
                        cell["auc_roc"]
                        for cell in cells
                        if cell["status"] == "done"
                        and (cell["suite"], cell["dataset"], cell["method"], cell["protocol"])
                        == ("table2", dataset, method, "resampled")
                    ]
                )
                for dataset in published.data_sets()
            ]
        )
    table = {row[0]: row for row in rows(markdown.read_text(), "AUC-ROC")[1]}  # table2, resampled
    assert table["Average of 13"][4].replace("*", "").startswith(f"{means['REPEN'].mean():.3f} ±")
    assert "paper 0.789" in table["Average of 13"][4]
    p_value = wilcoxon(means["DPLAN"], means["REPEN"]).pvalue
    assert table["Wilcoxon p-value"][4] == f"{p_value:.4f} (paper 0.0010)"
    wins, ties, losses = map(int, table["DPLAN wins / ties / losses"][4].split(" / "))
    assert wins + ties + losses == 13
    assert wins == (means["DPLAN"] - means["REPEN"] >= 0.0005).sum()


def test_every_suite_has_its_chapter_and_every_figure_is_well_formed(written):
    _, html, markdown = written
    page, text = html.read_text(encoding="utf-8"), markdown.read_text(encoding="utf-8")
    for suite in PAPER_SUITES:
        assert f"## {SUITES[suite].title}" in text
        assert SUITES[suite].title in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    # Per protocol: four diagrams of ranks; panels per data set in three sweeps and twice along the steps
    assert len(drawings) == 2 * (4 + 7 + 13 + 13 + 2 * 13)
    for drawing in drawings:
        ET.fromstring(drawing)
        assert "nan" not in drawing.lower()
    assert all(len(line.split(" | ")) > 1 for line in text.splitlines() if line.startswith("| "))
    for expected in ("265 of 561 features", "12 synthetic anomalies", "precision at 500", "seeds 0 to 1"):
        assert expected in page


def means(cells, suite, method, protocol, measure):
    """The mean over the runs, data set by data set, computed once more."""
    return np.array(
        [
            np.mean(
                [
                    cell[measure]
                    for cell in cells
                    if cell["status"] == "done"
                    and (cell["suite"], cell["method"], cell["protocol"], cell["dataset"])
                    == (suite, method, protocol, name)
                ]
            )
            for name in published.data_sets()
        ]
    )


def test_the_headline_has_every_average_beside_the_papers(written):
    cells, _, markdown = written
    head, *_ = rows(markdown.read_text(), "Table 2")
    table = {row[0]: row[1:] for row in head}
    ours = means(cells, "table2", "DUA", "resampled", "auc_roc")
    theirs = [published.result("table2", "auc_roc", name, "DUA").mean for name in published.data_sets()]
    far = np.round(ours - theirs, 3)
    difference = f"{ours.mean() - 0.871:+.3f}".replace("-", "−")
    counts = f"{(abs(far) <= 0.02).sum()} ≈, {(far < -0.05).sum()} ↓, {(far > 0.05).sum()} ↑"
    assert table["DUA"][3] == "0.871"
    assert table["DUA"][5].replace("*", "") == f"{ours.mean():.3f} ({difference}: {counts})"
    assert table["LogisticBaseline"][:2] == ["–", "–"]  # the paper and the protocol fixed have none


def test_a_method_under_one_protocol_leaves_the_other_whole(written):
    text = written[2].read_text()
    fixed, resampled = (
        part.split("\n## ")[0] for part in re.split(r"^### Protocol \w+$", text, flags=re.MULTILINE)[1:3]
    )
    assert "LogisticBaseline" not in fixed
    assert "LogisticBaseline" in resampled
    assert fixed.count("Average of 13") == resampled.count("Average of 13") == 2
    assert fixed.count("critical difference") == resampled.count("critical difference") == 2


@pytest.mark.parametrize("method", ["DPLAN", "DUA"])
def test_where_a_protocol_lacks_dplan_or_another_method_nothing_is_said_of_it(written, method):
    lacking = [cell for cell in written[0] if (cell["method"], cell["protocol"]) != (method, "fixed")]
    items = [text for block in report_blocks(Results(lacking)) for text in getattr(block, "texts", [])]
    verdicts = [text for text in items if "Wilcoxon tests" in text and text.startswith("Table 2")]
    assert len(verdicts) == 2
    for text in verdicts:
        of_fixed = re.findall(r"with [^,]*fixed[^;]*", text)
        assert not any(method in said for said in of_fixed)
    assert any("with resampled" in text for text in verdicts)


def test_sentences_say_where_ours_matches_the_paper_and_where_not(written):
    cells, _, markdown = written
    text = markdown.read_text()
    ours = means(cells, "table2", "DPLAN", "fixed", "auc_pr")
    theirs = np.array(
        [published.result("table2", "auc_pr", name, "DPLAN").mean for name in published.data_sets()]
    )
    far = np.round(ours - theirs, 3)
    (sentence,) = re.findall(
        r"^- Table 2: DPLAN's AUC-PR \(protocol fixed\) averages .*$", text, re.MULTILINE
    )
    assert f"averages {ours.mean():.3f}, compared with 0.690 in the paper" in sentence
    assert f"on {(abs(far) <= 0.02).sum()} of 13 data sets" in sentence
    lower = sentence.split("lower by more than 0.05 on ")[1].split("and higher")[0]
    named = {name for name in published.data_sets() if name in lower.lower()}
    assert named == {name for name, by in zip(published.data_sets(), far, strict=True) if by < -0.05}
    assert "the paper's DPLAN is better than DevNet, DeepSAD, REPEN, IForest and DUA" in text


def test_findings_say_how_others_do_against_dplan(written):
    cells, _, markdown = written
    text = markdown.read_text()
    for suite, method, protocol in (
        ("table2", "LogisticBaseline", "resampled"),
        ("ablation", "Uniform", "fixed"),
        ("ablation", "Uniform", "resampled"),
    ):
        first = means(cells, suite, method, protocol, "auc_pr")
        second = means(cells, suite, "DPLAN", protocol, "auc_pr")
        wins, p_value = (first - second >= 0.0005).sum(), wilcoxon(first, second).pvalue
        (found,) = re.findall(
            rf"^- {method} compared with DPLAN \(protocol {protocol}\): .*$", text, re.MULTILINE
        )
        assert f"AUC-PR {first.mean():.3f} against {second.mean():.3f}, higher on {wins} of 13" in found
        assert f"(p = {p_value:.4f}); AUC-ROC" in found


def test_figures_are_told_beside_what_the_papers_text_says_of_them(written):
    cells, _, markdown = written
    text = markdown.read_text()
    ends = [
        cell["curve"][-1]["auc_pr"]
        for cell in cells
        if (cell["suite"], cell["dataset"], cell["protocol"], cell["method"])
        == ("steps", "subnormal", "fixed", "DPLAN")
    ]
    assert f"to {np.mean(ends):.3f} (paper 0.436 to 0.863)" in text
    for expected in ("(paper 0.826 to 0.853)", "Figure 3, DPLAN's", "Figure 5, DPLAN's", "paper: 15 to 120"):
        assert expected in text


def test_notes_become_a_part_of_both_pages_and_stay_text(tmp_path):
    write_journal(tmp_path, suites=("ablation",), runs=1)
    (tmp_path / "notes.md").write_text(
        f"## Why\n\nSee **this** and [that page](../that.md).\n\n- `one`\n- {ATTACK}\n"
    )
    html, markdown = write_report(tmp_path, tmp_path / "docs", "results")
    assert "\n## Why\n\nSee **this** and [that page](../that.md).\n" in markdown.read_text()
    page = html.read_text()
    assert (
        "<p>See <strong>this</strong> and that page.</p>\n<ul>\n<li><code>one</code></li>\n<li>&lt;/pre"
        in page
    )
    assert re.search(r'<a href="#part\d+">Why</a>', page)
    assert page.count("<script") == 0


def test_a_compressed_journal_gives_the_same_pages(written, tmp_path):
    _, html, markdown = written
    (tmp_path / "journal.jsonl.gz").write_bytes(gzip.compress((html.parent / "journal.jsonl").read_bytes()))
    packed = write_report(tmp_path)
    assert [page.read_text() for page in packed] == [html.read_text(), markdown.read_text()]


def test_text_from_outside_stays_text(written):
    _, html, markdown = written
    page = html.read_text(encoding="utf-8")
    assert ATTACK not in page
    assert page.count("<script") == 0
    outside_code = re.sub(r"^(`{3,})\n.*?^\1$", "", markdown.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert "<script" not in outside_code


def test_the_page_names_nothing_that_a_browser_would_fetch(written):
    page = written[1].read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=[\"'](?!#|data:)|url\(|@import", page)


@needs_browser
def test_a_browser_opens_the_page_in_silence_and_without_the_network(written, tmp_path):
    seen = visit(written[1], tmp_path)
    assert "How this report was made" in seen.dom
    assert seen.console == []
    assert seen.requests == []


@needs_browser
def test_the_browser_would_have_told(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        '<!DOCTYPE html><svg><path d="MNaN 0"/></svg><img src="http://127.0.0.1:9/x.png">'
        "<script>console.error('oops')</script>"
    )
    seen = visit(page, tmp_path)
    assert any("oops" in line for line in seen.console)
    assert any("attribute d" in line for line in seen.console)
    assert "http://127.0.0.1:9/x.png" in seen.requests


def test_the_order_in_which_cells_finished_does_not_show(written):
    cells = written[0]
    shuffled = [cells[i] for i in np.random.default_rng(1).permutation(len(cells))]
    assert list(report_blocks(Results(shuffled))) == list(report_blocks(Results(cells)))


def test_a_half_finished_journal_gives_a_report(tmp_path):
    """Some methods lack data sets, others runs: averages are over the data sets that all methods have."""
    cells = write_journal(tmp_path, suites=("table2",), runs=1)
    kept = [cell for cell in cells if (cell["method"], cell["dataset"]) != ("DUA", "dos")]
    text = "\n".join(
        entry.text
        for block in report_blocks(Results(kept))
        for row in getattr(block, "rows", [])
        for entry in row
    )
    assert "Average of 12" in text


def test_the_committed_report_is_what_the_committed_records_give(tmp_path):
    root = Path(__file__).parents[2]
    _, markdown = write_report(root / "experiments" / "results" / "paper", tmp_path, "results")
    assert markdown.read_text(encoding="utf-8") == (root / "docs" / "results.md").read_text(encoding="utf-8")
