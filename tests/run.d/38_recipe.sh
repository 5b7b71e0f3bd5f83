# Follows the recipes for an op and an option in copies of the tree: the op runs on every device, the program takes the option.
# when: full
check "an op added by the recipe runs on ref, cpu and cuda_emu" \
  env JOBS="$JOBS" "$PYTHON" tests/ops/recipe_test.py --build "$BUILD/recipe"
check "an option added by the recipe does what it says" \
  env JOBS="$JOBS" "$PYTHON" tests/docs/recipes_test.py --option "$BUILD/option_recipe"
