#!/usr/bin/env bash
# Sets the machine up, builds, and runs tests through ctest. Which tests, the lane says:
#   scripts/test.sh                      the default lane
#   scripts/test.sh --changed [COMMIT]   what depends on the files that differ from COMMIT (default: main)
#   scripts/test.sh --all                everything
#   scripts/test.sh --target NAME...     these builds alone, whole (--target before each): release, dev, tsan, aarch64, armv7,
#                                        cortex-m33, cortex-m55, cortex-m4
#   scripts/test.sh --help               this, and what each lane runs
# Ends with how long each part took, the tests and translation units that took longest, and what failed or was skipped.
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
known="release dev tsan aarch64 armv7 cortex-m33 cortex-m55 cortex-m4"

# setup_TARGET: what it needs beyond the basics; presets_TARGET where it is not the preset of its name.
setup_release() { scripts/setup.sh --test $([ "$lane" = all ] && echo --package --web); }
setup_aarch64() { scripts/setup.sh --test --package --aarch64; }
setup_armv7() { scripts/setup.sh --test --package --armv7; }
setup_cortex-m55() { scripts/setup.sh --test --cortex-m; }
setup_cortex-m33() { setup_cortex-m55; }
setup_cortex-m4() { setup_cortex-m55; }
presets_cortex-m55() { echo cortex-m55 cortex-m55-helium; }

setup() {
  if declare -F "setup_$1" >/dev/null; then "setup_$1"; else scripts/setup.sh --test; fi
}
presets() {
  if declare -F "presets_$1" >/dev/null; then "presets_$1"; else echo "$1"; fi
}

# The rows of a list in cmake/Lanes.cmake.
rows() { sed -n "/^set($1\$/,/)\$/s/^  \"\(.*\)\")\?\$/\1/p" "$root/cmake/Lanes.cmake"; }

usage() {
  local name what minutes when
  sed -n 's/^#   //p' "${BASH_SOURCE[0]}"
  while IFS='|' read -r name what minutes when; do
    printf '\nlane %s: %s minutes (first run, again) on two cores, %s\n' "$name" "$minutes" "$when"
    fold -s -w 96 <<<"$what" | sed 's/^/  /'
  done < <(rows CRIA_LANES)
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
      if (n == 0 && running == "") for (i = 1; i <= m; i++) why[++n] = last[i]
      if (running != "") why[++n] = "it ended in " running
      running = ""
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
    # Of a program of many cases: which one failed, or was running when the program ended.
    /^\[ RUN      \] / { running = $4; next }
    /^\[ +(OK|FAILED|SKIPPED) +\] / { running = ""; if (/^\[  FAILED  \] .*ms\)$/) why[++n] = substr($0, 1, 300); next }
    /^(FAIL|ERROR): |^(FAILED|E )|Error(:|$)|[Ee]xception|Expired: |: Failure$|Sanitizer|error: |what\(\)|Assertion/ ||
      /^ *(Which is|Actual|Expected): |^broken promise: / { why[++n] = substr($0, 1, 300) }
    END { say_why() }' most=8
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

does_not_build() { summary+=("== $1" "it does not build" "$(build_errors "$1")"); }

# logged PRESET COMMAND...: its output goes to the preset's build log too.
logged() { local log=build/$1/build.log; shift; "$@" 2>&1 | tee -a "$log"; }

