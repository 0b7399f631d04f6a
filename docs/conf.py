"""Sphinx settings: MyST pages, API pages from docstrings, examples that are executed."""

from importlib.metadata import version as version_of
from pathlib import Path

project = "ETT"
copyright = "the ETT contributors"  # noqa: A001 - Sphinx reads this name
version = release = version_of("ett-hookspecs")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "alabaster"
html_theme_options = {
    "description": "effective training time",
    "fixed_sidebar": True,
    "page_width": "1100px",
    "show_powered_by": False,
}
html_show_sourcelink = False
templates_path: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

doctest_test_doctest_blocks = "default"
doctest_global_setup = f"DOCS = {str(Path(__file__).parent)!r}"
