#!/usr/bin/env python3
"""The page of `cria serve` in a headless browser: against a server that answers as the tests need it, and against the
real one with the demo model. Whatever happens, the console stays silent."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

import mock_server
import webdriver

BIN = Path(os.environ.get("CRIA_BIN_DIR", "build/release/bin"))
SKIP = 77
KEY = "a-key-for-the-tests"
LAST = "[...document.querySelectorAll('.message')].at(-1)"
ANSWERED = f"{LAST}?.matches('.assistant') && {LAST}.querySelector('.actions') && !document.getElementById('stop').checkVisibility()"
TEXTS = "[...document.querySelectorAll('.message .body')].map((body) => body.textContent)"
OVERFLOW = ("[...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.closest('pre, .table, .quiet, .skip, nav')"
            " && node.getBoundingClientRect().right > innerWidth + 0.5).map((node) => node.outerHTML.slice(0, 120))")
# What an answer may be made of, and the attributes that may stand there.
ELEMENTS = {"P", "H3", "H4", "H5", "H6", "UL", "OL", "LI", "STRONG", "EM", "DEL", "CODE", "PRE", "A", "BLOCKQUOTE", "HR", "TABLE", "THEAD",
            "TBODY", "TR", "TH", "TD", "DIV", "SPAN", "BUTTON", "DETAILS", "SUMMARY"}
ATTRIBUTES = {"class", "start", "href", "target", "rel", "title", "dir", "tabindex", "role", "aria-label", "type"}

browser = None


class PageTest(unittest.TestCase):
    url = None

    def open_page(self):
        """The page as a browser sees it that was never there."""
        browser.go(self.url)
        browser.run("localStorage.clear(); sessionStorage.clear();")
        browser.go("about:blank")
        browser.go(self.url)
        self.wait_until_ready()

    def wait_until_ready(self):
        browser.wait("document.getElementById('model').dataset.state === 'ready'")

    def setUp(self):
        browser.devtools("Emulation.clearDeviceMetricsOverride")
        browser.devtools("Emulation.setEmulatedMedia", features=[])
        self.expected_in_console = ()
        self.open_page()
        browser.console()

    def tearDown(self):
        said = [entry["message"] for entry in browser.console()]
        said = [line for line in said if not any(part in line for part in self.expected_in_console)]
        self.assertEqual(said, [], "the console is not silent")
        self.assertIsNone(browser.run("return window.hacked ?? null;"))

    def send(self, text):
        browser.type("#text", text)
        browser.press("Enter")

    def talk(self, text):
        self.send(text)
        browser.wait(ANSWERED)
        return browser.run(f"return {LAST}.querySelector('.body').innerText;")

    def texts(self):
        return browser.run(f"return {TEXTS};")

    def click_action(self, place, label):
        """Of a message, counted from 0 or from the end; as a mouse that is there already."""
        browser.run(f"[...document.querySelectorAll('.message')].at({place}).querySelector('[aria-label=\"{label}\"]').click();")

    def assert_harmless(self):
        bodies = browser.run("""return [...document.querySelectorAll('.message .body *')].map((node) => [node.tagName, node.namespaceURI,
            ...[...node.attributes].map((attribute) => attribute.name), node.tagName === 'A' ? node.protocol + node.rel : '']);""")
        for name, space, *attributes, link in bodies:
            self.assertIn(name, ELEMENTS)
            self.assertEqual(space, "http://www.w3.org/1999/xhtml")
            self.assertLessEqual(set(attributes), ATTRIBUTES)
            if name == "A":
                self.assertRegex(link, r"^https?:noopener noreferrer nofollow$")
        return len(bodies)

    def assert_no_overflow(self):
        self.assertEqual(browser.run("return [document.documentElement.scrollWidth - innerWidth, document.getElementById('scroll').scrollWidth"
                                     " - document.getElementById('scroll').clientWidth];"), [0, 0])
        self.assertEqual(browser.run(f"return {OVERFLOW};"), [])


class AgainstAMock(PageTest):
    @classmethod
    def setUpClass(cls):
        cls.mock = mock_server.MockServer()
        cls.url = cls.mock.url

    @classmethod
    def tearDownClass(cls):
        cls.mock.stop()

    def setUp(self):
        self.mock.clear()
        super().setUp()

    def last_request(self):
        return self.mock.requests[-1]

    def test_a_conversation_goes_on_and_outlives_a_reload(self):
        self.assertEqual(self.talk("hello there"), "You said: hello there")
        self.assertEqual(self.talk("and again"), "You said: and again")
        self.assertEqual([message["content"] for message in self.last_request()["messages"]],
                         ["hello there", "You said: hello there", "and again"])
        self.assertNotIn("temperature", self.last_request())
        before = self.texts()
        browser.reload()
        browser.wait(f"{TEXTS}.length === 4")
        self.assertEqual(self.texts(), before)
        self.assertEqual(browser.run("return document.title;"), "hello there \u2013 cria")

    def test_numbers_are_shown(self):
        self.talk("hello")
        self.assertEqual(browser.run("return document.getElementById('speed').textContent;"), "42.0 tokens/s \u00b7 prompt 700/s")
        meter = browser.run("const node = document.getElementById('context');"
                            "return ['now', 'max', 'text'].map((name) => node.getAttribute('aria-value' + name));")
        self.assertEqual(meter, ["12", "512", "12 of 512 tokens"])
        self.assertEqual(browser.run("return document.getElementById('memory').textContent;"), "7.3 MB memory")
        self.assertIn("prompt of 10 tokens, 3 kept from before", browser.run(f"return {LAST}.querySelector('.note').textContent;"))

    def test_markdown_is_made_of_elements_however_the_stream_is_cut(self):
        for _ in range(3):
            self.talk("markdown")
            self.assertEqual(browser.run(f"return {LAST}.querySelector('.body').textContent.includes('\u00e4\u00f6\u00fc \U0001f999 \u65e5\u672c\u8a9e');"), True)
        found = browser.run(f"""const body = {LAST}.querySelector('.body'), text = (selector) => [...body.querySelectorAll(selector)].map((node) => node.textContent);
            return {{heading: text('h3'), strong: text('strong'), em: text('em'), inline: text('p code'), del: text('del'),
                links: [...body.querySelectorAll('a')].map((node) => node.href), nested: text('ol > li > ul > li'), cells: text('th, td'),
                code: text('pre'), quote: text('blockquote'), rules: text('hr').length}};""")
        self.assertEqual(found, {
            "heading": ["Llamas"], "strong": ["cria"], "em": ["young"], "inline": ["born"], "del": ["not"],
            "links": ["https://example.org/cria?a=1&b=2", "https://example.org/a_b_c"], "nested": ["two a", "two b"],
            "cells": ["name", "legs", "llama", "4"], "code": ['def f(x):\n    return "<b>" + x'], "quote": ["a word\nof wisdom"], "rules": 1})
        # Block by block while it streams, or all at once: the same.
        streamed = browser.run(f"return {LAST}.querySelector('.body').innerHTML;")
        browser.reload()
        browser.wait(ANSWERED)
        self.assertEqual(browser.run(f"return {LAST}.querySelector('.body').innerHTML;"), streamed)

    def test_code_is_copied_as_it_is_also_without_a_clipboard(self):
        self.talk("markdown")
        for has_clipboard in (True, False):  # a page of plain HTTP, of another machine, has none
            if not has_clipboard:
                browser.run("Object.defineProperty(navigator, 'clipboard', {value: undefined});")
            browser.click(".code button")
            browser.wait("document.querySelector('.toast')?.textContent === 'Code copied'")
            browser.run("document.querySelector('.toast').remove(); document.getElementById('text').value = ''; document.getElementById('text').focus();")
            browser.press("v", held=["Control"])
            self.assertEqual(browser.run("return document.getElementById('text').value;"), 'def f(x):\n    return "<b>" + x')

    def test_what_stands_is_not_made_again_while_more_comes(self):
        self.send("story")
        browser.wait(f"{LAST}.querySelectorAll('.body p').length > 3")
        browser.run(f"""window.first = {LAST}.querySelector('.body p'); window.made = 0;
            new MutationObserver((records) => {{ for (const record of records) made += record.addedNodes.length; }}).observe({LAST}.querySelector('.body'), {{childList: true}});""")
        browser.wait(f"{LAST}.querySelectorAll('.body p').length > 100")
        self.assertTrue(browser.run("return first.isConnected;"))
        self.assertLess(browser.run("return made;"), 300)
        browser.press("Escape")
        browser.wait(ANSWERED)

    def test_a_models_words_are_never_markup(self):
        self.talk("hostile")
        self.assertGreater(self.assert_harmless(), 50)
        self.assertIn("<img src=x onerror=window.hacked=1>", self.texts()[1])
        self.assertIn("[click](javascript:window.hacked=1)", self.texts()[1])
        self.assert_no_overflow()

    def test_hostile_strings_of_all_sorts_in_storage(self):
        chance = random.Random(7)
        pieces = [text for text in mock_server.HOSTILE if len(text) < 200] + list("*_`~[]()!<>#|-\\\n\n\n ") + ["  - ", "1. ", "> ", "```", "**", "](", "https://"]
        texts = mock_server.HOSTILE + ["".join(chance.choices(pieces, k=chance.randint(1, 40))) for _ in range(400)]
        messages = [{"role": "assistant", "text": text, "end": "stop"} for text in texts]
        # One by one, so that what one does to the page cannot be another's doing.
        for role in ("assistant", "user"):
            browser.run("""localStorage.setItem('cria.conversation.hostile', JSON.stringify({format: 1, id: 'hostile', title: '<b>' + arguments[0], system: '',
                sampling: {}, updated: 1, messages: arguments[1]}));
                sessionStorage.setItem('cria.open', 'hostile');""", role, [{**message, "role": role} for message in messages])
            browser.reload()
            browser.wait(f"{TEXTS}.length === {len(texts)}")
            self.assert_harmless()
        self.assertEqual(browser.run("return document.querySelectorAll('.message .body *').length;"), 0)  # one's own words stay as they are
        self.assertEqual(browser.run("return document.querySelector('#list .open').textContent;"), "<b>user")

    def test_stop_by_key_and_by_button(self):
        for place, stop in enumerate([lambda: browser.press("Escape"), lambda: browser.click("#stop")]):
            self.send("slow")
            browser.wait(f"{LAST}.querySelector('.body').textContent.includes('word20 ')")
            stop()
            browser.wait(ANSWERED)
            self.assertIn("Stopped", browser.run(f"return {LAST}.querySelector('.note').textContent;"))
            end = time.monotonic() + webdriver.PATIENCE_S
            while self.mock.hangups <= place and time.monotonic() < end:
                time.sleep(0.02)
            self.assertEqual(self.mock.hangups, place + 1)
        self.assertEqual(self.talk("go on"), "You said: go on")
        self.assertEqual(len(self.last_request()["messages"]), 5)

    def test_a_reload_in_the_middle_of_an_answer_keeps_what_was_there(self):
        self.send("slow")
        browser.wait(f"{LAST}.querySelector('.body').textContent.includes('word30 ')")
        browser.reload()
        browser.wait(ANSWERED)
        self.assertIn("word29 word30", self.texts()[1])
        self.assertIn("Not finished", browser.run(f"return {LAST}.querySelector('.note').textContent;"))

    def test_edit_retry_delete_and_undo(self):
        self.talk("first")
        self.talk("second")
        self.click_action(0, "Edit")
        self.assertEqual(browser.run("return document.activeElement.value;"), "first")
        browser.press("A", held=["Shift"])
        browser.press("Enter")
        browser.wait(f"{TEXTS}.length === 2 && {ANSWERED}")
        self.assertEqual(self.texts(), ["firstA", "You said: firstA"])
        browser.run("[...document.querySelectorAll('.toast button')].at(-1).click();")
        browser.wait(f"{TEXTS}.length === 4")
        self.assertEqual(self.texts(), ["first", "You said: first", "second", "You said: second"])
        n_requests = len(self.mock.requests)
        self.click_action(-1, "Retry")
        browser.wait(f"{TEXTS}.length === 4 && {ANSWERED}")
        self.assertEqual(len(self.mock.requests), n_requests + 1)
        self.assertEqual(len(self.last_request()["messages"]), 3)
        self.click_action(1, "Delete")
        self.assertEqual(self.texts(), ["first", "second", "You said: second"])
        self.assertEqual(browser.run("return document.querySelectorAll('.toast button').length;"), 1)
        self.talk("third")  # which taking the deletion back would lose
        self.assertEqual(browser.run("return document.querySelectorAll('.toast button').length;"), 0)
        self.assertEqual(self.last_request()["messages"][0], {"role": "user", "content": "first\n\nsecond"})
        self.click_action(-1, "Edit")
        browser.press("!")
        browser.press("Escape")
        self.assertEqual(self.texts()[-1], "You said: third")

    def test_changing_an_answer_that_is_being_written(self):
        self.talk("hello")
        self.send("slow")
        browser.wait(f"{LAST}.querySelector('.body').textContent.includes('word5 ')")
        self.click_action(0, "Answer this again")
        browser.wait(f"{TEXTS}.length === 2 && {ANSWERED}")
        self.assertEqual(self.texts(), ["hello", "You said: hello"])
        self.send("slow")
        browser.wait(f"{LAST}.querySelector('.body').textContent.includes('word5 ')")
        browser.run("document.querySelector('#list [aria-label^=Delete]').click();")
        browser.wait("document.getElementById('ask').open")
        browser.click("#ask-yes")
        browser.wait(f"{TEXTS}.length === 0")
        time.sleep(0.2)
        self.assertEqual(browser.run("return Object.keys(localStorage).filter((key) => key.startsWith('cria.conversation'));"), [])

    def test_system_text_and_sampling_are_sent_and_kept(self):
        browser.click("#open-settings")
        browser.type("#system", "Be brief.")
        browser.type("#s-temperature", "0.5")
        browser.type("#s-top_k", "7")
        browser.type("#s-seed", "99")
        browser.type("#s-min_p", "3")  # out of range: marked, not sent
        browser.press("Tab")
        self.assertTrue(browser.run("return document.getElementById('s-min_p').matches(':invalid');"))
        browser.click("#close-settings")
        self.talk("hello")
        browser.reload()
        self.talk("again")
        request = self.last_request()
        self.assertEqual(request["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual({name: request[name] for name in ("temperature", "top_k", "seed", "stream", "stream_options")},
                         {"temperature": 0.5, "top_k": 7, "seed": 99, "stream": True, "stream_options": {"include_usage": True}})
        self.assertNotIn("min_p", request)
        browser.click("#new")
        self.talk("another")
        self.assertEqual(self.last_request()["messages"][0]["content"], "Be brief.")

    def test_errors_say_what_to_do(self):
        self.expected_in_console = ("status of 4", "net::ERR")
        self.talk("busy please")
        self.assertEqual(self.texts()[-1], "You said: busy please")
        self.assertEqual(len(self.mock.requests), 2)
        problem = f"{LAST}.querySelector('.problem p')?.textContent"
        self.talk("teapot")
        self.assertEqual(browser.run(f"return {problem};"), "<b>no coffee</b> here")
        self.talk("cut")
        self.assertIn("connection", browser.run(f"return {problem};"))
        self.assertIn("word4", self.texts()[-1])
        self.talk("fail")
        self.assertEqual(browser.run(f"return {problem};"), "the model gave up")
        self.talk("overflow now")
        self.assertIn("1,100 tokens long, the model's context holds 512", browser.run(f"return {problem};"))
        browser.run(f"{LAST}.querySelector('.problem button').click();")
        browser.wait(f"{ANSWERED} && !({problem})")
        self.assertEqual(self.last_request()["messages"], [{"role": "user", "content": "overflow now"}])
        self.assertGreater(browser.run("return document.querySelectorAll('.message.out').length;"), 3)

    def test_a_server_that_goes_and_comes_back(self):
        self.expected_in_console = ("net::ERR",)
        self.talk("hello")
        self.mock.stop()
        self.send("are you there")
        browser.wait(f"{LAST}.querySelector('.problem')")
        browser.wait("document.querySelector('#bars .bar')?.textContent.includes('does not answer')")
        self.assertEqual(browser.run("return document.getElementById('model').dataset.state;"), "gone")
        self.mock.restart()
        browser.wait("document.getElementById('model').dataset.state === 'ready' && !document.querySelector('#bars .bar')")
        browser.run(f"{LAST}.querySelector('.problem button').click();")
        browser.wait(f"{ANSWERED} && !{LAST}.querySelector('.problem')")
        self.assertEqual(self.texts()[-1], "You said: are you there")

    def test_a_key_is_asked_for_and_kept_for_the_tab(self):
        self.expected_in_console = ("status of 401",)
        self.mock.key = "llama"
        self.send("hello")
        for key in ("wrong", "llama"):
            browser.wait("document.getElementById('ask').open")
            browser.type("#ask-input", key)
            browser.press("Enter")
            browser.wait("!document.getElementById('ask').open")
            if key == "wrong":
                browser.wait(f"{LAST}.querySelector('.problem')")
                browser.run(f"{LAST}.querySelector('.problem button').click();")
        browser.wait(f"{TEXTS}.at(-1) === 'You said: hello'")
        browser.reload()
        browser.wait("document.getElementById('model').dataset.state === 'ready'")
        self.assertEqual(browser.run("return [sessionStorage['cria.key'], JSON.stringify(localStorage).includes('\"llama')];"), ["llama", False])

    def test_several_conversations(self):
        self.talk("first")
        browser.click("#new")
        self.talk("second")
        titles = "[...document.querySelectorAll('#list .open')].map((node) => node.textContent)"
        self.assertEqual(browser.run(f"return {titles};"), ["second", "first"])
        browser.run("document.querySelector('#list li[data-current] [aria-label^=Rename]').click();")
        browser.wait("document.getElementById('ask').open")
        browser.type("#ask-input", "A name")
        browser.press("Enter")
        browser.wait(f"{titles}.includes('A name')")
        # An answer goes on while another conversation is read.
        self.send("slow")
        browser.wait(f"{LAST}.querySelector('.body').textContent.includes('word5 ')")
        browser.run("[...document.querySelectorAll('#list .open')].at(-1).click();")
        self.assertEqual(self.texts(), ["first", "You said: first"])
        self.talk("meanwhile")
        browser.run("[...document.querySelectorAll('#list .open')].find((node) => node.textContent === 'A name').click();")
        browser.wait("document.getElementById('stop').checkVisibility()")
        browser.press("Escape")
        browser.wait(ANSWERED)
        # What is exported can be imported where there is nothing.
        with tempfile.TemporaryDirectory(prefix="cria_web_") as folder:
            browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
            browser.click("#open-settings")
            browser.click("#export-all")
            path = Path(folder, "cria-conversations.json")
            end = time.monotonic() + webdriver.PATIENCE_S
            while not path.exists() and time.monotonic() < end:
                time.sleep(0.03)
            exported = json.loads(path.read_text("utf-8"))
            self.assertEqual(len(exported["conversations"]), 2)
            exported["conversations"] += [{"messages": 3}, None]
            path.write_text(json.dumps(exported), "utf-8")
            self.open_page()
            for _ in range(2):  # the second time they are there already
                browser.run("document.getElementById('file').hidden = false; document.getElementById('settings').show();")
                browser.type("#file", str(path))
                browser.wait("document.querySelector('.toast')?.textContent.includes('2 unreadable')")
                browser.wait("document.getElementById('file').value === ''")
                browser.run("document.getElementById('settings').close(); document.getElementById('toasts').replaceChildren();")
        self.assertEqual(sorted(browser.run(f"return {titles};")), ["A name", "first"])

    def test_imported_things_have_ids_that_are_texts(self):
        said = [{"role": "user", "text": "asked"}, {"role": "assistant", "text": "said"}]
        odd = [{}] + [{"id": value} for value in (None, 7, ["a"], ["b"], [["c"]], True, {"a": 1}, "", "a b", "x" * 41, "toString")]
        rows = [{"format": 1, "title": f"number {i}", **each, "messages": [{**message, **each} for message in said]}
                for i, each in enumerate(odd)]
        with tempfile.TemporaryDirectory(prefix="cria_web_") as folder:
            path = Path(folder, "odd.json")
            path.write_text(json.dumps({"format": "cria conversations", "conversations": rows}), "utf-8")
            browser.run("document.getElementById('file').hidden = false; document.getElementById('settings').show();")
            browser.type("#file", str(path))
            browser.wait("document.getElementById('file').value === ''")
            browser.wait("document.querySelector('.toast')")
        kept = browser.run("return Object.entries(localStorage).filter(([key]) => key.startsWith('cria.conversation.'))")
        found = {json.loads(text)["title"]: (key, json.loads(text)) for key, text in kept}
        self.assertEqual(sorted(found), sorted(row["title"] for row in rows))
        for key, conversation in found.values():
            ids = [conversation["id"], *(message["id"] for message in conversation["messages"])]
            for each in ids:
                self.assertIsInstance(each, str)
                self.assertRegex(each, r"^[\w-]{1,40}$")
                self.assertNotIn(each, ("null", "undefined", "7", "a", "b", "c", "true"))
            self.assertEqual(key, f"cria.conversation.{conversation['id']}")
            self.assertNotEqual(ids[1], ids[2])
        browser.go("about:blank")
        browser.go(self.url)
        self.wait_until_ready()
        self.assertFalse(browser.run("return document.body.innerText.includes('cannot be read');"))

    def test_storage_that_is_full_corrupt_or_changed_by_another_tab(self):
        self.talk("kept")
        browser.run("""localStorage.setItem('cria.conversation.bad', '{"messages": [');
            localStorage.setItem('cria.conversation.worse', '{"format": 1, "id": "worse", "messages": [{"role": "__proto__", "text": 3}]}');
            localStorage.setItem('cria.conversation.newer', '{"format": 9, "id": "newer", "messages": []}');
            localStorage.setItem('cria.wishes', 'null]');""")
        browser.reload()
        browser.wait("document.querySelector('#bars .bar')?.textContent.includes('3 conversations in this browser cannot be read')")
        self.assertEqual(self.texts(), ["kept", "You said: kept"])
        self.assertEqual(browser.run("return localStorage['cria.conversation.bad'];"), '{"messages": [')
        # No room.
        browser.run("""let piece = 'x'.repeat(1 << 20), n = 0;
            for (; piece.length; ) try { localStorage.setItem('filler' + n++, piece); } catch { piece = piece.slice(0, piece.length / 2); }""")
        self.talk("more")
        browser.wait("document.getElementById('bars').textContent.includes('storage is full')")
        self.assertEqual(len(self.texts()), 4)
        browser.run("Object.keys(localStorage).filter((key) => key.startsWith('filler')).forEach((key) => localStorage.removeItem(key));")
        self.talk("last")
        browser.wait("!document.getElementById('bars').textContent.includes('storage is full')")
        # Another tab with the same conversation follows; where both write, both stay.
        first = browser.tab()
        second = browser.new_tab()
        identity = browser.run("return sessionStorage['cria.open'];")
        browser.to_tab(second)
        try:
            browser.go(self.url)
            browser.run(f"[...document.querySelectorAll('#list .open')][0].click();")
            browser.wait(f"{TEXTS}.length === 6")
            browser.to_tab(first)
            self.talk("from the first tab")
            browser.to_tab(second)
            browser.wait(f"{TEXTS}.length === 8")
            self.send("slow")
            browser.wait(f"{LAST}.querySelector('.body').textContent.includes('word5 ')")
            browser.run("""const key = 'cria.conversation.' + arguments[0], value = JSON.parse(localStorage[key]);
                value.messages = [{role: 'user', text: 'of the other'}]; localStorage[key] = JSON.stringify(value);""", identity)
            browser.press("Escape")
            browser.wait("document.querySelectorAll('#list .open').length === 2")
            self.assertEqual(len(self.texts()), 10)
            stored = browser.run("return Object.entries(localStorage).filter(([key]) => key.startsWith('cria.conversation'))"
                                 ".map(([, text]) => { try { return JSON.parse(text).messages.length; } catch { return -1; } });")
            self.assertEqual(sorted(stored), [-1, 0, 1, 1, 10])
        finally:
            browser.close_tab()
            browser.to_tab(first)

    def test_keys_alone_are_enough(self):
        self.assertEqual(browser.run("return document.activeElement.id;"), "text")
        browser.press("o", "n", "e")
        browser.press("Enter", held=["Shift"])
        browser.press("t", "w", "o")
        # While an input method composes, Enter is its own.
        browser.run("document.getElementById('text').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}));")
        self.assertEqual(self.mock.requests, [])
        browser.press("Enter")
        browser.wait(ANSWERED)
        self.assertEqual(self.last_request()["messages"][0]["content"], "one\ntwo")
        self.assertEqual(browser.run("return document.activeElement.id;"), "text")
        # Once around: everything that can be pressed is reached, seen, and has a name.
        reached = []
        for _ in range(60):
            browser.press("Tab")
            name = browser.run("""const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
                const name = node.getAttribute('aria-label') || node.labels?.[0]?.textContent || node.textContent.trim();
                const seen = node.id === 'text' || style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
                return node === document.body ? '' : `${name}${seen && box.width > 0 ? '' : ' UNSEEN'}`;""")
            if name == "Message" or name in reached[:1]:
                break
            reached.append(name)
        for wanted in ("Skip to the message field", "Dark or light", "Settings", "New conversation", "Conversation", "Copy", "Edit", "Retry", "Delete"):
            self.assertIn(wanted, reached + ["Message"])
        self.assertEqual([name for name in reached if "UNSEEN" in name], [])
        # A dialog keeps the focus and gives it back.
        browser.run("document.getElementById('open-settings').focus();")
        browser.press("Enter")
        browser.wait("document.getElementById('settings').open && document.activeElement.closest('#settings')")
        browser.press("Escape")
        self.assertEqual(browser.run("return document.activeElement.id;"), "open-settings")

    def test_what_screen_readers_are_told(self):
        browser.run("""window.heard = []; new MutationObserver(() => { const text = document.getElementById('live').textContent; if (text) heard.push(text); })
            .observe(document.getElementById('live'), {childList: true, characterData: true, subtree: true});""")
        self.talk("long")
        browser.wait("heard.length > 0")
        heard = browser.run("return heard;")
        self.assertEqual(len(heard), 1)  # not each token
        self.assertTrue(heard[0].startswith("Answer: word0 word1 "))
        unnamed = browser.run("""return [...document.querySelectorAll('button, input, textarea, select, [role], main, nav, dialog')].filter((node) =>
            !node.getAttribute('aria-label') && !node.getAttribute('aria-labelledby') && !node.labels?.length && !node.textContent.trim()
            && node.id !== 'live').map((node) => node.outerHTML);""")
        self.assertEqual(unnamed, [])
        self.assertEqual(browser.run("return ['header', 'nav', 'main', 'footer'].map((name) => document.querySelectorAll('body ' + name).length);"), [1, 1, 1, 1])
        self.assertEqual(browser.run("return new Set([...document.querySelectorAll('[id]')].map((node) => node.id)).size"
                                     " === document.querySelectorAll('[id]').length;"), True)

    def test_thoughts_are_apart_from_the_answer_and_not_sent_back(self):
        self.talk("think")
        self.assertEqual(browser.run(f"return [{LAST}.querySelector('details div').textContent, {LAST}.querySelector('.body > p').textContent];"), ["so be it", "Done."])
        self.talk("next")
        self.assertEqual(self.last_request()["messages"][1]["content"], "Done.")

    def test_an_empty_answer_is_no_message(self):
        self.talk("empty")
        self.assertIn("An empty answer", browser.run(f"return {LAST}.querySelector('.note').textContent;"))
        self.talk("next")
        self.assertEqual([message["role"] for message in self.last_request()["messages"]], ["user"])

    def test_narrow_windows(self):
        for width, height in ((360, 640), (320, 568), (640, 360)):
            browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)
            browser.wait(f"innerWidth === {width}")
            self.assert_no_overflow()
            self.talk("hostile" if width == 320 else "markdown")
            self.assert_no_overflow()
            self.assertGreater(browser.run("return document.getElementById('scroll').clientHeight;"), height / 4)
            browser.click("#menu")
            browser.wait("document.getElementById('side').getBoundingClientRect().left === 0 && document.activeElement.id === 'new'")
            browser.press("Escape")
            browser.wait("!document.getElementById('side').checkVisibility({visibilityProperty: true})")
            browser.click("#open-settings")
            self.assert_no_overflow()
            browser.press("Escape")
            browser.wait("document.getElementById('toasts').childNodes.length < 9")

    def test_dark_and_light(self):
        def ground():
            return sum(browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);"))

        def contrasts():
            """Of texts with what is after them, the smallest."""
            return browser.run("""const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).map((x) => x / 255)
                    .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
                const behind = (node) => { for (; node; node = node.parentElement) { const color = getComputedStyle(node).backgroundColor;
                    if (!color.endsWith(', 0)')) return color; } return 'rgb(255, 255, 255)'; };
                return Math.min(...[...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.disabled
                    && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())).map((node) => {
                    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); }));""")

        self.talk("markdown")
        for scheme, is_dark in (("dark", True), ("light", False)):
            browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                                     {"name": "prefers-reduced-motion", "value": "reduce"}])
            browser.wait(f"document.documentElement.dataset.theme === '{scheme}'")
            self.assertEqual(ground() < 150, is_dark)
            self.assertGreaterEqual(contrasts(), 4.5)
        browser.click("#theme")
        self.assertLess(ground(), 150)
        browser.reload()
        browser.wait(ANSWERED)
        self.assertLess(ground(), 150)

    def test_nothing_comes_from_elsewhere(self):
        self.talk("markdown")
        addresses = browser.run("return performance.getEntries().filter((entry) => entry.name.includes('://')).map((entry) => entry.name);")
        self.assertGreater(len(addresses), 2)
        self.assertEqual([address for address in addresses if not address.startswith(self.url)], [])
        # The policy holds: what was slipped in would not run.
        self.expected_in_console = ("Content Security Policy",)
        browser.run("const node = document.createElement('div'); node.innerHTML = '<img src=x onerror=\"window.hacked = 1\">'; document.body.append(node);"
                    "const script = document.createElement('script'); script.textContent = 'window.hacked = 1'; document.body.append(script);")
        time.sleep(0.1)
        self.assertIsNone(browser.run("return window.hacked ?? null;"))


def serve_is_built():
    if not (BIN / "cria").exists() or not (BIN / "cria-convert").exists() or "CRIA_EMULATOR" in os.environ:
        return False
    return subprocess.run([BIN / "cria", "serve", "--help"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(serve_is_built(), "cria serve is not built")
class AgainstTheRealServer(PageTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="cria_web_")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        model, keys = Path(cls.folder, "demo.cria"), Path(cls.folder, "keys")
        subprocess.run([BIN / "cria-convert", mock_server.SOURCE / "models" / "demo", "-o", model, "--quiet"], check=True)
        keys.write_text(KEY + "\n", "utf-8")
        cls.log = open(Path(cls.folder, "log"), "w+", encoding="utf-8")
        cls.addClassCleanup(cls.log.close)
        cls.server = subprocess.Popen([BIN / "cria", "serve", model, "--port", "0", "--sessions", "2", "--threads", "1",
                                       "--api-key-file", keys], stdout=cls.log, stderr=cls.log)
        cls.addClassCleanup(cls.server.kill)  # nothing, where it has ended
        end = time.monotonic() + webdriver.PATIENCE_S
        while True:
            has_ended = cls.server.poll() is not None or time.monotonic() > end
            said = Path(cls.folder, "log").read_text("utf-8")
            if found := re.search(r"listening on (http://127\.0\.0\.1:\d+)\n", said):
                break
            if has_ended:
                raise RuntimeError(f"cria serve does not begin: {said}")
            time.sleep(0.05)
        cls.url = f"{found[1]}/"

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        code = cls.server.wait(webdriver.PATIENCE_S)
        assert code == 0, f"cria serve ended with {code}"

    def wait_until_ready(self):
        browser.wait("document.getElementById('model').dataset.state === 'locked'")
        browser.click("#bars button")
        browser.type("#ask-input", KEY)
        browser.press("Enter")
        super().wait_until_ready()

    def setUp(self):
        super().setUp()
        browser.run("document.getElementById('s-temperature').value = '0'; document.getElementById('s-temperature').dispatchEvent(new Event('change'));")

    def test_what_is_served_is_the_file(self):
        request = urllib.request.Request(self.url, headers={"Accept": "text/html"})  # as browsers ask
        with urllib.request.urlopen(request) as response:
            served = response.read().decode("utf-8")
            policy = response.headers["Content-Security-Policy"]
        nonce = re.search(r"'nonce-([0-9a-f]{16,})'", policy)[1]
        self.assertEqual(served.replace(nonce, "CRIA_NONCE"), mock_server.PAGE.read_text("utf-8"))
        with urllib.request.urlopen(request) as response:
            self.assertNotIn(nonce, response.read().decode("utf-8"))

    def test_a_conversation_stop_reload_edit_and_retry(self):
        self.assertEqual(browser.run("return document.getElementById('context').getAttribute('aria-valuemax');"), "512")
        self.assertRegex(browser.run("return document.getElementById('memory').textContent;"), r"^\d+\.\d MB memory$")
        self.assertIn("15", self.talk("what is 7 + 8"))
        self.assertRegex(browser.run("return document.getElementById('speed').textContent;"), r"tokens/s \u00b7 prompt")
        answer = self.talk("What is a cria?")
        self.assertIn("llama", answer)
        self.assertIn("kept from before", browser.run(f"return {LAST}.querySelector('.note').textContent;"))
        used = int(browser.run("return document.getElementById('context').getAttribute('aria-valuenow');"))
        self.assertGreater(used, 20)
        before = self.texts()
        browser.reload()
        browser.wait(f"{TEXTS}.length === 4")
        self.assertEqual(self.texts(), before)
        self.click_action(-1, "Retry")
        browser.wait(f"{TEXTS}.length === 4 && {ANSWERED}")
        self.assertEqual(self.texts(), before)  # the same request, the same bytes
        self.click_action(0, "Edit")
        browser.run("document.activeElement.value = 'what is 2 + 3';")
        browser.press("Enter")
        browser.wait(f"{TEXTS}.length === 2 && {ANSWERED}")
        self.assertIn("5", self.texts()[1])
        self.send("Tell me a long story.")
        browser.press("Escape")
        browser.wait(ANSWERED)
        self.assertRegex(browser.run(f"return {LAST}.dataset.end;"), "^(stopped|stop)$")
        self.assertIn("15", self.talk("what is 7 + 8"))

    def test_a_conversation_that_is_too_long(self):
        self.expected_in_console = ("status of 400",)
        self.talk("what is 7 + 8")
        browser.run("document.getElementById('text').value = 'Say it again. '.repeat(120);")
        self.talk("Now.")
        self.assertRegex(browser.run(f"return {LAST}.querySelector('.problem').textContent;"), r"tokens long, the model's context holds 512")

    def test_hostile_words_and_narrow_windows(self):
        browser.devtools("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=True)
        self.talk("Say <img src=x onerror=window.hacked=1> and [x](javascript:window.hacked=1)")
        self.assert_harmless()
        self.assert_no_overflow()


def main():
    for name, found in (("chromium", webdriver.CHROMIUM), ("chromedriver", webdriver.DRIVER)):
        if not found:
            print(f"skipped: there is no {name} (scripts/setup.sh --web installs it)")
            sys.exit(SKIP)
    global browser
    browser = webdriver.Browser()
    try:
        program = unittest.main(module="__main__", exit=False, verbosity=2)
    finally:
        browser.close()
    sys.exit(0 if program.result.wasSuccessful() and program.result.testsRun > 0 else 1)


if __name__ == "__main__":
    main()
