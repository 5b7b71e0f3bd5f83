# shellcheck shell=bash
# Sourced by whatever builds: configure PRESET [cmake arguments], with all of the settings that the stages need, in the
# repository's root. With ccache if the machine has it: every copy of the tree finds the same objects there, because paths below
# the root count as relative ones.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1

# It starts afresh, so that nothing counts that another command, compiler or place left in the folder; in a run of tests/run.sh,
# which has a folder RUN, the first time only.
configure() {
  local preset="$1" launcher=() fresh=(--fresh)
  shift
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  [ ! -e "${RUN:-}/configured.$preset" ] || fresh=()
  cmake "${fresh[@]}" --preset "$preset" --log-level=NOTICE -DDPI_CUDA=OFF -DDPI_DEVELOPER_MODE=ON "${launcher[@]}" "$@" || return 1
  [ -z "${RUN:-}" ] || touch "$RUN/configured.$preset"
}
