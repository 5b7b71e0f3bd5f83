# The recipe of kernels/README.md, applied to a copy of the tree, built and run on every device.
# when: full
check "an op added by the recipe runs on ref, cpu and cuda_emu" \
  env JOBS="$JOBS" "$PYTHON" tests/ops/recipe_test.py --build "$BUILD/recipe"
