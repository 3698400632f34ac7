# Sourced by the launchers: shows on stderr what is being done, and keeps the noise in a log.
# `run_step TITLE COMMAND…` needs $step_log, the file that takes the command's output, and calls
# step_failed when the command fails. Never call it in a condition: there, bash ignores `set -e`
# inside the command.

step_number=0
step_total=0
step_failed() { exit 1; }

say() { printf '%s\n' "$*" >&2; }

# A terminal that can rewrite its last line.
is_terminal() { [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; }

# The log's last line, as far as it can be shown.
last_line() { tail -n 1 "$step_log" | tr -d '\r\033'; }

# Shows title, seconds and the log's last line until the process ends; without a terminal, one line
# every 30 s so that a slow step is not taken for a dead one.
watch_process() {
  local pid=$1 title=$2 started=$SECONDS line width
  while kill -0 "$pid" 2>/dev/null; do
    if is_terminal; then
      width=$(($(tput cols 2>/dev/null || echo 80) - 1))
      line="$title · $((SECONDS - started)) s · $(last_line)"
      printf '\r\033[K%s' "${line:0:width}" >&2
      sleep 0.2
    else
      sleep 1
      [ $(((SECONDS - started) % 30)) -ne 29 ] || say "  … $((SECONDS - started)) s · $(last_line)"
    fi
  done
  if is_terminal; then printf '\r\033[K' >&2; fi
}

# Waits quickly for short commands, so that a step of milliseconds does not take a second.
run_step() {
  local title started=$SECONDS pid status=0
  step_number=$((step_number + 1))
  title="[$step_number/$step_total] $1"
  shift
  mkdir -p "$(dirname "$step_log")"
  is_terminal || say "$title"
  "$@" >"$step_log" 2>&1 </dev/null &
  pid=$!
  sleep 0.05
  watch_process "$pid" "$title"
  wait "$pid" || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$step_log" >&2
    say "$title: failed; the whole output is in $step_log"
    step_failed
  fi
  if is_terminal; then say "$title · $((SECONDS - started)) s"; fi
}
