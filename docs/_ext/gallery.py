"""The pictures of the gallery: how they look, and what an example must show for its page to be built.

The style lives here, so that an example draws with the few lines a reader wants to copy. Every example must end with a
picture that has a title, which is also its alternative text, and labels on its axes; and what it prints must end with a
certificate that holds. The build of the pages refuses examples that do not.
"""

import re
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from cycler import cycler
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx_gallery import gen_gallery
from sphinx_gallery.scrapers import matplotlib_scraper

#: Distinguished by colour-blind readers, and with the line styles also in a print without colour.
COLOURS = ("#b03060", "#0072b2", "#e08e00", "black", "#56b4e9", "0.45")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
#: Of a size at which the letters can be read on a card, where a picture is half as wide.
STYLE = {
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=LINES),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 12.5,
    "axes.titlelocation": "left",
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.8, 3.9),
    "font.size": 11.5,
    "image.cmap": "cividis",
    "legend.fontsize": 10.0,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "lines.linewidth": 2.0,
    "savefig.dpi": 160,  # sharp on fine screens; the pages show it smaller
}
#: What a block printed, on the page that sphinx-gallery writes; and the alternative text of its pictures.
OUTPUT = re.compile(r"^ \.\. code-block:: none\n\n((?:    .*\n|\s*\n)+)", flags=re.MULTILINE)
ALTERNATIVE = re.compile(r"^ +:alt: (.+)$", flags=re.MULTILINE)
THUMBNAIL = re.compile(r"sphx_glr_(\w+)_thumb\.")
#: A name at a tick, instead of a number or a power of ten.
WORD = re.compile(r"[^$]*[A-Za-z]{2}")
HEADING = ["check", "residual", "scale", "relative", "tolerance", "pass", "formula"]
logger = logging.getLogger(__name__)


_filters: list[Any] = []


def restyle(conf: dict[str, Any], name: str, when: str) -> None:
    """Set the style and make warnings errors before an example; undo both after it."""
    if when == "before":
        mpl.rcParams.update(STYLE)
        _filters[:] = warnings.filters
        warnings.simplefilter("error")
    else:
        mpl.rcdefaults()
        warnings.filters[:] = _filters  # type: ignore[index]


def missing(figure: Any) -> list[str]:
    """Return what a picture lacks: a title, or the label of an axis that has numbers."""
    axes = [axes_drawn for axes_drawn in figure.axes if axes_drawn.get_label() != "<colorbar>"]
    titles = [
        figure.get_suptitle(),
        *(axes_drawn.get_title(place) for axes_drawn in axes for place in ("left", "center")),
    ]
    lacks = [] if any(titles) else ["a title that states the answer"]
    for number, axes_drawn in enumerate(axes):
        labels = {
            "x": [sibling.get_xlabel() for sibling in axes_drawn.get_shared_x_axes().get_siblings(axes_drawn)],
            "y": [sibling.get_ylabel() for sibling in axes_drawn.get_shared_y_axes().get_siblings(axes_drawn)],
        }
        for name, axis in (("x", axes_drawn.xaxis), ("y", axes_drawn.yaxis)):
            words = any(WORD.match(tick.get_text()) for tick in axis.get_ticklabels())
            if not words and not any(labels[name]):
                lacks.append(f"a label on the {name}-axis of its axes {number}")
    return lacks


def find_misprint(printed: str) -> str:
    """Return what is wrong with the output of an example, which must end with a certificate that holds; empty:
    nothing.
    """
    block = printed.rstrip().split("\n\n")[-1].splitlines()
    if len(block) < 3 or ": holds; " not in block[0] or block[1].split() != HEADING:
        return "its output does not end with a certificate that holds"
    if "DOES NOT HOLD" in printed or any(" NO " in line for line in block):
        return "it prints a certificate that does not hold"
    return ""


def pictures(block: Any, block_vars: dict[str, Any], conf: dict[str, Any]) -> str:
    """Save the pictures of a block; one without a title or labels stops the build."""
    for number in plt.get_fignums():
        lacks = missing(plt.figure(number))
        if lacks:
            raise ExtensionError(f"{block_vars['src_file']}: a picture lacks {', '.join(lacks)}")
    return str(matplotlib_scraper(block, block_vars, conf))


def check_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Warn, which stops a build with ``-W``, of an example that was run and has no picture or no certificate."""
    if not page.startswith("auto_examples/") or page.endswith("/index") or not app.config.plot_gallery:
        return
    if app.config.plot_gallery in ("0", "False", "false"):
        return
    if not re.search(app.config.sphinx_gallery_conf["filename_pattern"], f"/{Path(page).name}.py"):
        return  # it was not run
    blocks = [dedent(block) for block in OUTPUT.findall(source[0])]
    wrong = [find_misprint("".join(blocks))] if blocks else ["it prints nothing"]
    if not ALTERNATIVE.search(source[0]):
        wrong.append("it draws no picture")
    for complaint in filter(None, wrong):
        logger.warning("%s: %s", page, complaint, location=page)


#: A heading of the index with the examples of its group.
GROUP = re.compile(r"^(?P<title>.+)\n-+\n\n\.\. minigallery::\n\n(?P<files>(?: +\S+\.py\n)+)", flags=re.MULTILINE)


def place_in_index(path: str) -> int:
    """Return the place of an example in the index, which lists the examples in the order of learning."""
    index = Path(path).with_name("index.rst").read_text(encoding="utf-8")
    return index.find(Path(path).name)


def group_sidebar(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the sidebar the groups of the index, each with its heading, after the cards."""
    if page != "auto_examples/index":
        return
    lists = []
    for group in GROUP.finditer(f"{source[0]}\n"):
        names = [f"   {Path(file).stem}" for file in group["files"].split()]
        lists.append("\n".join([".. toctree::", "   :hidden:", f"   :caption: {group['title']}", "", *names, ""]))
    source[0] += "\n\n" + "\n".join(lists)


def describe_cards(app: Sphinx, document: nodes.document, page: str) -> None:
    """Give the picture of a card the alternative text of the picture on the page it leads to."""
    for image in document.findall(nodes.image):
        match = THUMBNAIL.search(image["uri"])
        if match and not image.get("alt"):
            of_page = Path(app.srcdir, "auto_examples", f"{match[1]}.rst")
            texts = ALTERNATIVE.findall(of_page.read_text(encoding="utf-8")) if of_page.exists() else []
            image["alt"] = texts[0] if texts else match[1].replace("_", " ")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the checks, and keep the gallery out of folders in examples/, whose scripts are no pages."""
    gen_gallery.get_subsections = lambda *_, **__: []
    app.connect("source-read", check_page)
    app.connect("source-read", group_sidebar)
    app.connect("doctree-resolved", describe_cards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
