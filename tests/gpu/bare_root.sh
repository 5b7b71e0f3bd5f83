#!/usr/bin/env bash
# Does a pack run where there is nothing? Makes a root folder with a shell, a few of its tools, Python with numpy and without torch, libc and libstdc++,
# and nothing else, and there runs the calls of a visit, smoke.sh and rebuild_plugin.sh on the emulated device. Needs root for chroot; status 77 without.
#
#   tests/gpu/bare_root.sh PACK FOLDER [--only STAGE]...
#
#   PACK      as tests/gpu/pack.sh made it
#   FOLDER    is replaced, and removed where all went well
#   --only    these stages alone
set -uo pipefail
if [ $# -lt 2 ] || [ "${1#-}" != "$1" ]; then
  sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"
  exit 2
fi
pack="$(realpath "$1")" root="$2"
shift 2
[ "$(id -u)" = 0 ] || { echo "skipped: chroot needs root"; exit 77; }
[ -f "$pack/VERSION.json" ] || { echo "'$pack' is no pack" >&2; exit 2; }
[ ! -e "$root" ] || [ -e "$root/visit/VERSION.json" ] || { echo "'$root' is there and no root of this script" >&2; exit 2; }
rm -rf "$root"
mkdir -p "$root"/{tmp,dev/shm,root,visit,usr/bin,usr/lib} && root="$(realpath "$root")"
ln -s usr/bin "$root/bin" && ln -s usr/lib "$root/lib" && ln -s usr/lib "$root/lib64"

# with_libraries FILE...: puts the libraries that they name beside them.
with_libraries() {
  ldd "$@" 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r library; do cp -Ln "$library" "$root/usr/lib/"; done
}
tools="bash sh env cat chmod cp date df dirname basename find grep gzip head ls mkdir mktemp mv nproc readlink realpath rm sed sort tail tar timeout tr uname
       xargs"
for name in $tools; do
  file="$(command -v "$name")" || { echo "no $name here to copy" >&2; exit 1; }
  cp -L "$file" "$root/usr/bin/"
  with_libraries "$file"
done
python="$(readlink -f /usr/bin/python3)"
cp "$python" "$root/usr/bin/python3"
with_libraries "$python"
version="$(basename "$python")"
modules="/usr/lib/$version" numpy="$("$python" -c 'import numpy, os; print(os.path.dirname(numpy.__file__))')"
(cd / && find "${modules#/}" "${numpy#/}" \( -name __pycache__ -o -name tests -o -name test \) -prune -o -type f -print0 | cpio -p0dmL --quiet "$root") 2>/dev/null ||
  (cd / && cp -rL --parents "${modules#/}" "${numpy#/}" "$root/")
find "$root/${modules#/}" "$root/${numpy#/}" -name '*.so' -print0 | while IFS= read -r -d '' file; do with_libraries "$file"; done
cp -L "$("${CXX:-g++}" -print-file-name=libstdc++.so.6 2>/dev/null || echo /usr/lib/x86_64-linux-gnu/libstdc++.so.6)" "$root/usr/lib/"
for name in null zero urandom; do mknod -m 666 "$root/dev/$name" c 1 "$(case $name in null) echo 3 ;; zero) echo 5 ;; *) echo 9 ;; esac)"; done
cp -r "$pack/." "$root/visit/"
rm -rf "$root/visit/bin" "$root/visit/lib" # it unpacks itself
chmod 1777 "$root/tmp" "$root/dev/shm"

failed=0
# inside NAME STATUS COMMAND...: in the root, with nothing of this environment.
inside() {
  local name="$1" want="$2" status=0
  shift 2
  env -i HOME=/root PATH=/usr/bin "$(command -v chroot || echo /usr/sbin/chroot)" "$root" "$@" </dev/null >"$root/tmp/log" 2>&1 || status=$?
  if [ $status -eq "$want" ]; then
    echo "passed: $name"
  else
    failed=1
    echo "FAILED: $name, status $status:"
    tail -25 "$root/tmp/log"
  fi
}
inside "its Python has numpy" 0 python3 -c 'import numpy'
inside "and no torch" 1 python3 -c 'import torch'
for call in A B C; do
  only=()
  while read -r stage _; do
    case " $* " in *" $stage "*) only+=(--only "$stage") ;; esac
  done < <(bash "$pack/tests/gpu/validate.sh" --list | grep "^$call")
  [ $# = 0 ] || [ ${#only[@]} -gt 0 ] || continue
  inside "call $call" 0 bash /visit/tests/gpu/validate.sh "$call" --dry-run "${only[@]}" --out visit_out
  grep -E "^${call}[0-9]" "$root/tmp/log"
done
inside "smoke.sh" 0 bash /visit/tests/gpu/smoke.sh --dry-run --only A0 --only A1 --out smoke_out
inside "rebuild_plugin.sh says what it lacks" 1 bash /visit/tests/gpu/rebuild_plugin.sh
grep -qE 'made without a GPU plugin|no nvcc' "$root/tmp/log" || { failed=1; echo "FAILED: rebuild_plugin.sh: $(tail -3 "$root/tmp/log")"; }
if [ -f "$root/visit/lib/backends/libdpi_cuda.so" ]; then
  inside "the GPU's plugin loads and says why it is not used" 0 env LD_LIBRARY_PATH=/visit/lib DPI_BACKEND_DIR=/visit/lib/backends /visit/bin/dpi devices --json
  grep -q '"cuda"' "$root/tmp/log" || { failed=1; echo "FAILED: no word about the plugin: $(tail -3 "$root/tmp/log")"; }
fi
[ $failed = 1 ] || rm -rf "$root"
exit $failed
