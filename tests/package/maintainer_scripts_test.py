"""What the package's scripts do when it is installed, upgraded, removed and purged: Debian Policy 9.3.3, with a service that the
administrator has enabled. A package of the unit and the scripts alone, in a root of its own; systemctl is a stand-in."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

FILES = pathlib.Path(__file__).resolve().parents[2] / "cmake/package"
SCRIPTS = ("postinst", "prerm", "postrm")
UNIT = "cria-serve.service"
WANTED = f"etc/systemd/system/multi-user.target.wants/{UNIT}"
MASK = f"etc/systemd/system/{UNIT}"
SKIP = 77
TOOLS = ("dpkg", "dpkg-deb", "deb-systemd-helper", "deb-systemd-invoke")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class MaintainerScripts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cria_scripts_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = self.folder / "root"
        (self.root / "var/lib/dpkg/updates").mkdir(parents=True)
        (self.root / "var/lib/dpkg/info").mkdir()
        for name in ("status", "available"):
            (self.root / "var/lib/dpkg" / name).touch()

    def package(self, version):
        tree = self.folder / f"cria_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(f"Package: cria\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: a\n")
        for script in SCRIPTS:
            shutil.copy(FILES / script, tree / "DEBIAN")
        (tree / "usr/lib/systemd/system").mkdir(parents=True)
        shutil.copy(FILES / UNIT, tree / "usr/lib/systemd/system")
        run("dpkg-deb", "--root-owner-group", "-b", tree, self.folder / f"cria_{version}.deb")
        return self.folder / f"cria_{version}.deb"

    def dpkg(self, *arguments):
        run("dpkg", f"--root={self.root}", f"--log={self.folder}/log", "--force-not-root", "--force-script-chrootless", *arguments)

    def enable(self):
        """As systemctl does it."""
        (self.root / WANTED).parent.mkdir(parents=True, exist_ok=True)
        (self.root / WANTED).symlink_to(f"/usr/lib/systemd/system/{UNIT}")

    def links(self):
        return sorted(str(path.relative_to(self.root)) for path in (self.root / "etc").rglob("*") if path.is_symlink()) if (self.root / "etc").exists() else []

    def test_it_is_neither_enabled_nor_masked_by_being_installed(self):
        self.dpkg("-i", self.package("1"))
        self.assertEqual(self.links(), [])
        self.dpkg("-i", self.package("2"))
        self.assertEqual(self.links(), [])
        self.dpkg("-P", "cria")
        self.assertEqual(self.links(), [])

    def test_what_the_administrator_enabled(self):
        first = self.package("1")
        self.dpkg("-i", first)
        self.enable()
        self.dpkg("-i", self.package("2"))
        self.assertEqual(self.links(), [WANTED])
        self.dpkg("-r", "cria")
        self.assertIn(MASK, self.links())
        self.assertEqual(os.readlink(self.root / MASK), "/dev/null")
        self.dpkg("-i", first)
        self.assertEqual(self.links(), [WANTED])
        self.dpkg("-r", "cria")
        self.dpkg("-P", "cria")
        self.assertEqual(self.links(), [])
        self.assertEqual([path for path in (self.root / "var/lib/systemd").rglob("*cria*")], [])

    def called(self, script, *arguments, tools=("deb-systemd-helper", "deb-systemd-invoke", "systemctl")):
        """What a script calls where systemd runs."""
        places = self.folder / "bin"
        shutil.rmtree(places, ignore_errors=True)
        places.mkdir()
        log = self.folder / "called"
        log.write_text("")
        for tool in tools:
            (places / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >> {shlex.quote(str(log))}\nexit 1\n')
            (places / tool).chmod(0o755)
        text = (FILES / script).read_text().replace("/run/systemd/system", shlex.quote(str(places)))
        run("/bin/sh", "-c", text, script, *arguments, env={"PATH": str(places)})
        return log.read_text().splitlines()

    def test_it_is_stopped_before_it_is_removed_and_at_no_other_time(self):
        self.assertEqual(self.called("prerm", "remove"), [f"deb-systemd-invoke stop {UNIT}"])
        self.assertEqual(self.called("prerm", "remove", tools=("systemctl",)), [f"systemctl --system stop {UNIT}"])
        for arguments in (("upgrade", "2"), ("failed-upgrade", "1"), ("deconfigure", "in-favour", "x", "1")):
            self.assertEqual(self.called("prerm", *arguments), [])

    def test_what_runs_runs_the_new_program_after_an_upgrade(self):
        restart = f"deb-systemd-invoke try-restart {UNIT}"
        reload = "systemctl --system daemon-reload"
        self.assertEqual(self.called("postinst", "configure", "1")[-2:], [reload, restart])
        self.assertNotIn(restart, self.called("postinst", "configure", ""))
        self.assertEqual(self.called("postinst", "triggered", "x"), [])
        self.assertEqual(self.called("postinst", "configure", "1", tools=("systemctl",)), [reload])
        self.assertEqual(self.called("postrm", "remove"), [f"deb-systemd-helper mask {UNIT}", reload])
        self.assertEqual(self.called("postrm", "purge"), [f"deb-systemd-helper purge {UNIT}", f"deb-systemd-helper unmask {UNIT}", reload])
        for what in ("upgrade", "disappear", "abort-install"):
            self.assertEqual(self.called("postrm", what), [])

    def test_scripts_run_without_systemd(self):
        for script, arguments in (("postinst", ("configure", "")), ("prerm", ("remove",)), ("postrm", ("remove",)), ("postrm", ("purge",))):
            run("/bin/sh", FILES / script, *arguments, env={"PATH": "/nowhere"})


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)} here")
        sys.exit(SKIP)
    unittest.main()
