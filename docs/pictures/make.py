"""Takes the picture that README shows: the tutorial's report, in a headless Chromium.

Run `python docs/pictures/make.py`; it needs the group `browser`, a Chromium, and what the tutorial installs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent


def main() -> None:
    """Run the tutorial, and take the picture of the page it writes."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(HERE.parent / "tutorial" / "tutorial.py")], cwd=folder, check=True)  # noqa: S603
        with sync_playwright() as playwright:
            chromium = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            view = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            view.goto((Path(folder) / "tutorial.html").as_uri())
            view.wait_for_timeout(1500)
            view.screenshot(path=str(HERE / "compare.png"))
            browser.close()


if __name__ == "__main__":
    main()
