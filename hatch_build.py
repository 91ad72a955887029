"""The page of the package: the README, without links and pictures that only a clone has."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def package_page(readme: str) -> str:
    r"""Return the README without relative pictures, and with the text of relative links alone.

    Examples
    --------
    >>> page = "See [the docs](docs/a.md) and [PyPI](https://pypi.org).\n\n![Picture](docs/a.png)\n\n*Below it.*\n\nEnd"
    >>> package_page(page)
    'See the docs and [PyPI](https://pypi.org).\n\nEnd'
    """
    with_captions = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n\n(\*[^*\n][^*]*\*\n\n)?", "", readme)
    return re.sub(r"\[((?:[^][]|\[[^]]*\])*)\]\((?!https?:|#)[^)]*\)", r"\1", with_captions)


class PackagePage(MetadataHookInterface):
    """Sets the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the page to the metadata."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": package_page(readme)}
