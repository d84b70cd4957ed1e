#!/usr/bin/env bash
# Builds cria, converts small trained models every way it knows and llama.cpp's, and says what each loses: bits a weight,
# perplexity over f32, KL divergence, how often the likeliest token stays the same. Needs the folder of references beside
# this repository (models, texts, and tools/peers, which runs llama.cpp from Debian's packages; root, 3 GB).
#   scripts/quality.sh [--models story,stories260K,demo] [--model DIR --text FILE]... [--no-peers] [--peers FILE]
#                      [--json FILE] [--plot docs/images/quantization.svg]
#   --model, --text   a checkpoint of one's own, and a text that it was not trained on
#   --no-peers        cria alone
set -euo pipefail

exec "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/run_built.sh" quality "$@"
