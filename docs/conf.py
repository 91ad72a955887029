"""The site: `make docs` builds it, with warnings as errors and without network."""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "agg")

from _site.api import GROUPS
from _site.copied import imports
from _site.writing import write_all

from dplan import __version__

project, author, release = "dplan", "the dplan developers", __version__
copyright = "the dplan developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/sg_execution_times.rst", "sg_execution_times.rst"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]
numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = "dplan"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "back_to_top_button": True,
    "article_header_start": ["breadcrumbs"],
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"stable_baselines|__init__",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "matplotlib_animations": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
    "show_signature": False,
    "reset_argv": lambda *_: [],
    "capture_repr": ("_repr_html_",),  # not the text of an Axes
}

# The pages of evidence are reports that share a title; on the site, the list of evidence names them.
EVIDENCE = (Path(__file__).parent / "evidence.md").read_text(encoding="utf-8")
TITLES = {page: title for title, page in re.findall(r"^(.+) <([\w-]+)>$", EVIDENCE, flags=re.MULTILINE)}


def _read(app, name, source):
    """Leave links to files of the repository that are not on the site as text."""
    source[0] = re.sub(r"\[([^][]*)\]\(\.\./(?:src|deploy|examples)[^)]*\)", r"\1", source[0])
    source[0] = source[0].replace("](../README.md#installation)", "](install.md)")
    source[0] = source[0].replace("](../CONTRIBUTING.md", "](generated/contributing.md")
    source[0] = source[0].replace("](../docs/", "](")
    if name == "concepts":  # so that the search for a word begins with what it means
        rows = re.findall(r"^\| ([a-z][a-z, ]+) \|(?! meaning)", source[0], flags=re.MULTILINE)
        words = [word for row in rows for word in row.split(", ")] + ["AUC-PR", "AUC-ROC"]
        index = f"```{{index}} {', '.join(f'! {word}' for word in words)}\n```\n\n"
        source[0] = source[0].replace("## What does it", f"{index}## What does it")
    if name in TITLES:
        source[0] = re.sub(r"\A# .*", lambda _: f"# {TITLES[name]}", source[0])


def _complete_examples(app, what, name, obj, options, lines):
    """Begin the examples with the imports that they need, so that they run as they are copied."""
    first = next((number for number, line in enumerate(lines) if line.lstrip().startswith(">>> ")), None)
    if first is not None:
        indent = lines[first].partition(">>> ")[0]
        names = [name for group in GROUPS.values() for name in group]
        lines[first:first] = [f"{indent}>>> {line}" for line in imports(obj, "\n".join(lines), names)]


def _link_pages(app, what, name, obj, options, lines):
    """Link the pages that docstrings name."""
    lines[:] = [re.sub(r"``docs/([\w-]+)\.md``", r":doc:`/\1`", line) for line in lines]


def _without_inherited(app, what, name, obj, skip, options):
    return skip or name.startswith(("set_", "get_metadata_routing"))


def setup(app):
    """Write the pages that are made from the code."""
    write_all(GROUPS, Path(app.srcdir) / "generated")
    app.connect("source-read", _read)
    app.connect("autodoc-skip-member", _without_inherited)
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("autodoc-process-docstring", _complete_examples)
