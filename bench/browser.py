"""``python -m bench.browser [page]``: opens the page in a headless Chromium, in light, dark and a narrow window.

Saves a screenshot of each beside the page.  Fails if an image is missing, a link is broken, or the page is wider than
the window.  A script in a copy of the page measures it, and reports through the title.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.case import OUT

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
VIEWS = {"light": ((1280, 2400), 1), "dark": ((1280, 2400), 0), "narrow": ((400, 2400), 1)}     # window, Blink's scheme
SCRIPT = """<script>addEventListener('load', () => { document.title = JSON.stringify({
  wide: document.documentElement.scrollWidth - innerWidth,
  ink: getComputedStyle(document.body).color, paper: getComputedStyle(document.body).backgroundColor,
  broken: [...document.images].filter(i => !i.naturalWidth).length,
  lost: [...document.querySelectorAll('a[href^="#"]')].filter(a => !document.getElementById(a.hash.slice(1))).length
})})
</script>"""


FAULTS = {"wide": "pixels wider than the window", "broken": "images not shown", "lost": "links lead nowhere"}


def browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def run(program: str, window: tuple[int, int], dark: int, page: Path, *action: str) -> str:
    size = f"--window-size={window[0]},{window[1]}"
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size,
               f"--blink-settings=preferredColorScheme={dark}", *action, page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def faults(program: str, page: Path) -> list[str]:
    """The faults of the page; saves screenshots beside it."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.html"
        probe.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{SCRIPT}</body>"), encoding="utf-8")
        for name, (window, dark) in VIEWS.items():
            run(program, window, dark, page, f"--screenshot={page.parent.resolve() / f'page-{name}.png'}")
            title = re.search(r"<title>(\{.*?\})</title>", run(program, window, dark, probe, "--dump-dom"))
            if title is None:
                found.append(f"{name}: the page did not load")
                continue
            said = json.loads(title[1].replace("&quot;", '"'))
            found += [f"{name}: {said[what]} {text}" for what, text in FAULTS.items() if said[what] > 0]
            if (sum(map(int, re.findall(r"\d+", said["ink"])[:3])) > 384) != (name == "dark"):
                found.append(f"{name}: the text is {said['ink']} on {said['paper']}")
    return found


def main() -> int:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT / "index.html"
    program = browser()
    if program is None:
        print(f"no browser: looked for {', '.join(NAMES)}")
        return 2
    found = faults(program, page)
    print("\n".join(found) or f"{page}: right in {', '.join(VIEWS)}; pictures beside it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
