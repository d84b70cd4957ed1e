#!/usr/bin/env bash
# Writes the library as plain sources, for projects whose build knows nothing of this one (microcontrollers): one header,
# a folder of C++ and zstd's decoder in one C file, no build system. Its README says how to compile it.
#   scripts/make_source_tree.sh DIR      DIR must not exist, or be empty; -- before a name that begins with a dash
# The exact backend with the kernels of Cortex-M cores (the DSP extension, Helium) and portable ones for all others.
set -euo pipefail

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
deps=${CRIA_DEPS_DIR:-$HOME/.cache/cria/deps}
die() { printf 'make_source_tree: error: %s\n' "$*" >&2; exit 1; }

case ${1-} in
  --) shift ;;
  -*) refuse "no option $1" ;;
esac
[ $# -eq 1 ] && [ -n "$1" ] || refuse "one folder is needed"
case $1 in
  /*) dir=$1 ;;
  *) dir=./$1 ;;  # which no program takes for an option
esac
[ -d "$dir" ] || { [ ! -e "$dir" ] && [ ! -L "$dir" ]; } || die "$1 is no folder"
[ ! -d "$dir" ] || [ -z "$(ls -A "$dir")" ] || die "$1 is not empty"
row=$(sed -n 's/^  "\(zstd|.*\)"$/\1/p' "$root/cmake/dependency_versions.cmake")
IFS='|' read -r _ _ zstd_version _ zstd_sha256 _ <<<"$row"
zstd=$deps/src/zstd-$zstd_sha256
[ -f "$zstd/.cria-unpacked" ] || die "no source of zstd in $deps; scripts/setup.sh brings it"
version=$(sed -n 's/^project(cria VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")

mkdir -p "$dir/src/zstd"
out=$(cd "$dir" && pwd)
cd "$root"

# Sources and headers of the library, as runtime/CMakeLists.txt and quant/CMakeLists.txt take them for firmware.
find quant runtime -name '*.h' -o -name '*.cpp' | LC_ALL=C sort |
  grep -v -e '^quant/numbers/quantize\.' -e '^runtime/include/' -e '^runtime/backends/xnnpack/' -e '^runtime/kernels/x86/' -e '^runtime/kernels/arm/' |
  while read -r file; do
    mkdir -p "$out/src/$(dirname "$file")"
    # The public headers are one here.
    sed 's/#include <cria_\(call_grammar\|calls\|chat\|json\)\.h>/#include <cria.h>/' "$file" >"$out/src/$file"
  done

# One public header: all of them, each inside a guard of its own.
sed '/^#include <cria\(_json\)\?\.h>$/d' runtime/include/cria.h runtime/include/cria_chat.h runtime/include/cria_json.h \
  runtime/include/cria_calls.h runtime/include/cria_call_grammar.h >"$out/cria.h"

# What CMake says on the command line, said by a header: the compiler's own names tell which kernels the core can run.
cat >"$out/src/cria_config.h" <<'END'
/* What this build of the library is made of. Change a 1 to 0 to leave something out: it answers CRIA_UNSUPPORTED then, and
 * takes no room. */
#ifndef CRIA_CONFIG_H_
#define CRIA_CONFIG_H_

#ifndef CRIA_WITH_COMPRESSION
#define CRIA_WITH_COMPRESSION 1 /* load compressed models: with zstd's decoder */
#endif
#ifndef CRIA_WITH_KV_F32
#define CRIA_WITH_KV_F32 1 /* offer an f32 KV cache */
#endif
#ifndef CRIA_WITH_SAMPLING
#define CRIA_WITH_SAMPLING 1 /* sample; else decoding is greedy */
#endif
#ifndef CRIA_WITH_VARIANTS
#define CRIA_WITH_VARIANTS 0 /* compute what Llama, Qwen, Phi, Granite and SmolLM do not use */
#endif
#ifndef CRIA_WITH_EXPERTS
#define CRIA_WITH_EXPERTS 0 /* mixtures of experts */
#endif
#ifndef CRIA_WITH_LATENT
#define CRIA_WITH_LATENT 0 /* latent attention */
#endif
#ifndef CRIA_WITH_RECURRENT
#define CRIA_WITH_RECURRENT 0 /* short convolutions, delta rules and state spaces */
#endif
#ifndef CRIA_WITH_NFC
#define CRIA_WITH_NFC 1 /* put text into Unicode's normalization form C where a tokenizer wants it: 33 KB of tables */
#endif
#ifndef CRIA_WITH_REASONS
#define CRIA_WITH_REASONS 1 /* say why a file is refused, not only that it is: 3 KB of text */
#endif
#ifndef CRIA_WITH_TOOLS
#define CRIA_WITH_TOOLS 1 /* tools, calls and results in conversations: 10 KB */
#endif
#ifndef CRIA_WITH_EMBEDDINGS
#define CRIA_WITH_EMBEDDINGS 1 /* give hidden rows and embeddings of texts: 400 bytes, and cria_embed where it is called */
#endif
#define CRIA_WITH_XNNPACK 0

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#define CRIA_KERNELS_HELIUM 1
#define CRIA_KERNELS_DSP 0
#define CRIA_BUILT_KERNELS "helium "
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && __ARM_ARCH_PROFILE == 'M'
#define CRIA_KERNELS_HELIUM 0
#define CRIA_KERNELS_DSP 1
#define CRIA_BUILT_KERNELS "dsp "
#else
#define CRIA_KERNELS_HELIUM 0
#define CRIA_KERNELS_DSP 0
#define CRIA_BUILT_KERNELS ""
#endif

#endif
END
for file in quant/format/built_in.h runtime/base/features.h runtime/kernels/select_kernels.cpp quant/text/nfc.h quant/text/nfc.cpp quant/text/chat_text.cpp runtime/decode/step.cpp; do
  { echo '#include "cria_config.h"'; cat "$out/src/$file"; } >"$out/file"
  mv "$out/file" "$out/src/$file"
done
# A kernel's file is empty for cores that have not its instructions.
for ending in dsp helium; do
  for file in "$out"/src/runtime/kernels/mcu/*_"$ending".cpp; do
    { printf '#include "cria_config.h"\n#if CRIA_KERNELS_%s\n' "${ending^^}"; cat "$file"; echo '#endif'; } >"$out/file"
    mv "$out/file" "$file"
  done
done

# zstd's decoder, as its own script puts it into one file.
log=$(cd "$zstd/build/single_file_libs" &&
  python3 combine.py -r ../../lib -x legacy/zstd_legacy.h -o "$out/src/zstd/zstddeclib.c" zstddeclib-in.c 2>&1) || die "$log"
cp "$zstd/lib/zstd.h" "$zstd/lib/zstd_errors.h" "$zstd/LICENSE" "$out/src/zstd/"
cp LICENSE "$out/"

cat >"$out/README.md" <<END
# cria $version, as sources

\`cria.h\` is the library's interface; \`src/\` is all there is to compile, \`src/zstd\` of it zstd $zstd_version's decoder
(BSD-3-Clause, \`src/zstd/LICENSE\`). Generated by cria's \`scripts/make_source_tree.sh\`. Any C++20 compiler takes it; its
objects go into your project, or into a library:

\`\`\`sh
find src -name '*.cpp' | xargs -P "\${JOBS:-4}" -n 1 \${CXX:-g++} -std=c++20 \${FLAGS:--O2} -ffp-contract=off -fno-exceptions \\
  -fno-rtti -ffunction-sections -fdata-sections -I. -Isrc -Isrc/zstd -c
\${CC:-gcc} \${FLAGS:--O2} -ffunction-sections -fdata-sections -c src/zstd/zstddeclib.c
\${AR:-ar} rcs libcria.a *.o
\`\`\`

For a Cortex-M, \`CXX=arm-none-eabi-g++ CC=arm-none-eabi-gcc AR=arm-none-eabi-ar\` and in \`FLAGS\` the core, for example
\`-Os -mthumb -march=armv7e-m+fp -mfloat-abi=hard\`, and \`-fno-math-errno\`. Kernels are chosen by what the compiler says of the
core: the DSP extension's, Helium's, or portable ones. \`-ffp-contract=off\` is what keeps the bits of every other target.

Programs include \`cria.h\` and are linked with \`libcria.a\` and libm; there is no heap, no file, no thread in it.
\`src/cria_config.h\` says what can be left out; without compression \`src/zstd/zstddeclib.c\` is not needed.
END
echo "$out: $(find "$out/src" -name '*.cpp' -o -name '*.c' | wc -l) sources"
