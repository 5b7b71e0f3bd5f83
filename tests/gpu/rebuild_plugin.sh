#!/usr/bin/env bash
# On a machine that refuses the pack's prebuilt plugin: builds it from the pack's own sources with that machine's nvcc and g++, all units at
# once, and puts it in place. The commands are those of the build that made the pack. Called by stages/a1_accept.py.
set -euo pipefail
pack="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
commands="$pack/tests/gpu/rebuild_commands.txt"
[ -f "$commands" ] || { echo "this pack was made without a GPU plugin" >&2; exit 1; }
nvcc="$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)"
for needed in "$nvcc" g++; do
  command -v "$needed" >/dev/null || { echo "the plugin cannot be built again here: no $(basename "$needed")" >&2; exit 1; }
done
toolkit="$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
build="$(mktemp -d)"
trap 'rm -rf "$build"' EXIT
cp -r "$pack/tests/gpu/rebuild_sources/." "$build/" 2>/dev/null || true
sed -e "s#@BUILD@#$build#g; s#@SOURCE@#$pack#g; s#@TOOLKIT@#$toolkit#g" "$commands" >"$build/commands"
grep -oE '(^| )-o [^ ]+' "$build/commands" | sed 's/.*-o //' | while read -r file; do (cd "$build" && mkdir -p "$(dirname "$file")"); done
head -n -1 "$build/commands" >"$build/compile"
(cd "$build" && xargs -d '\n' -P "$(nproc)" -I{} sh -c '{}' <compile && sh -c "$(tail -1 commands)")
cp "$build/lib/dpi/backends-1/libdpi_cuda.so" "$pack/lib/backends/"
