#!/usr/bin/env bash
# Builds cria and measures it beside llama.cpp, in turns, on random models of the same shape. Prints the ratios, and writes them with
# all rounds to a new file in docs/measurements. Exits with 1 when one misses its bar by more than 5 %, with 2 when it could not
# measure. Needs the folder of references beside this repository or at $CRIA_SHARED (its tools/peers runs llama.cpp from Debian's
# packages; root, 3 GB), up to 10 GB of disk under build/compare, and a machine at rest. Another tool must know: setup; and run
# COMMAND..., with the current folder as /mnt.
#   scripts/compare.sh --shape llama-3.2-1b|tinyllama-1.1b|smollm-135m [--threads 1,2] [--rounds 5]
#   scripts/compare.sh --shape qwen3-30b-a3b-4l|deepseek-v2-lite-4l ...   with experts, cut to four layers; only int4 and 128 tokens
#   scripts/compare.sh --shape lfm2-1.2b|gemma-3-1b|qwen3.5-0.8b ...   with layers of several kinds; the same, without --depth
#                      [--isa avx2|avxvnni|avx512vnni]   both programs use it
#                      [--depth 0,4096]  also prompts of so many tokens and decoding after them (three rounds at most); without
#                                        0 these alone
#                      [--json FILE]     the run's file, in place of one in docs/measurements
#                      [--peers FILE]    the tool, when it is elsewhere
set -euo pipefail

exec "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/run_built.sh" compare "$@"
