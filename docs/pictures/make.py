"""Takes the pictures of the pages that README shows, with a headless Chromium.

Run `python docs/pictures/make.py`; it needs the group `browser` and a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main() -> None:
    """Judge what two retrievers found, compare, and take the picture of the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "fixtures", folder / "fixtures")
        call = [sys.executable, "-m", "judge_eval"]
        for label in ("text", "title"):
            run = [*call, "run", f"fixtures/docs_qa_by_{label}.jsonl", "--model", "fake/overlap", "-q"]
            more = ["--label", label, "--cache", str(folder / "cache")]
            subprocess.run([*run, *more], cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        page = folder / "compare.html"
        report = [*call, "report", "label:title", "--baseline", "label:text", "-o", str(page)]
        subprocess.run(report, cwd=folder, check=True)  # noqa: S603
        with sync_playwright() as playwright:
            chromium = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            view = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            view.goto(page.as_uri())
            view.wait_for_timeout(1500)
            view.screenshot(path=str(HERE / "compare.png"))
            browser.close()


if __name__ == "__main__":
    main()
