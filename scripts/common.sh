# What each script here begins with: . "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
# Where a script is, a link to it and CDPATH do not change. What it prints at a closed descriptor is lost, and lands in no file.
root=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")
{ : 3>&1; } 2>/dev/null || exec >/dev/null
{ : 3>&2; } 2>/dev/null || exec 2>/dev/null

# The lines of a script's head that say how it is called; a script with more to say has a usage_more.
usage() {
  sed -n 's/^#   //p' "$0"
  if declare -F usage_more >/dev/null; then usage_more; fi
}

refuse() { printf '%s: %s; see --help\n' "$(basename "$0" .sh)" "$*" >&2; exit 2; }

case ${1-} in -h | --help) usage; exit 0 ;; esac
