#!/bin/sh
# The compiler launcher of every build: compile.sh COMPILER ARGUMENTS... runs the compiler through ccache where the machine has it, else
# plain. The command line is the same either way, so that a build begun before ccache was installed goes on.
#
# Paths below the tree's root count as relative ones, so that every copy of the tree finds the same objects in the cache. A caller that
# sets CCACHE_BASEDIR, empty perhaps, decides that itself.
command -v ccache >/dev/null || exec "$@"
if [ -z "${CCACHE_BASEDIR+set}" ]; then
  CCACHE_BASEDIR="$(cd "$(dirname "$0")/../.." && pwd -P)"
  export CCACHE_BASEDIR CCACHE_NOHASHDIR=1
fi
exec ccache "$@"
