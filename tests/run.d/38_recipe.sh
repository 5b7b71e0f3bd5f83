# Follows the recipe of kernels/README.md in a copy of the tree: the new op runs on every device.
# when: full
check "an op added by the recipe runs on ref, cpu and cuda_emu" \
  env JOBS="$JOBS" "$PYTHON" tests/ops/recipe_test.py --build "$BUILD/recipe"
