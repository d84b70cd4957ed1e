#!/usr/bin/env python3
"""Takes docs/images/page.png: the page of cria serve with the demo model, in Debian's headless Chromium.

    scripts/setup.sh --web                           installs the browser
    scripts/page_picture.py build/release/bin        writes the picture

The answers are always the same; the speeds in the picture are those of the machine.
"""
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from script_arguments import OneLineParser, existing, is_program

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/web"))
import webdriver  # noqa: E402  pylint: disable=wrong-import-position

PICTURE = ROOT / "docs/images/page.png"
DEMO = ROOT / "models/demo"
WIDTH, HEIGHT = 1000, 640
PATIENCE_S = 120
CONVERSATIONS = (("What is the capital of France?",), ("what is the opposite of hot",),
                 ("What is a cria?", "What is a KV cache?"))
LAST = "[...document.querySelectorAll('.message')].at(-1)"
ANSWERED = f"{LAST}?.matches('.assistant') && {LAST}.querySelector('.actions') && !document.getElementById('stop').checkVisibility()"
GREEDY = "localStorage.setItem('cria.wishes', JSON.stringify({system: '', sampling: {temperature: 0}}));"
NEW_CONVERSATION = "[...document.querySelectorAll('button')].find((button) => button.innerText.trim() === 'New conversation').click()"


def address_of(server):
    """Where the server listens, from what it prints."""
    end = time.monotonic() + PATIENCE_S
    for line in server.stdout:
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return found[1]
        if time.monotonic() > end:
            break
    sys.exit("page_picture: cria serve does not begin")


def take(browser, address):
    browser.devtools("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.go(address + "/")
    browser.run(GREEDY)
    browser.go("about:blank")
    browser.go(address + "/")
    browser.wait("document.getElementById('model').dataset.state === 'ready'")
    for number, questions in enumerate(CONVERSATIONS):
        if number > 0:
            browser.run(NEW_CONVERSATION)
        for question in questions:
            browser.type("#text", question)
            browser.press("Enter")
            browser.wait(ANSWERED)
    browser.screenshot(PICTURE)


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("programs", type=existing, help="the folder of cria and cria-convert")
    args = parser.parse_args()
    for name in "cria", "cria-convert":
        if not is_program(args.programs / name):
            parser.error(f"{args.programs} has no {name}")
    if not (webdriver.CHROMIUM and webdriver.DRIVER):
        sys.exit("page_picture: chromium is missing; run scripts/setup.sh --web")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "demo.cria")
        subprocess.run([args.programs / "cria-convert", DEMO, "-o", model, "--quiet"], check=True)
        server = subprocess.Popen([args.programs / "cria", "serve", model, "--port", "0", "--threads", "1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            address = address_of(server)
            browser = webdriver.Browser()
            try:
                take(browser, address)
            finally:
                browser.close()
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
