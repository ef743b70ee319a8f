"""Take the pictures of the README from the demonstration, as it is now: ``make pictures``.

Needs a browser called chromium on PATH.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from heatgraph.cli.app import app

STATIC = Path(__file__).parent / "_static"
SIZE = {"width": 1100, "height": 960}
NODE = "Hale"  # that the report tells of


def main() -> None:
    """Run the demonstration, and take its picture and that of its report."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "demo"
        app(["demo", "--output", str(made)], standalone_mode=False)
        shutil.copyfile(made / "sources.png", STATIC / "sources.png")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport=SIZE)
            page.goto((made / "report.html").as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            page.select_option("#node", label=NODE)
            page.wait_for_selector("#details h3")
            page.screenshot(path=STATIC / "report.png")
            browser.close()


if __name__ == "__main__":
    main()
