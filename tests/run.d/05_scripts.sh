# The scripts themselves: this runner on planted stages, and the set-up beside another package manager.
for script in tests/scripts/*_test.sh; do
  check "$script" "$script"
done
