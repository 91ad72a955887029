"""Check the links of the built site: python -m docs.links build/site."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag is called, links to and loads."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value is not None:
                (self.links if tag == "a" else self.loaded).append(value)


def broken(site: Path) -> list[str]:
    """Return the links within a site that lead nowhere, and what its pages load from elsewhere."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        place = path.relative_to(site)
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme in ("http", "https", ""):
                    found.append(f"{place} loads {link}")
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if not target.exists():
                found.append(f"{place} links to {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{place} links to {link}: there is no such heading")
    return found


if __name__ == "__main__":
    problems = broken(Path(sys.argv[1]).resolve())
    print("\n".join(problems))  # noqa: T201
    sys.exit(bool(problems))
