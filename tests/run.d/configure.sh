# shellcheck shell=bash
# Sourced by whatever builds: configure PRESET [cmake arguments], with all of the settings that the stages need, in the
# repository's root. The tree's own launcher (packaging/cmake/compile.sh) uses ccache where the machine has it.

# It starts afresh, so that nothing counts that another command, compiler or place left in the folder; in a run of tests/run.sh,
# which has a folder RUN, the first time only.
configure() {
  local preset="$1" fresh=(--fresh)
  shift
  [ ! -e "${RUN:-}/configured.$preset" ] || fresh=()
  cmake "${fresh[@]}" --preset "$preset" --log-level=NOTICE -DDPI_CUDA=OFF -DDPI_DEVELOPER_MODE=ON "$@" || return 1
  [ -z "${RUN:-}" ] || touch "$RUN/configured.$preset"
}
