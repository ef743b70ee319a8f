"""The code that the documentation includes is there, and every page can be reached."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INCLUDE = re.compile(r"```\{literalinclude\} (\S+)\n((?::[^\n]*\n)*)```")
MADE = {
    "_build",
    "generated",
    "auto_examples",
    "auto_tutorials",
}  # by the build of the documentation
PAGES = [page for page in DOCS.rglob("*.md") if not MADE & set(page.parts)]
INCLUDED = [(page, *found) for page in PAGES for found in INCLUDE.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize(
    ("page", "path", "options"), INCLUDED, ids=[f"{i[0].stem}-{k}" for k, i in enumerate(INCLUDED)]
)
def test_included_code_is_there(page, path, options):
    source = (page.parent / path).read_text("utf-8")
    wanted = dict(re.findall(r":([a-z-]+): \"?(.*?)\"?\n", options))
    if "pyobject" in wanted:
        body = ast.parse(source).body
        for name in wanted["pyobject"].split("."):
            kinds = ast.FunctionDef | ast.ClassDef
            found = [node for node in body if isinstance(node, kinds) and node.name == name]
            assert found, name
            body = found[0].body
    else:
        assert wanted["start-at"] in source


def test_every_page_is_in_a_table_of_contents():
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES}
    listed = set()
    for page in PAGES:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    folder = Path() if line.startswith("/") else page.parent.relative_to(DOCS)
                    listed.add((folder / line.lstrip("/")).as_posix())
    assert pages - listed == {"index"}


def test_examples_are_in_the_gallery_and_named_for_it():
    examples = [path for name in ("examples", "tutorials") for path in (ROOT / name).glob("*.py")]
    assert examples
    for path in examples:
        tree = ast.parse(path.read_text("utf-8"))
        assert re.match(r"plot_\d[a-e]?_", path.name)
        assert re.match(r"\n.+\n=+\n", ast.get_docstring(tree, clean=False))
