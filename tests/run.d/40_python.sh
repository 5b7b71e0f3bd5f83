# The exporter's tests.
folders=()
for folder in weights/python/tests weights/training tests/python; do
  [ -d "$folder" ] && folders+=("$folder")
done
[ ${#folders[@]} -eq 0 ] || run_pytest "${folders[@]}"
