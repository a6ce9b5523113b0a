"""Configuration of the documentation: built offline, from this clone, with every warning an error.

``python -m sphinx -W -b html docs docs/build/html`` runs the examples for the gallery; ``-D plot_gallery=0`` leaves
their output out, and with ``-t check`` a version of the package runs a third of them.
"""

import gc
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]  # this clone, whatever else is installed

import substrate  # noqa: E402

# all pages stay in memory until they are written: a search for garbage among them finds little and takes long
gc.set_threshold(50_000, 20, 100)

project = "lssvm-substrate"
author = "The lssvm-substrate developers"
copyright = author
version = release = substrate.__version__
nitpicky = True
nitpick_ignore_regex = [("py:class", r"(numpy|collections)\..*")]  # documented elsewhere, and nothing is fetched

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "citations",
    "docstring_template",
    "exercises",
    "gallery",
    "own_names",
    "tutorial_notebooks",
]
# the pages of source, an eighth of the time, show what needs no check: ``-t check`` builds without them
if not tags.has("check"):  # noqa: F821, Sphinx gives it
    extensions += ["sphinx.ext.viewcode", "source_pages"]
exclude_patterns = ["build", "**/backreferences/*"]
templates_path = ["_templates"]

# -- Markdown: dollars are mathematics, headings can be linked to
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# an anchor in a cell of a table is HTML, which MyST does not see; check_pages.py follows every link in the built pages
suppress_warnings = ["myst.xref_missing"]

# -- Mathematics, drawn as SVG by the copy in _static
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {
    "options": {"enableMenu": False},  # its menu would look for files that are not there
    "svg": {"fontCache": "global"},
}

# -- Reference pages
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # fit(), not LSSVMRegressor.fit(), in the margin
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# -- The gallery: every script in examples/
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "copyfile_regex": r"index\.rst$",
    "abort_on_example_error": True,
    "run_stale_examples": True,  # what a page shows depends on the package, not only on its script
    "reset_modules": ("matplotlib", "gallery.restyle"),
    "reset_modules_order": "both",
    "image_scrapers": ("gallery.pictures",),
    "minigallery_sort_order": "gallery.place_in_index",
    "thumbnail_size": (480, 330),
    "doc_module": ("problems", "substrate"),
    "backreferences_dir": "api/backreferences",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

# -- Pages
html_theme = "pydata_sphinx_theme"
html_title = "lssvm-substrate"
html_static_path = ["_static"]
html_extra_path = ["interactive"]  # copied next to the pages unchanged
html_css_files = ["substrate.css"]
html_show_sphinx = False
html_favicon = "_static/mark.svg"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "lssvm-substrate", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_toc_level": 2,
    # pages that are one wide table have the whole width
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        "benchmarks": [],
        "errata": [],
        "ledger": [],
        "models": [],
        "notation": [],
        "vocabulary": [],
    },
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "changelog": [], "references": []}

# -- A check of the pages: no page repeats the tree of all pages
if tags.has("check"):  # noqa: F821, Sphinx gives it
    html_sidebars = {"**": []}
