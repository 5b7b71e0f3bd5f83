#!/usr/bin/env bash
# `dpi verify` of every demo and every recorded bundle, in each precision on each instruction set that the processor has: verify_sets.sh LEAST COMMAND...
# COMMAND runs dpi, under an emulator if need be. So many pairs of precision and set as LEAST must have run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
least="$1"
shift
bundles=(weights/demo/*.h5 tests/e2e/golden/*.h5 tests/e2e/op_bundles/*.h5)
[ ${#bundles[@]} -ge 40 ] || { echo "only ${#bundles[@]} bundles"; exit 1; }

# Golden rows have the training framework's scores in float32: a bundle's own tolerance holds for fp32 alone.
tolerance() {  # PRECISION BUNDLE
  case "$1 $2" in
    fp32*) ;;
    bf16*) echo --tolerance 0.02 ;;
    *msweb_can*) echo --tolerance 0.3 ;;  # its co-actions multiply what int8 rounded
    int8*) echo --tolerance 0.05 ;;
  esac
}

ran=0 failed=0
for pair in fp32:{scalar,avx2,avx512,neon} bf16:{scalar,avx2,avx512,avx512_bf16,amx,neon,neon_mmla} int8:{scalar,avx2,avx512,avx512_vnni,amx,neon,neon_dot,neon_mmla}; do
  precision="${pair%:*}" isa="${pair#*:}" good=0 lacks=""
  for bundle in "${bundles[@]}"; do
    # shellcheck disable=SC2046
    if said="$("$@" verify "$bundle" --device cpu --precision "$precision" --option "isa=$isa" $(tolerance "$precision" "$bundle") 2>&1)"; then
      good=$((good + 1))
    elif grep "isa=$isa: this processor lacks it" <<<"$said" >/dev/null; then
      lacks=yes
      break
    else
      echo "$precision on $isa, $bundle: $said"
      failed=$((failed + 1))
    fi
  done
  [ -z "$lacks" ] || continue
  echo "$precision on $isa: $good of ${#bundles[@]} verified"
  ran=$((ran + 1))
done
[ $ran -ge "$least" ] || { echo "$ran pairs of precision and instruction set, expected $least"; exit 1; }
[ $failed -eq 0 ]
