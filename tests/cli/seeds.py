"""Seeds of tests that explore: the fixed ones of a test, and one more where somebody asks for it."""
import os


def seeds_of_test(*fixed):
    """The fixed ones and that of CRIA_TEST_RANDOM_SEED (scripts/test.sh --all draws one), which is printed before it is used."""
    more = os.environ.get("CRIA_TEST_RANDOM_SEED")
    if not more:
        return list(fixed)
    print(f"CRIA_TEST_RANDOM_SEED={more}", flush=True)
    return [*fixed, int(more)]