# run PRESET [TESTS]: builds and tests it, or what of it is in the lane, or with TESTS what has such a name; leaves the times
# and ctest's closing line in the summary.
run() {
  local preset=$1 tests=${2:-} status=0 begin=$SECONDS built since build=() choice=()
  since=$(date +%s)
  echo "== $preset, lane $lane"
  mkdir -p "build/$preset"
  : >"build/$preset/build.log"
  logged "$preset" cmake --preset "$preset" || { does_not_build "$preset"; return 1; }
  if [ -n "$tests" ]; then
    choice=(-R "$tests")
    build=(--target $(ctest --preset "$preset" --show-only=json-v1 "${choice[@]}" | python3 tests/tools/test_report.py targets))
  elif [ "$lane" = default ]; then
    choice=(-L '^default$') build=(--target lane_default)
  fi  # else, with --target or in the lane "all", it is everything
  logged "$preset" cmake --build --preset "$preset" --parallel "$(nproc)" "${build[@]}" || { does_not_build "$preset"; return 1; }
  built=$SECONDS
  : >"build/$preset/ctest.log"  # of this run alone
  # One more than there are processors: some tests wait for clocks. The output of what passes is kept whole, for what it skips.
  ctest --preset "$preset" --parallel "$(($(nproc) + 1))" --output-log "build/$preset/ctest.log" \
    --test-output-size-passed 10000000 "${choice[@]}" || status=1
  case $preset in release | dev | tsan) ;; *) measured "$preset" ;; esac
  summary+=("== $preset: built in $(minutes $((built - begin))), tested in $(minutes $((SECONDS - built)))"
    "$(plain <"build/$preset/ctest.log" | grep -E '^[0-9]+% tests passed' || echo "no test ran to its end")")
  if [ -s "build/$preset/ctest.log" ] && [ $status != 0 ]; then summary+=("$(failures "$preset")"); fi
  python3 tests/tools/test_report.py slowest "build/$preset" "$since" >"build/$preset/slowest.txt" && reports+=("build/$preset/slowest.txt")
  return $status
}

# The files that differ from a commit, and those that are new.
changed_files() {
  git diff --name-only "$(git merge-base HEAD "$1")"
  git ls-files --others --exclude-standard
}

# One expression for the names of the tests that files of standard input have to do with (CRIA_CHANGED).
tests_of_files() {
  local file row path tests group found=() map
  mapfile -t map < <(rows CRIA_CHANGED)
  while read -r file; do
    for row in "${map[@]}"; do
      path=${row%% => *} tests=${row#* => }
      if [[ $file =~ $path ]]; then
        group=${BASH_REMATCH[1]:-}
        found+=("${tests//@1@/"${group//\//.}"}")
      fi
    done
  done
  printf '%s\n' "${found[@]}" | sort -u | paste -sd '|'
}

# In a function, so that bash has read it all before it begins: the file may change meanwhile.
main() {
  local required=() optional=() status=0 target preset base=main tests=
  lane=default
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) usage; exit 0 ;;
      --all) lane=all ;;
      --changed)
        lane=changed
        if [ $# -gt 1 ]; then base=$2; shift; fi ;;
      --target)
        [[ $# -gt 1 && " $known " == *" $2 "* ]] || { usage >&2; exit 2; }
        required+=("$2")
        shift ;;
      *) usage >&2; exit 2 ;;
    esac
    shift
  done
  cd "$root"
  summary=() reports=()

  # A board is left out, and said to be, where its tools cannot be installed.
  case $lane,${#required[@]} in
    default,0) required=(release dev) optional=(cortex-m33) ;;
    default,*) lane=all ;;
    all,0)
      required=(release dev) optional=(cortex-m33 cortex-m55 cortex-m4)
      export CRIA_TEST_RANDOM_SEED=${CRIA_TEST_RANDOM_SEED:-$RANDOM}
      summary+=("== CRIA_TEST_RANDOM_SEED=$CRIA_TEST_RANDOM_SEED") ;;
    changed,0)
      tests=$(changed_files "$base" | tests_of_files)
      [ -n "$tests" ] || { echo "nothing differs from $base that a test depends on"; exit 0; }
      required=(release) ;;
    *) usage >&2; exit 2 ;;
  esac
  for target in "${required[@]}"; do setup "$target"; done
  for target in "${required[@]}" "${optional[@]}"; do
    if [[ " ${optional[*]} " == *" $target "* ]]; then
      setup "$target" || { summary+=("== $target: left out, its tools cannot be installed"); continue; }
    fi
    for preset in $(presets "$target"); do run "$preset" "$tests" || status=1; done
  done
  [ ${#reports[@]} -eq 0 ] || python3 tests/tools/test_report.py join "${reports[@]}"
  printf '%s\n' "" "${summary[@]}" "== lane $lane: $(minutes "$SECONDS")"
  exit $status
}

main "$@"
