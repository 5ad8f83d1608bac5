"""How Sphinx builds the documentation: `make docs`. Nothing is fetched, neither for the build nor for viewing."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import sublevel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ.pop("MPLBACKEND", None)  # notebooks show their figures

project = "sublevel"
author = "The sublevel developers"
copyright = "the sublevel developers"
version = release = sublevel.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "mathml",
]
exclude_patterns = ["_extensions"]
root_doc = "index"

# Markdown: formulas between dollars, links to headings as GitHub makes them.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]
html_math_renderer = "mathml"

# Notebooks of the gallery are run by the build, unless they were run before and have not changed.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
# Kernels have settings of their own, not those of the user, and do not warn of their ports on the loopback interface.
profile = HERE.parent / "build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = str(profile.parent)

autosummary_generate = True
autodoc_typehints = "none"  # they are in the docstrings
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "sublevel"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"changelog": [], "coming-from": []}
html_domain_indices = False


def link_to_included_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links to pages outside of docs/ into links to the pages that include them."""
    up = "../" * name.count("/")
    source[0] = re.sub(
        r"\]\((?:\.\./)+(CONTRIBUTING|SECURITY|CHANGELOG)\.md", lambda m: f"]({up}{m[1].lower()}.md", source[0]
    )


def setup(app: Sphinx) -> None:
    """Connect the function above."""
    app.connect("source-read", link_to_included_pages)
