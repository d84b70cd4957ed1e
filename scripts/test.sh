#!/usr/bin/env bash
# Sets the machine up, builds, and runs every test through ctest: release; the firmware for cortex-m33 under an emulator, what
# is labelled short; dev (the address and undefined-behaviour sanitizers, without what is slow or repeats release at length,
# which CMakePresets.json names); then more firmware: cortex-m55 with and without Helium, and what is short for cortex-m4. A
# firmware is left out, and said to be, when its tools cannot be installed; those behind dev, when they would begin after 34
# minutes. Ends with how long each took.
#   scripts/test.sh [--target NAME]...   only these, whole; nothing is left out. More targets: aarch64 and armv7 under
#                                        an emulator, tsan (the thread sanitizer)
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
known="release dev cortex-m55 cortex-m33 cortex-m4 aarch64 armv7 tsan"
last_start=$((34 * 60))  # seconds after which no firmware behind dev begins

# setup_TARGET: what it needs beyond scripts/setup.sh's basics; presets_TARGET where it is not the preset of its name.
setup_release() { scripts/setup.sh --package --web; }
setup_aarch64() { scripts/setup.sh --package --aarch64; }
setup_armv7() { scripts/setup.sh --package --armv7; }
setup_cortex-m55() { scripts/setup.sh --cortex-m; }
setup_cortex-m33() { setup_cortex-m55; }
setup_cortex-m4() { setup_cortex-m55; }
presets_cortex-m55() { echo cortex-m55 cortex-m55-helium; }

setup() {
  if declare -F "setup_$1" >/dev/null; then "setup_$1"; else scripts/setup.sh; fi
}
presets() {
  if declare -F "presets_$1" >/dev/null; then "presets_$1"; else echo "$1"; fi
}

# 754 -> "12 min 34 s"
minutes() { echo "$(($1 / 60)) min $(($1 % 60)) s"; }

# What tests of a cross build measured or sampled, from ctest's log.
measured() {
  sed -n -E -e '/peak RAM:/p' -e '/instructions a .*token/p' -e '/^image  /,/^cria_firmware_minimal/p' \
    -e '/^(flips|sizes) /p' -e '/results compared/p' -e '/^(cortex-[a-z0-9]+: )?[0-9]+ of [0-9]+ (smaller arenas|bits|lengths)/p' \
    -e '/^(cortex-[a-z0-9]+: )?[0-9]+ allocations in/p' \
    "build/$1/Testing/Temporary/LastTest.log"
}

# What failed in ctest's log of a preset: each test's name and the last lines of its output that say why, or its last lines.
# The end of a log is all that some see of it.
failures() {
  plain <"build/$1/ctest.log" | awk '
    function say_why(i) {
      if (n == 0) for (i = 1; i <= m; i++) why[++n] = last[i]
      for (i = n > most ? n - most + 1 : 1; i <= n; i++) print "    " why[i]
      n = m = 0
    }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / || /^[0-9]+% tests passed/ { say_why(); head = ""; fails = 0 }
    # What cannot be started has its state on a line of its own.
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: [^*]*$/ && !/ Passed / { head = $0; next }
    head != "" && /^\*\*\*/ { $0 = head $0; head = "" }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
      fails = /\*\*\*/ && !/\*\*\*Skipped/ && !/\(Disabled\)/
      if (fails) { sub(/^ *[0-9]+\/[0-9]+ Test +#/, "  "); sub(/ \.+(\*\*\*)?/, ": "); sub(/\*\*\*/, " "); print }
      next
    }
    !fails || /^ *Start +[0-9]+: / || /^ *$/ { next }
    { if (m == most) { for (i = 1; i < m; i++) last[i] = last[i + 1] } else { m++ }; last[m] = substr($0, 1, 300) }
    /^(FAIL|ERROR): |^(FAILED|E )|Error(:|$)|[Ee]xception|Expired: |: Failure$|Sanitizer|error: |what\(\)|Assertion/ ||
      /^ *(Which is|Actual|Expected): |^broken promise: / { why[++n] = substr($0, 1, 300) }
    END { say_why() }' most=6
}

# Without a terminal's colours, and as ASCII: other bytes may be no text in this locale.
plain() { LC_ALL=C tr -d '\000\200-\377' | sed 's/\x1b\[[0-9;]*[mK]//g'; }

# The first things that a build complained of; CMake's reason is two lines below. Commands of what fails are in its log too,
# and long.
build_errors() {
  plain <"build/$1/build.log" | awk '
    /(^|[^-=])[Ee]rror: |^FAILED: |: (undefined reference to|multiple definition of|cannot find -l)/ && left == 0 { left = 1 }
    /^([^ ]*[\/-])?ld(\.[a-z]+)?:/ && !/ warning: |: in function / && left == 0 { left = 1 }
    /CMake Error/ { left = 3 }
    left > 0 && n < 6 && !/^ *$/ { left--; n++; print substr($0, 1, 300) }
    END { if (n == 0) print "see " file }' file="build/$1/build.log"
}

# run PRESET [short]: builds and tests it, or what is labelled short; leaves the times and ctest's closing line in the
# summary.
run() {
  echo "== $1${2:+, $2}"
  local status=0 begin=$SECONDS built
  mkdir -p "build/$1"
  { cmake --preset "$1" && cmake --build --preset "$1" --parallel "$(nproc)" ${2:+--target "firmware_$2"}; } 2>&1 |
    tee "build/$1/build.log" || { summary+=("== $1" "it does not build" "$(build_errors "$1")"); return 1; }
  built=$SECONDS
  : >"build/$1/ctest.log"  # of this run alone
  ctest --preset "$1" --parallel "$(nproc)" --output-log "build/$1/ctest.log" ${2:+-L "^$2\$"} || status=1
  case $1 in release | dev | tsan) ;; *) measured "$1" ;; esac
  summary+=("== $1${2:+, $2}: built in $(minutes $((built - begin))), tested in $(minutes $((SECONDS - built)))"
    "$(plain <"build/$1/ctest.log" | grep -E '^[0-9]+% tests passed' || echo "no test ran to its end")")
  if [ -s "build/$1/ctest.log" ] && [ $status != 0 ]; then summary+=("$(failures "$1")"); fi
  return $status
}

# In a function, so that bash has read it all before it begins: the file may change meanwhile.
main() {
  local required=() targets status=0 target preset part
  while [ $# -gt 0 ]; do
    case $#:$1 in
      1:*) ;;
      *:--target | *:--preset)
        [[ " $known " != *" $2 "* ]] || { required+=("$2"); shift 2; continue; } ;;
    esac
    echo "usage: scripts/test.sh [--target ${known// /|}]..." >&2
    exit 2
  done

  targets=("${required[@]}")
  [ ${#required[@]} -gt 0 ] || { required=(release dev); targets=(release cortex-m33 dev cortex-m55 cortex-m4); }

  cd "$root"
  summary=()
  for target in "${required[@]}"; do setup "$target"; done
  for target in "${targets[@]}"; do
    part=
    if [[ " ${required[*]} " != *" $target "* ]]; then
      [ "$target" = cortex-m33 ] || [ "$SECONDS" -lt "$last_start" ] ||
        { summary+=("== $target: left out, $(minutes "$SECONDS") had gone by"); continue; }
      setup "$target" || { summary+=("== $target: left out, its tools cannot be installed"); continue; }
      case $target in cortex-m33 | cortex-m4) part=short ;; esac
    fi
    for preset in $(presets "$target"); do run "$preset" $part || status=1; done
  done
  printf '%s\n' "" "${summary[@]}" "== all: $(minutes "$SECONDS")"
  exit $status
}

main "$@"
