# The scripts themselves, on planted stages and programs: tests/run.sh, the quickstart, the set-up, fuzzing.
for script in tests/scripts/*_test.sh; do
  check "$script" "$script"
done
