"""Sphinx configuration of the documentation site; `make docs` runs it over what docs/site/build.py lays out.

Sphinx with MyST: both had releases within the last two months, Sphinx builds offline and to one folder per page, while
MkDocs has had no release since 2024 and its theme is in maintenance only.
"""

from __future__ import annotations

project = "inferdoc"
author = "the inferdoc maintainers"
project_copyright = "the inferdoc maintainers, Apache-2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"

html_theme = "furo"
html_title = "inferdoc"
html_extra_path = ["_extra"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
# Placeholders such as $POD in queries and commands are no valid token of their language; they are shown as they stand.
suppress_warnings = ["misc.highlighting_failure"]
