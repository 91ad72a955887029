"""Workbooks of a few kilobytes that would need gigabytes are refused before they are parsed."""

import zipfile

import polars as pl
import pytest

from dplan.tables import Input
from dplan.tables.layout import Layout
from dplan.tables.workbook import write_workbook
from dplan.tables.workbook_limits import _references, check_size

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
HEADER = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c></row><row r="2"><c r="A2"><v>1</v></c></row>'
)
FAR = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'


def workbook(path, rows, strings=b"<sst/>", dimension="A1:A2"):
    """Write a workbook with one sheet of these rows."""
    related = f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{OFFICE}/'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
        "_rels/.rels": f'{related}officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets><sheet name="S" sheetId="1" '
        'r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{related}worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><dimension ref="{dimension}"/><sheetData>{rows}'
        "</sheetData></worksheet>",
        "xl/sharedStrings.xml": strings,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def test_an_honest_workbook_is_read_whatever_its_dimension_says(tmp_path):
    path = workbook(tmp_path / "t.xlsx", HEADER, dimension="A1:XFD1048576")
    assert Input(path).read()[0].to_dict(as_series=False) == {"a": [1]}


@pytest.mark.parametrize(
    "far", [FAR, FAR.replace('"', "'"), FAR.replace("r=", "r = "), FAR.replace("r=", "\nr=\t"), FAR * 2]
)
def test_a_cell_far_away_is_refused(far, tmp_path):
    path = workbook(tmp_path / "t.xlsx", HEADER + far)
    assert path.stat().st_size < 5_000
    with pytest.raises(
        ValueError, match=r"^t.xlsx: a sheet reaches to row 1,048,576 and column 16,384, but almost"
    ):
        Input(path).read()


def test_a_sheet_with_many_cells_may_be_as_large(tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.workbook_limits._EMPTY_CELLS", 1_000)
    table = pl.DataFrame({f"c{i}": range(500) for i in range(60)})
    write_workbook(table, tmp_path / "t.xlsx")
    assert Input(tmp_path / "t.xlsx").read()[0].equals(table)


def test_many_shared_texts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.workbook_limits._MAX_TEXTS", 1_000_000)
    path = workbook(tmp_path / "t.xlsx", HEADER, b"<sst>" + b"<si/>" * 1_000_001 + b"</sst>")
    assert path.stat().st_size < 20_000
    with pytest.raises(
        ValueError, match=r"^t.xlsx is too large for a workbook: it has more than 1,000,000 texts"
    ):
        Input(path).read()


WIDE = '<row r="3"><c r="AQ3"><v>1</v></c></row>'
BY_LIBRE_OFFICE = (
    WIDE + '<row r="1048575" ht="12.8"></row><row r="1048576" customFormat="false" ht="12.8"></row>'
)
BY_EXCEL = WIDE + '<row r="1048576" spans="1:9"><c r="A1048576" s="5"/><c r="XFD1048576" s="5"></c></row>'


@pytest.mark.parametrize("piece", [60, 131, 1 << 22])
@pytest.mark.parametrize("empty", [BY_LIBRE_OFFICE, BY_EXCEL])
def test_rows_and_cells_without_values_may_be_far_away(empty, piece, tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.workbook_limits._PIECE", piece)
    header = HEADER.replace("</row>", '<c r="AQ1"><v>7</v></c></row>', 1)
    found = Input(workbook(tmp_path / "t.xlsx", header + empty), layout=Layout(header=1)).read()[0]
    assert found.height == 2


@pytest.mark.parametrize(
    "far",
    [
        '<row r="1048576"/><row><c r="A9"><v>5</v></c></row>',  # the row after the last one
        '<row r="1048576"><c><v>5</v></c></row>',
        '<row r="1048576"><c s=\' r="A9"\'><v>5</v></c></row>',
        '<x:row r="1048576"><x:c><x:v>5</x:v></x:c></x:row>',
        '<row r="1048576"><c r="A1048576" s="/>"><v>5</v></c></row>',
        '<row r="1048576"><c r="A1048576" s="1"> </c></row>',
    ],
)
def test_what_may_have_a_value_counts(far, tmp_path, monkeypatch):
    path = workbook(tmp_path / "t.xlsx", HEADER + WIDE + far)
    for piece in (50, 77, 1 << 22):
        monkeypatch.setattr("dplan.tables.workbook_limits._PIECE", piece)
        with pytest.raises(ValueError, match="row 1,048,576 and column 43, but almost all"):
            check_size(path)


def test_a_size_that_the_archive_understates_does_not_help(tmp_path):
    path = workbook(tmp_path / "t.xlsx", HEADER + FAR)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("xl/worksheets/sheet1.xml").file_size.to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="almost all of its cells are empty"):
        check_size(path)


def test_a_reference_on_the_border_of_two_pieces_is_seen(tmp_path, monkeypatch):
    path = workbook(tmp_path / "t.xlsx", HEADER + FAR)
    for piece in range(100, 120):
        monkeypatch.setattr("dplan.tables.workbook_limits._PIECE", piece)
        with pytest.raises(ValueError, match="row 1,048,576 and column 16,384"):
            check_size(path)


def test_references_are_rows_and_columns():
    found = (
        _references(text) for text in (b'<c r="A1"><c r="AB12"><row r="70">', b'<c r="A99999999999999', b"no")
    )
    assert [(last.tolist(), n) for last, n in found] == [([70, 28], 2), ([9_999_999_999, 1], 1), ([1, 1], 0)]


def test_a_column_without_a_name_and_values_is_left_out(tmp_path):
    rows = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c><c r="C1" t="inlineStr"><is><t>b</t></is></c></row>'
        '<row r="2"><c r="A2"><v>1</v></c><c r="C2"><v>2</v></c></row>'
        '<row r="3"><c r="A3"><v>3</v></c><c r="C3"><v>4</v></c></row>'
    )
    assert Input(workbook(tmp_path / "t.xlsx", rows)).read()[0].to_dict(as_series=False) == {
        "a": [1, 3],
        "b": [2, 4],
    }
