"""What a process holds of memory is what was planned, to a tenth. A machine that is short of memory may take some of it back."""
import json
import re
import unittest

import checkpoints
import cria_cli as cli


@unittest.skipIf(cli.IS_SANITIZED or cli.IS_EMULATED, "sanitizers and emulators hold memory of their own")
class ResidentMemory(unittest.TestCase):
    def test_peak_memory_is_within_ten_percent_of_the_plan(self):
        for options in ((), ("--compress", "none")):
            for backend in cli.backends():
                model = cli.model(*options, *cli.options_for(backend))
                plan = cli.plan_for("--backend", backend, model=model)
                result = cli.cria("run", model, "-p", "Once upon a time", "-n", "64", "--greedy", "--verbose",
                                  "--backend", backend)
                self.assertEqual(result.code, cli.DONE, result.err)
                peak = int(re.search(r"peak resident ([\d,]+) bytes", result.err).group(1).replace(",", ""))
                self.assertLessEqual(peak, 1.10 * plan["resident_bytes"] + 8e6)

    def test_snapshots_take_what_is_planned_for_them(self):
        model = cli.converted(checkpoints.lfm2("lfm2_of_a_size", 2048, width=512, ffn=2048, n_layers=9))
        a_snapshot = 6 * 2 * 512 * 4  # convolutions, each with two rows
        planned, peak = {}, {}
        for n in (0, 4, 256):
            options = ("--snapshots", str(n), "--backend", "exact")
            planned[n] = cli.plan_for(*options, model=model)
            result = cli.cria("run", model, "-p", "Once upon a time", "-n", "64", "--greedy", "--verbose", *options)
            self.assertEqual(result.code, cli.DONE, result.err)
            peak[n] = int(re.search(r"peak resident ([\d,]+) bytes", result.err).group(1).replace(",", ""))
            self.assertLessEqual(peak[n], 1.10 * planned[n]["resident_bytes"] + 8e6)
            self.assertEqual(planned[n]["kv_cache_bytes"] - planned[0]["kv_cache_bytes"], n * a_snapshot)
        self.assertLess(0.5 * 256 * a_snapshot, peak[256] - peak[0])
        self.assertLess(peak[256] - peak[0], 1.5 * 256 * a_snapshot)

    def test_a_session_takes_what_is_planned_for_it(self):
        """What the machine holds grows by the sessions' bytes, all of which a full context touches."""
        def row_of(n):
            done = cli.cria("bench", cli.model(), "-p", "8", "-n", "511", "-r", "1", "--kv", "f32", "--backend", "exact",
                            "--sessions", str(n), "--json")
            return json.loads(done.out)["results"][0]
        one, many = row_of(1), row_of(17)
        self.assertEqual([speed["sessions"] for speed in many["sessions"]], [17])
        self.assertEqual(many["sessions"][0]["decode_tokens_per_s"], many["sessions"][0]["tokens_per_second"]["median"])
        planned = many["memory_plan_bytes"] - one["memory_plan_bytes"]
        of_sessions = 16 * cli.plan_for("--kv", "f32", "--backend", "exact", "--sessions", "17")["session"]["total_bytes"]
        self.assertLess(abs(planned - of_sessions), 0.05 * of_sessions)  # a workspace for 17 turns has rows of logits
        resident = many["peak_resident_bytes"] - one["peak_resident_bytes"]
        self.assertLess(0.5 * planned, resident, (one, many))
        self.assertLess(resident, 1.1 * planned, (one, many))


if __name__ == "__main__":
    cli.main()
