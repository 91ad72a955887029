from pathlib import Path

from dplan.detectors import devnet


def test_the_page_shows_the_file_as_it_is():
    page = Path(__file__).parents[2] / "docs" / "adding-a-detector.md"
    source = Path(devnet.__file__).read_text(encoding="utf-8")
    assert f"```python\n{source}```" in page.read_text(encoding="utf-8")
