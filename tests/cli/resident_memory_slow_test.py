"""What a process holds of memory is what was planned, to a tenth. A machine that is short of memory may take some of it back."""
import json
import re
import unittest

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
